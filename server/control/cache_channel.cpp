// Messages with several descriptors.
#include "server/control/cache_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace warpline::server {

CacheChannel::~CacheChannel() {
    if (m_fd >= 0) close(m_fd);
}

Result<void> CacheChannel::send(BytesView message, std::span<const int> files) {
    if (files.size() > k_most_asked) return Error{Code::bad_argument, "too many descriptors for a message"};
    iovec part{const_cast<std::byte*>(message.data()), message.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(k_most_asked * sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!files.empty()) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
        cmsghdr* entry = CMSG_FIRSTHDR(&header);
        entry->cmsg_level = SOL_SOCKET;
        entry->cmsg_type = SCM_RIGHTS;
        entry->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
        std::memcpy(CMSG_DATA(entry), files.data(), files.size() * sizeof(int));
    }
    ssize_t sent;
    do sent = sendmsg(m_fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent != static_cast<ssize_t>(message.size()))
        return Error{Code::io, "the other process takes no message", static_cast<uint32_t>(errno)};
    return {};
}

Result<void> CacheChannel::receive(MutableBytesView message, std::vector<int>& files, int timeout_ms) {
    pollfd watched{m_fd, POLLIN, 0};
    int ready;
    do ready = poll(&watched, 1, timeout_ms);
    while (ready < 0 && errno == EINTR);
    if (ready == 0) return Error{Code::deadline, "nothing is there"};
    iovec part{message.data(), message.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(k_most_asked * sizeof(int))];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    ssize_t got;
    do got = recvmsg(m_fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Error{Code::deadline, "nothing is there"};
    if (got <= 0) return Error{Code::connection_lost, "the other process is gone"};
    files.clear();
    for (cmsghdr* entry = CMSG_FIRSTHDR(&header); entry != nullptr; entry = CMSG_NXTHDR(&header, entry)) {
        if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(entry) + i * sizeof(int), sizeof fd);
            files.push_back(fd);
        }
    }
    if (got == static_cast<ssize_t>(message.size()) && (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) return {};
    for (const int fd : files) close(fd);
    files.clear();
    return Error{Code::malformed, "a message has a wrong size"};
}

}  // namespace warpline::server
