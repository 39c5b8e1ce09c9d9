// What a session finds of its tenant's earlier uploads, and leaves for later ones.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "protocol/codec/buffer.h"
#include "server/control/cache_channel.h"

namespace warpline::server {

/// Chunks of a payload that the client has not sent, and says the hashes of.
struct UploadOffer {
    uint64_t call = 0;
    uint64_t offset = 0;  ///< of the first, in the payload
    uint64_t total = 0;
    bool only_asks = false;
    std::vector<net::Digest> digests;
};

/// A session's end of the channel to the keeper of uploads. Questions are asked by a thread of its own, one after the other;
/// what is handed in is handed in by whoever has it. A keeper that has gone, or is silent, has nothing.
///
/// @thread any
class UploadCache {
public:
    class Owner {
    public:
        /// The answer to an offer: a bit for each chunk that is there, and its descriptor, which stays the cache's.
        /// @thread the cache's own
        virtual void offer_answered(const UploadOffer& offer, uint64_t has, const std::vector<int>& files) = 0;

    protected:
        ~Owner() = default;
    };

    /// @param fd  ours from now on @return null: the keeper says nothing @blocks a moment, if the keeper does
    static std::unique_ptr<UploadCache> open(int fd);
    ~UploadCache();

    const net::HashKey& key() const { return m_greeting.key; }
    uint64_t stored_bytes() const { return m_greeting.stored_bytes; }

    /// Begins to answer. Once.
    /// @param credit_bytes  of the client: what it may offer at a time
    void start(Owner& owner, uint64_t credit_bytes) WL_EXCLUDES(m_mutex);
    /// No more answers; waits for one that is being given.
    void stop() WL_EXCLUDES(m_mutex);
    /// False: more is asked for than an honest client does at a time. @blocks no
    bool ask(UploadOffer offer) WL_EXCLUDES(m_mutex);

    /// Hands in a chunk. What the keeper does not take at once is not kept. @blocks while it is copied
    void keep(BytesView chunk) WL_EXCLUDES(m_mutex);

private:
    UploadCache(int fd, const CacheGreeting& greeting) : m_channel(fd), m_greeting(greeting) {}
    void run() WL_EXCLUDES(m_mutex);
    uint64_t look_up(const UploadOffer& offer, std::vector<int>& files);
    double cost_of(uint64_t bytes) WL_EXCLUDES(m_mutex);

    CacheChannel m_channel;
    const CacheGreeting m_greeting;
    std::atomic<bool> m_is_silent{false};  // and is not asked again
    uint64_t m_lookups = 0;                // the thread's
    Owner* m_owner = nullptr;              // these two since start()
    size_t m_most_offers = 0;
    Mutex m_mutex;
    ConditionVariable m_changed;
    std::deque<UploadOffer> m_offers WL_GUARDED_BY(m_mutex);
    bool m_stopping WL_GUARDED_BY(m_mutex) = false;
    std::chrono::steady_clock::time_point m_last_kept WL_GUARDED_BY(m_mutex){};
    double m_ns_per_byte WL_GUARDED_BY(m_mutex) = 8;
    std::thread m_thread;
};

/// Puts the chunks of one payload together as its parts are used, in order, and hands in those that are whole.
class ChunkGatherer {
public:
    /// @param keep  the client says that it may be worth it
    void part(UploadCache& cache, uint64_t offset, uint64_t total, BytesView bytes, bool keep);

private:
    void piece(UploadCache& cache, uint64_t offset, uint64_t chunk_bytes, BytesView bytes);
    protocol::Buffer m_chunk;  // as far as it has come; a chunk that comes in one part is none of it
};

}  // namespace warpline::server
