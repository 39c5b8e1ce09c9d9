// Objects that are destroyed while somebody waits for them.
#pragma once

#include <cstdint>
#include <map>

#include "common/base/mutex.h"

namespace warpline::server {

/// Which streams and events threads are waiting for outside the session's order. CUDA says nothing of destroying what another
/// thread waits for; here a client may do so at any time, and the destruction is put off until nobody waits any more.
///
/// @thread  any
class Waits {
public:
    /// A thread will wait for this object; to be called before the order is given free.
    void begin(uint64_t driver_handle) {
        MutexLock lock(m_mutex);
        ++m_waits[driver_handle].threads;
    }

    /// It has waited. True if it was the last and the destruction was put off: the caller's business now.
    bool end(uint64_t driver_handle) {
        MutexLock lock(m_mutex);
        auto found = m_waits.find(driver_handle);
        if (--found->second.threads != 0) return false;
        const bool destroy = found->second.destroy;
        m_waits.erase(found);
        return destroy;
    }

    /// True if somebody waits for it: whoever waits last destroys it.
    bool put_off(uint64_t driver_handle) {
        MutexLock lock(m_mutex);
        auto found = m_waits.find(driver_handle);
        if (found == m_waits.end()) return false;
        found->second.destroy = true;
        return true;
    }

private:
    struct Wait {
        unsigned threads = 0;
        bool destroy = false;
    };
    Mutex m_mutex;
    std::map<uint64_t, Wait> m_waits WL_GUARDED_BY(m_mutex);  // as many as calls that wait
};

}  // namespace warpline::server
