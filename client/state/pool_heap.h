// Memory freed in the order of a stream, until somebody may have it again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "client/state/device_memory.h"
#include "common/base/mutex.h"

namespace warpline::client {

/// Memory that was freed in the order of a stream: the same stream may have it again at once, everybody else when the stream
/// has been waited for.
class PoolHeap {
public:
    /// Which stream; the special ones differ by context and thread.
    struct StreamKey {
        uint64_t stream = 0;   ///< token
        uint64_t context = 0;  ///< token
        uint32_t thread = 0;   ///< of CU_STREAM_PER_THREAD
        friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
    };
    static StreamKey key(uint64_t stream, uint64_t context, uint32_t thread) {
        return {stream == 1 ? 0 : stream, context, stream == 2 ? thread : 0};
    }

    void give(const StreamKey& key, const DeviceRange& range) WL_EXCLUDES(m_mutex);
    /// A range that was freed to this pool in the same stream, and is not much larger than wanted.
    std::optional<DeviceRange> take(const StreamKey& key, uint64_t pool, uint64_t size_bytes) WL_EXCLUDES(m_mutex);

    /// To be asked before a stream is waited for: what is freed later is not covered.
    uint64_t mark() const WL_EXCLUDES(m_mutex);
    /// What a wait that began at `mark` has made free for everybody: of one stream, or of all streams of a context.
    std::vector<DeviceRange> settled(const StreamKey& key, uint64_t mark) WL_EXCLUDES(m_mutex);
    std::vector<DeviceRange> context_settled(uint64_t context, uint64_t mark) WL_EXCLUDES(m_mutex);

    // --- what pools keep beyond that, up to their release thresholds: any stream of the context may have it ---

    /// Of the pool that owns the range.
    void keep(const DeviceRange& range) WL_EXCLUDES(m_mutex);
    std::optional<DeviceRange> take_kept(uint64_t pool, uint64_t context, uint64_t size_bytes) WL_EXCLUDES(m_mutex);
    bool keeps_any() const { return m_keeps.load(std::memory_order_acquire) != 0; }
    /// Of the ranges that `which` wants: the largest first, until they are `bytes` together.
    std::vector<DeviceRange> drop_kept(uint64_t bytes, const std::function<bool(const DeviceRange&)>& which)
        WL_EXCLUDES(m_mutex);

private:
    struct Freed {
        DeviceRange range;
        uint64_t sequence = 0;
    };
    std::vector<DeviceRange> take_settled(std::vector<Freed>& list, uint64_t mark);

    mutable Mutex m_mutex;  // protects what follows
    std::map<StreamKey, std::vector<Freed>> m_freed WL_GUARDED_BY(m_mutex);
    uint64_t m_sequence WL_GUARDED_BY(m_mutex) = 0;
    using Kept = std::multimap<uint64_t, DeviceRange>;                            // by capacity
    std::map<std::pair<uint64_t, uint64_t>, Kept> m_kept WL_GUARDED_BY(m_mutex);  // of pool and context
    std::atomic<size_t> m_keeps{0};                                               // ranges in m_kept
};

/// The pools of the devices: the default one, and the one that cuMemAllocAsync takes from.
class DevicePools {
public:
    struct Pools {
        uint64_t default_pool = 0;  ///< token; 0: not made yet
        uint64_t current = 0;       ///< token; 0: the default one
    };
    Pools get(int device) const WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        auto it = m_pools.find(device);
        return it == m_pools.end() ? Pools{} : it->second;
    }
    /// The default pool's token: the one given, or that of whoever came first.
    uint64_t set_default(int device, uint64_t pool) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        Pools& pools = m_pools[device];
        if (pools.default_pool == 0) pools.default_pool = pool;
        return pools.default_pool;
    }
    void set_current(int device, uint64_t pool) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_pools[device].current = pool;
    }
    void forget(uint64_t pool) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        for (auto& [device, pools] : m_pools) {
            if (pools.current == pool) pools.current = 0;
        }
    }

private:
    mutable Mutex m_mutex;  // protects the map
    std::map<int, Pools> m_pools WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
