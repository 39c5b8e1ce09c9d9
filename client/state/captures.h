#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "common/base/mutex.h"

namespace warpline::client {

/// The captures that are going on.
class Captures {
public:
    /// @param forbids_legacy  the legacy default stream must not be used meanwhile: a blocking stream captures
    uint64_t begin(uint64_t id, bool forbids_legacy) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_active.emplace(id, forbids_legacy);
        m_count.store(m_active.size(), std::memory_order_release);
        return id;
    }
    void end(uint64_t id) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_active.erase(id);
        m_count.store(m_active.size(), std::memory_order_release);
    }
    bool any() const { return m_count.load(std::memory_order_acquire) != 0; }
    bool active(uint64_t id) const WL_EXCLUDES(m_mutex) {
        if (!any()) return false;
        MutexLock lock(m_mutex);
        return m_active.contains(id);
    }
    bool forbids_legacy_stream() const WL_EXCLUDES(m_mutex) {
        if (!any()) return false;
        MutexLock lock(m_mutex);
        for (const auto& [id, forbids] : m_active) {
            if (forbids) return true;
        }
        return false;
    }

private:
    std::atomic<size_t> m_count{0};
    mutable Mutex m_mutex;  // protects the map
    std::map<uint64_t, bool> m_active WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
