// What a worker and the process that keeps uploads say to each other.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/net/keyed_hash.h"

/// Over a socket pair of the session's own, which says whose it is: the supervisor gives one end to each of the two. Fixed
/// structs, one per message, as with the supervisor; chunks travel as descriptors (chunk_file.h).
namespace warpline::server {

/// Chunks that are asked for at a time.
constexpr size_t k_most_asked = 16;

/// The first message: of the process that keeps uploads.
struct CacheGreeting {
    net::HashKey key;       ///< the tenant's
    uint64_t stored_bytes;  ///< what there is of the tenant's
};

struct CacheRequest {
    enum Kind : uint32_t {
        lookup = 1,  ///< answered by CacheAnswer
        keep = 2,    ///< with the descriptor of a chunk; not answered
    };
    uint32_t kind;
    uint32_t count;      ///< of hashes
    uint64_t number;     ///< of the lookup
    double ns_per_byte;  ///< that the chunk took on its way
    std::array<net::Digest, k_most_asked> digests;
};

struct CacheAnswer {
    uint64_t number;  ///< of the lookup
    uint64_t has;     ///< a bit for each hash; with as many descriptors, in order
};

/// One end.
class CacheChannel {
public:
    explicit CacheChannel(int fd) : m_fd(fd) {}
    ~CacheChannel();
    CacheChannel(const CacheChannel&) = delete;
    CacheChannel& operator=(const CacheChannel&) = delete;
    int fd() const { return m_fd; }

    /// Does not wait for the other side. @param files  stay ours @errors io (the other side is gone, or does not read) @thread
    /// any
    Result<void> send(BytesView message, std::span<const int> files = {});
    template <typename T>
    Result<void> send(const T& message, std::span<const int> files = {}) {
        return send(as_bytes(&message, sizeof message), files);
    }

    /// Receives one message, which must be a T. @param files  gets the descriptors that came with it, which are the caller's
    /// @errors connection_lost, deadline (nothing is there within the time), malformed
    template <typename T>
    Result<T> receive(std::vector<int>& files, int timeout_ms) {
        T message;
        auto got = receive({reinterpret_cast<std::byte*>(&message), sizeof message}, files, timeout_ms);
        if (!got.ok()) return got.error();
        return message;
    }

private:
    Result<void> receive(MutableBytesView message, std::vector<int>& files, int timeout_ms);
    const int m_fd;
};

}  // namespace warpline::server
