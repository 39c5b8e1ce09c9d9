// Per-thread default streams.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "server/driver/driver.h"
#include "server/objects/contexts.h"

namespace warpline::server {

/// The streams that stand for the client's per-thread default streams: one for each thread and context that used its own.
///
/// @thread  any
class Streams {
public:
    static constexpr size_t k_max_thread_streams = 4096;
    static constexpr uint32_t k_own_thread = UINT32_MAX;        ///< no client's: copies that go through another context
    static constexpr uint32_t k_pages_thread = UINT32_MAX - 1;  ///< likewise: pages that the client's program shares

    explicit Streams(const Driver& driver) : m_driver(driver) {}

    /// The stream of a client's thread in a context, which must be current. Made at its first use. @errors the driver's
    CUresult of_thread(uint32_t thread, uint64_t context, CUstream& stream);
    /// True if it has been made: what was never used is idle.
    bool exists(uint32_t thread, uint64_t context);

    /// All that there are of a context.
    std::vector<CUstream> of_context(uint64_t context);

    // The legacy default stream: whether something may be in it that nobody watches.
    void note_default_used(uint64_t context) {
        std::atomic<bool>& used = default_flag(context);
        if (!used.load(std::memory_order_relaxed)) used.store(true, std::memory_order_relaxed);
    }
    bool default_used(uint64_t context) { return default_flag(context).load(std::memory_order_relaxed); }
    void default_is_watched(uint64_t context) {
        std::atomic<bool>& used = default_flag(context);
        if (&used != &m_default_used.back()) used.store(false, std::memory_order_relaxed);
    }

    /// The client's thread has ended: its streams are destroyed once they are idle (cuStreamDestroy does not wait).
    void thread_ended(uint32_t thread);
    /// The context has gone, and its streams with it.
    void context_ended(uint64_t context);

private:
    std::atomic<bool>& default_flag(uint64_t context) {
        const uint64_t device = context - Contexts::primary_token(0);
        return m_default_used[device < k_primary_flags ? device : k_primary_flags];
    }

    static constexpr size_t k_primary_flags = 64;
    const Driver& m_driver;
    std::array<std::atomic<bool>, k_primary_flags + 1> m_default_used{};  // by device; the last is of all other contexts
    Mutex m_mutex;
    std::map<std::pair<uint32_t, uint64_t>, CUstream> m_streams WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
