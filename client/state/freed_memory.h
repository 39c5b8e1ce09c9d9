#pragma once

// Device memory that the program has freed and the device may still be using.

#include <atomic>
#include <cstdint>
#include <map>
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

private:
    std::atomic<uint64_t> m_oldest{UINT64_MAX};  // call
    Mutex m_mutex;                               // protects the map
    std::multimap<uint64_t, Freed> m_freed WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
