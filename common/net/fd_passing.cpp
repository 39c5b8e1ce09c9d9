// Sockets handed from one process to another.
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>

#include "common/net/socket.h"

namespace warpline::net {

Result<void> make_unix_pair(Socket& a, Socket& b) {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        return Error{Code::io, "no pair of sockets", static_cast<uint32_t>(errno)};
    a = Socket(fds[0]);
    b = Socket(fds[1]);
    return {};
}

Result<void> send_fd(int unix_socket, int fd, BytesView message) {
    iovec part{const_cast<std::byte*>(message.data()), message.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* entry = CMSG_FIRSTHDR(&header);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(entry), &fd, sizeof fd);
    ssize_t sent;
    do sent = ::sendmsg(unix_socket, &header, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent == static_cast<ssize_t>(message.size())) return {};
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return Error{Code::connection_lost, "the other process is gone"};
    return Error{Code::io, "passing a descriptor failed", static_cast<uint32_t>(errno)};
}

Result<Socket> receive_fd(int unix_socket, Bytes& message, size_t max_message_bytes) {
    message.resize(max_message_bytes);
    iovec part{message.data(), message.size()};
    // Room for a few, so that surplus descriptors are seen and closed instead of leaking.
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    ssize_t got;
    do got = ::recvmsg(unix_socket, &header, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    message.resize(got > 0 ? static_cast<size_t>(got) : 0);
    Socket first;
    if (got >= 0) {
        for (cmsghdr* entry = CMSG_FIRSTHDR(&header); entry; entry = CMSG_NXTHDR(&header, entry)) {
            if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
            size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < count; ++i) {
                int fd;
                std::memcpy(&fd, CMSG_DATA(entry) + i * sizeof(int), sizeof fd);
                Socket received(fd);
                if (!first.valid()) first = std::move(received);
            }
        }
    }
    if (got < 0 && errno == ECONNRESET) return Error{Code::connection_lost, "the other process is gone"};
    if (got < 0) return Error{Code::io, "receiving a descriptor failed", static_cast<uint32_t>(errno)};
    if (got == 0 && !first.valid()) return Error{Code::connection_lost, "the other process is gone"};
    if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) return Error{Code::malformed, "a message between processes is too long"};
    return first;
}

}  // namespace warpline::net
