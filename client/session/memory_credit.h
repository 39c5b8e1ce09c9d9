#pragma once

// What may be allocated on the server without waiting for its answer.

#include <cstdint>
#include <map>

#include "common/base/mutex.h"

namespace warpline::client {

/// The memory credit, device by device (docs/session.md, Memory). Who does not have enough gives up all that is left of the
/// device's, so that the server's decision is about everything that is free there, and is granted credit anew with the answer.
/// Grants that were on their way meanwhile are about memory that the decision may have given away: they count for nothing.
class MemoryCredit {
public:
    /// Held from take() until the call that uses the credit is queued: so that none of those calls comes behind a decision
    /// whose caller has given up what they use. The receiving thread, which queues nothing, never takes it.
    Mutex order;

    /// False if there is not enough.
    bool take(int device, uint64_t bytes) WL_REQUIRES(order) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        Device& credit = m_devices[device];
        if (credit.asking != 0 || bytes > credit.bytes) return false;
        credit.bytes -= bytes;
        return true;
    }
    /// Before the server is asked to decide.
    void give_up(int device) WL_REQUIRES(order) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        Device& credit = m_devices[device];
        credit.bytes = 0;
        if (credit.asking++ == 0) credit.newest = 0;
    }
    /// The device's memory is used by something else than what this counts: the server is to decide the next time.
    void drop(int device) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        Device& credit = m_devices[device];
        credit.bytes = credit.granted = 0;
    }
    /// It has answered the question with this number. Of several that were asked at a time, the last answer counts.
    void answered(int device, uint64_t number, uint64_t granted_bytes) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        Device& credit = m_devices[device];
        if (number >= credit.newest) {
            credit.newest = number;
            credit.granted = granted_bytes;
        }
        if (--credit.asking == 0) credit.bytes = credit.granted;
    }
    /// Another reply brought more. @thread receiving
    void grant(int device, uint64_t bytes) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        Device& credit = m_devices[device];
        if (credit.asking == 0) credit.bytes += bytes;
    }

private:
    struct Device {
        uint64_t bytes = 0;
        unsigned asking = 0;   ///< questions without an answer
        uint64_t newest = 0;   ///< number of the last one of them that was answered
        uint64_t granted = 0;  ///< with it
    };
    Mutex m_mutex;  // protects the map; never held while anything is sent
    std::map<int, Device> m_devices WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
