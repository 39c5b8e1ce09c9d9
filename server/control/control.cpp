// Sending and receiving on the socket pair, and the memory that both sides map.
#include "server/control/control.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace warpline::server {

namespace {

constexpr size_t k_max_control_bytes =
    sizeof(ControlKind) + std::max({sizeof(ReadyMessage), sizeof(SheetMessage), sizeof(TellSheetMessage)});

}  // namespace

std::string_view host_of(std::string_view peer) { return peer.substr(0, peer.rfind(':')); }

ControlChannel::~ControlChannel() {
    if (m_fd >= 0) close(m_fd);
}

Result<void> ControlChannel::send(ControlKind kind, BytesView body, int fd_to_pass) { return send(kind, body, fd_to_pass, 0); }

Result<void> ControlChannel::try_send(ControlKind kind, BytesView body, int fd_to_pass) {
    return send(kind, body, fd_to_pass, MSG_DONTWAIT);
}

Result<void> ControlChannel::send(ControlKind kind, BytesView body, int fd_to_pass, int flags) {
    iovec parts[2] = {{&kind, sizeof kind}, {const_cast<std::byte*>(body.data()), body.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (fd_to_pass >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &fd_to_pass, sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(m_fd, &message, MSG_NOSIGNAL | flags);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) return Error{Code::io, "control channel: send failed", static_cast<uint32_t>(errno)};
    return {};
}

Result<void> ControlChannel::send_text(ControlKind kind, std::string_view text) {
    TextMessage message;
    set_text(message.text, text);
    return send(kind, message);
}

Result<ControlMessage> ControlChannel::receive(bool wait) {
    std::byte buffer[k_max_control_bytes];
    iovec part{buffer, sizeof buffer};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t received;
    do {
        received = recvmsg(m_fd, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    } while (received < 0 && errno == EINTR);
    if (received == 0) return Error{Code::connection_lost, "control channel closed"};
    if (received < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return Error{Code::deadline, "control channel: nothing there"};
        return Error{Code::connection_lost, "control channel: receive failed", static_cast<uint32_t>(errno)};
    }
    ControlMessage result;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int))) {
            std::memcpy(&result.fd, CMSG_DATA(header), sizeof(int));
        }
    }
    const bool cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    if (cut || static_cast<size_t>(received) < sizeof(ControlKind)) {
        if (result.fd >= 0) close(result.fd);
        return Error{Code::malformed, "control channel: message of the wrong size"};
    }
    std::memcpy(&result.kind, buffer, sizeof(ControlKind));
    result.body.assign(buffer + sizeof(ControlKind), buffer + received);
    return result;
}

Result<std::unique_ptr<SharedCounters>> SharedCounters::create() {
    const int fd = memfd_create("warpline-session", MFD_CLOEXEC);
    if (fd < 0) return Error{Code::io, "memfd_create failed", static_cast<uint32_t>(errno)};
    if (ftruncate(fd, sizeof(SessionCounters)) != 0) {
        const int error = errno;
        close(fd);
        return Error{Code::io, "ftruncate failed", static_cast<uint32_t>(error)};
    }
    return open(fd);
}

Result<std::unique_ptr<SharedCounters>> SharedCounters::open(int fd) {
    void* memory = mmap(nullptr, sizeof(SessionCounters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        const int error = errno;
        close(fd);
        return Error{Code::io, "mmap of the session counters failed", static_cast<uint32_t>(error)};
    }
    return std::unique_ptr<SharedCounters>(new SharedCounters(fd, static_cast<SessionCounters*>(memory)));
}

SharedCounters::~SharedCounters() {
    munmap(m_counters, sizeof(SessionCounters));
    close(m_fd);
}

}  // namespace warpline::server
