#pragma once

// Device memory that the program has freed and the device may still be using.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <variant>
#include <vector>

#include "client/state/device_memory.h"
#include "client/state/range_heap.h"
#include "common/base/mutex.h"

namespace warpline::client {

/// What was freed by a call that the server has not said is over (`freedThrough` of replies). Nobody may have it before.
class FreedMemory {
public:
    /// A piece of memory, or the addresses of a block whose memory goes.
    using Freed = std::variant<DeviceRange, RangeHeap::Range>;

    void put(uint64_t call, Freed freed) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_freed.emplace(call, freed);
        m_oldest.store(m_freed.begin()->first, std::memory_order_relaxed);
    }
    /// What calls up to this one have freed; it is the caller's.
    std::vector<Freed> take(uint64_t through) WL_EXCLUDES(m_mutex) {
        std::vector<Freed> over;
        if (m_oldest.load(std::memory_order_relaxed) > through) return over;
        MutexLock lock(m_mutex);
        const auto end = m_freed.upper_bound(through);
        for (auto it = m_freed.begin(); it != end; ++it) over.push_back(it->second);
        m_freed.erase(m_freed.begin(), end);
        m_oldest.store(m_freed.empty() ? UINT64_MAX : m_freed.begin()->first, std::memory_order_relaxed);
        return over;
    }

    /// Memory at the driver's own addresses, which is given back while the device rests.
    void postpone(const DeviceRange& range) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_postponed.push_back(range);
        m_any_postponed.store(true, std::memory_order_relaxed);
    }
    bool any_postponed() const { return m_any_postponed.load(std::memory_order_relaxed); }
    std::set<uint64_t> contexts_of_postponed() const WL_EXCLUDES(m_mutex) {
        std::set<uint64_t> contexts;
        MutexLock lock(m_mutex);
        for (const DeviceRange& range : m_postponed) contexts.insert(range.context);
        return contexts;
    }
    /// Of those the ones that may go now; they are the caller's.
    template <typename MayGo>
    std::vector<DeviceRange> take_postponed(MayGo&& may_go) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        const auto going = std::stable_partition(m_postponed.begin(), m_postponed.end(),
                                                 [&](const DeviceRange& range) { return !may_go(range); });
        const std::vector<DeviceRange> taken(going, m_postponed.end());
        m_postponed.erase(going, m_postponed.end());
        m_any_postponed.store(!m_postponed.empty(), std::memory_order_relaxed);
        return taken;
    }

private:
    std::atomic<uint64_t> m_oldest{UINT64_MAX};  // call
    std::atomic<bool> m_any_postponed{false};
    mutable Mutex m_mutex;
    std::multimap<uint64_t, Freed> m_freed WL_GUARDED_BY(m_mutex);
    std::vector<DeviceRange> m_postponed WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
