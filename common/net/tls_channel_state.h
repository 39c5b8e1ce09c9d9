// What the halves of a TLS channel share.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "common/net/channel_socket.h"
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

struct TlsChannel::State : ChannelSocket {
    explicit State(std::shared_ptr<TlsContext::State> shared_context, Socket connected)
        : ChannelSocket(std::move(connected)), context(std::move(shared_context)) {}

    // Constant after the handshake.
    const std::shared_ptr<TlsContext::State> context;
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
    bool drained = false;  // OpenSSL has nothing more for us, and nothing has come since

    Result<void> set_up(const std::string& name, const Options& options);
    Result<void> show_certificate(std::string& why);
    Result<void> shake_hands(std::chrono::steady_clock::time_point deadline, std::string& why);
    Result<size_t> decrypt(MutableBytesView into);
    Result<bool> receive_more(int flags);
    Result<void> encrypt(BytesView plain) WL_REQUIRES(mutex);
    Result<void> encrypt_pieces(std::span<const BytesView>& pieces, size_t& offset, size_t limit_bytes);
    Result<bool> send_pending(int flags);
};

}  // namespace warpline::net
