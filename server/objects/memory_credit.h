#pragma once

// What a client may map without waiting for an answer.

#include <atomic>
#include <cstdint>
#include <map>

#include "common/base/mutex.h"
#include "server/driver/driver.h"
#include "server/driver/inventory.h"
#include "server/objects/memory_ledger.h"

namespace warpline::server {

/// The memory credit of a session, device by device: half of what is free there and left of the session's limit, so that what
/// the client uses without asking is there even when other sessions allocate at the same time, and no more than the server's
/// owner allows.
///
/// @thread  any
class MemoryCredit {
public:
    MemoryCredit(const Driver& driver, const MemoryLedger& ledger) : m_driver(driver), m_ledger(ledger) {}

    /// The credit for a device at the start of a session. Nothing for a device that has no context yet: only a context can tell
    /// what is free, and the first answer that decides (wlMapNow) brings credit with it.
    /// @blocks no; leaves no context current
    uint64_t at_start(const DeviceSnapshot& device, uint64_t most_bytes) WL_EXCLUDES(m_mutex);

    /// The client mapped without being waited for.
    void used(CUdevice device, uint64_t bytes) WL_EXCLUDES(m_mutex);
    /// Memory of the device became free: a reply may grant more.
    void freed(CUdevice device) WL_EXCLUDES(m_mutex);
    /// The client has given up what it had left, and waits for a decision: this is what it is granted instead. A context of the
    /// device must be current.
    uint64_t replace(CUdevice device) WL_EXCLUDES(m_mutex);
    /// True if renew() may have something to give, for one of the devices.
    bool has_news() const { return m_news.load(std::memory_order_relaxed); }
    /// What a reply adds to the credit. A context of the device must be current.
    uint64_t renew(CUdevice device) WL_EXCLUDES(m_mutex);

private:
    struct Credit {
        int64_t left = 0;  ///< granted and not used; a client that cheats makes it negative
        bool stale = false;
    };
    bool stale(CUdevice device) const WL_EXCLUDES(m_mutex);
    int64_t target(CUdevice device) const;
    uint64_t free_bytes() const;

    const Driver& m_driver;
    const MemoryLedger& m_ledger;
    int64_t m_most_bytes = 0;         // set by the first at_start
    std::atomic<bool> m_news{false};  // used or freed since the last renew; a hint
    mutable Mutex m_mutex;            // protects the map; the driver is not called under it
    std::map<CUdevice, Credit> m_credit WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
