// What all channels do with their socket.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <span>
#include <string>

#include "common/base/mutex.h"
#include "common/net/channel.h"

// For the .cpp files that implement channels.

namespace warpline::net {

/// A connected socket with the reasons for its end, and descriptors that travel beside the bytes.
struct ChannelSocket {
    explicit ChannelSocket(Socket connected) : socket(std::move(connected)), peer_address(socket.peer_address()) {}

    Socket socket;
    const std::string peer_address;

    // The reader's.
    uint64_t wire_bytes_received = 0;
    bool has_tick = false;  // who reads looks after other things as well
    bool emptied = false;   // the socket gave less than there was room for, since it was last waited for
    bool takes_descriptor = false;
    Socket descriptor_in;

    std::atomic<bool> shut{false};           // only tells a wanted end from an unwanted one; nothing else depends on it
    std::atomic<bool> ended_by_peer{false};  // likewise
    mutable Mutex text_mutex;
    std::string text WL_GUARDED_BY(text_mutex);
    Mutex descriptor_mutex;
    std::atomic<bool> has_descriptor_out{false};
    Socket descriptor_out WL_GUARDED_BY(descriptor_mutex);

    /// Puts what the socket has into `room`. @return 0: nothing, yet @errors connection_lost
    Result<size_t> receive(MutableBytesView room, int flags);
    /// One attempt to send. @return 0: the socket takes nothing now @errors connection_lost
    Result<size_t> send(std::span<const iovec> parts, int flags);
    void pass(Socket descriptor);
    void set_read_tick(std::chrono::milliseconds tick);
    void discard_input(std::chrono::steady_clock::time_point deadline);
    void shutdown();

    Error failed(Error error, std::string why);
    Error socket_failed(int error);
    Error ended();
    std::string explain() const;

private:
    ssize_t receive_with_descriptor(MutableBytesView room, int flags);
    ssize_t send_with_descriptor(msghdr header, int flags) WL_EXCLUDES(descriptor_mutex);
};

}  // namespace warpline::net
