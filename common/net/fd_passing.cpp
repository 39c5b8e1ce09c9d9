// Sockets handed from one process to another.
#include <sys/uio.h>

#include <cerrno>

#include "common/net/descriptor_message.h"

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
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    DescriptorMessage descriptors;
    descriptors.attach(header, fd);
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
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    DescriptorMessage descriptors;
    descriptors.make_room(header);
    ssize_t got;
    do got = ::recvmsg(unix_socket, &header, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    message.resize(got > 0 ? static_cast<size_t>(got) : 0);
    Socket first = got >= 0 ? DescriptorMessage::take(header) : Socket();
    if (got < 0 && errno == ECONNRESET) return Error{Code::connection_lost, "the other process is gone"};
    if (got < 0) return Error{Code::io, "receiving a descriptor failed", static_cast<uint32_t>(errno)};
    if (got == 0 && !first.valid()) return Error{Code::connection_lost, "the other process is gone"};
    if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) return Error{Code::malformed, "a message between processes is too long"};
    return first;
}

}  // namespace warpline::net
