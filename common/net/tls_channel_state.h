// What the halves of a TLS channel share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "common/net/tls_internal.h"

// What a TlsChannel consists of: for the .cpp files that implement it.

namespace warpline::net {

/// Encrypted bytes on their way between OpenSSL and the socket: those from `begin` to `end`.
struct CipherBuffer {
    std::unique_ptr<std::byte[]> memory;  // not cleared: a session that starts would wait for its pages
    size_t capacity = 0;
    size_t begin = 0;
    size_t end = 0;

    size_t size() const { return end - begin; }
    const std::byte* data() const { return memory.get() + begin; }
    std::byte* room() { return memory.get() + end; }
    size_t room_bytes() const { return capacity - end; }
    void reserve(size_t bytes) {
        if (bytes <= capacity) return;
        auto larger = std::make_unique_for_overwrite<std::byte[]>(bytes);
        std::copy_n(memory.get(), end, larger.get());
        memory = std::move(larger);
        capacity = bytes;
    }
    void append(const void* bytes, size_t count) {
        if (begin == end) begin = end = 0;
        if (room_bytes() < count) reserve(std::max(capacity * 2, end + count));
        std::memcpy(room(), bytes, count);
        end += count;
    }
};

struct Pipes {
    CipherBuffer in;
    CipherBuffer out;
    bool in_ended = false;
};

/// A BIO that reads and writes the buffers above in place; BIO_s_mem would move every byte once more.
BIO* new_pipe_bio(Pipes* pipes);

struct TlsChannel::State {
    explicit State(std::shared_ptr<TlsContext::State> shared_context, Socket connected)
        : context(std::move(shared_context)), socket(std::move(connected)), peer_address(socket.peer_address()) {}

    // Constant after the handshake.
    const std::shared_ptr<TlsContext::State> context;
    Socket socket;
    const std::string peer_address;
    std::string peer_name;
    std::string server_name;
    bool proved_by_key = false;
    uint64_t rekey_bytes = 0;

    Mutex mutex;  // for everything that OpenSSL touches
    Pipes pipes WL_GUARDED_BY(mutex);
    VerifyReport report WL_GUARDED_BY(mutex);
    std::unique_ptr<SSL, OpensslFree> ssl WL_GUARDED_BY(mutex);

    // The writer's.
    CipherBuffer sending;
    std::vector<std::byte> gathered;
    uint64_t bytes_since_rekey = 0;

    // The reader's.
    Error read_error{Code::ok};
    uint64_t wire_bytes_received = 0;
    bool has_tick = false;  // who reads looks after other things as well
    bool drained = false;   // OpenSSL has nothing more for us, and nothing has come since
    bool emptied = false;   // the socket gave less than there was room for

    std::atomic<bool> shut{false};           // only tells a wanted end from an unwanted one; nothing else depends on it
    std::atomic<bool> ended_by_peer{false};  // likewise
    mutable Mutex text_mutex;
    std::string text WL_GUARDED_BY(text_mutex);

    Error failed(Error error, std::string why) {
        MutexLock lock(text_mutex);
        if (text.empty()) text = std::move(why);
        return error;
    }
    Error socket_failed(int error) {
        if (shut.load())
            return failed(Error{Code::connection_lost, "the connection is lost"}, "the connection was closed here");
        if (error == ECONNRESET || error == EPIPE) ended_by_peer.store(true);
        std::string why = "the connection to " + peer_address + " is lost: ";
        return failed(Error{Code::connection_lost, "the connection is lost", static_cast<uint32_t>(error)},
                      why + std::strerror(error));
    }
    Error ended() {
        if (shut.load())
            return failed(Error{Code::connection_lost, "the connection is lost"}, "the connection was closed here");
        ended_by_peer.store(true);
        return failed(Error{Code::connection_lost, "the connection is lost"}, peer_address + " has closed the connection");
    }

    Result<void> set_up(const std::string& name, const std::optional<PresharedKey>& key);
    Result<void> show_certificate(std::string& why);
    Result<void> shake_hands(std::chrono::steady_clock::time_point deadline, std::string& why);
    void discard_input(std::chrono::steady_clock::time_point deadline);
    Result<size_t> decrypt(MutableBytesView into);
    Result<bool> receive(int flags);
    Result<void> encrypt(BytesView plain) WL_REQUIRES(mutex);
    Result<void> encrypt_pieces(std::span<const BytesView>& pieces, size_t& offset, size_t limit_bytes);
    Result<bool> send_pending(int flags);
};

}  // namespace warpline::net
