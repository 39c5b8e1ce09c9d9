// Bytes and descriptors through a channel's socket, and why it ended.
#include "common/net/channel_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>

#include "common/net/descriptor_message.h"

namespace warpline::net {

namespace {

// What a refused peer may still send while we wait for it to read why.
constexpr size_t k_linger_bytes = 1u << 20;
constexpr Error k_lost{Code::connection_lost, "the connection is lost"};

void discard(int fd, std::chrono::steady_clock::time_point deadline) {
    std::byte scratch[4096];
    for (size_t total = 0; total < k_linger_bytes;) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
        pollfd entry{fd, POLLIN, 0};
        if (left <= 0 || ::poll(&entry, 1, static_cast<int>(left)) <= 0) return;
        ssize_t got = ::recv(fd, scratch, sizeof scratch, MSG_DONTWAIT);
        if (got <= 0) return;
        total += static_cast<size_t>(got);
    }
}

}  // namespace

Result<void> Channel::read_exact(MutableBytesView bytes, std::chrono::steady_clock::time_point deadline) {
    while (!bytes.empty()) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) return Error{Code::deadline, "the other side does not answer"};
        set_read_tick(left);
        bytes = bytes.subspan(WL_TRY(read(bytes)));
    }
    return {};
}

std::optional<TcpPath> Channel::path() const { return tcp_path(fd()); }
void Channel::bound_unsent(uint64_t bytes) const { net::bound_unsent(fd(), bytes); }
void Channel::discard_input(std::chrono::steady_clock::time_point deadline) { discard(fd(), deadline); }

Result<size_t> ChannelSocket::receive(MutableBytesView room, int flags) {
    for (;;) {
        const ssize_t got =
            takes_descriptor ? receive_with_descriptor(room, flags) : ::recv(socket.fd(), room.data(), room.size(), flags);
        if (got > 0) {
            emptied = static_cast<size_t>(got) < room.size();
            wire_bytes_received += static_cast<size_t>(got);
            return static_cast<size_t>(got);
        }
        if (got == 0) return ended();
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            emptied = true;
            return size_t{0};
        }
        return socket_failed(errno);
    }
}

ssize_t ChannelSocket::receive_with_descriptor(MutableBytesView room, int flags) {
    iovec part{room.data(), room.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    DescriptorMessage descriptors;
    descriptors.make_room(header);
    const ssize_t got = ::recvmsg(socket.fd(), &header, flags | MSG_CMSG_CLOEXEC);
    if (got < 0) return got;
    if (Socket came = DescriptorMessage::take(header); came.valid()) {
        descriptor_in = std::move(came);
        takes_descriptor = false;
    }
    return got;
}

Result<size_t> ChannelSocket::send(std::span<const iovec> parts, int flags) {
    msghdr header{};
    header.msg_iov = const_cast<iovec*>(parts.data());
    header.msg_iovlen = parts.size();
    for (;;) {
        const ssize_t sent = has_descriptor_out.load(std::memory_order_acquire)
                                 ? send_with_descriptor(header, flags)
                                 : ::sendmsg(socket.fd(), &header, MSG_NOSIGNAL | flags);
        if (sent > 0) return static_cast<size_t>(sent);
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
        return socket_failed(errno);
    }
}

ssize_t ChannelSocket::send_with_descriptor(msghdr header, int flags) {
    DescriptorMessage descriptors;
    MutexLock lock(descriptor_mutex);
    descriptors.attach(header, descriptor_out.fd());
    const ssize_t sent = ::sendmsg(socket.fd(), &header, MSG_NOSIGNAL | flags);
    if (sent > 0) {
        descriptor_out.close();
        has_descriptor_out.store(false, std::memory_order_release);
    }
    return sent;
}

void ChannelSocket::pass(Socket descriptor) {
    MutexLock lock(descriptor_mutex);
    descriptor_out = std::move(descriptor);
    has_descriptor_out.store(true, std::memory_order_release);
}

void ChannelSocket::set_read_tick(std::chrono::milliseconds tick) {
    timeval time{};
    time.tv_sec = tick.count() / 1000;
    time.tv_usec = static_cast<suseconds_t>(tick.count() % 1000 * 1000);
    (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    has_tick = tick.count() > 0;
}

void ChannelSocket::discard_input(std::chrono::steady_clock::time_point deadline) { discard(socket.fd(), deadline); }

void ChannelSocket::shutdown() {
    shut.store(true);
    socket.shutdown();
}

Error ChannelSocket::failed(Error error, std::string why) {
    MutexLock lock(text_mutex);
    if (text.empty()) text = std::move(why);
    return error;
}

Error ChannelSocket::socket_failed(int error) {
    if (shut.load()) return failed(k_lost, "the connection was closed here");
    if (error == ECONNRESET || error == EPIPE) ended_by_peer.store(true);
    std::string why = "the connection to " + peer_address + " is lost: ";
    return failed(Error{k_lost.code, k_lost.what, static_cast<uint32_t>(error)}, why + std::strerror(error));
}

Error ChannelSocket::ended() {
    if (shut.load()) return failed(k_lost, "the connection was closed here");
    ended_by_peer.store(true);
    return failed(k_lost, peer_address + " has closed the connection");
}

std::string ChannelSocket::explain() const {
    MutexLock lock(text_mutex);
    return text;
}

}  // namespace warpline::net
