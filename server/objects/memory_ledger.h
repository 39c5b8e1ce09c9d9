// What a session has of each device's memory, and the most that it may have.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/function_ref.h"
#include "common/base/mutex.h"
#include "server/control/control.h"
#include "server/driver/driver.h"
#include "server/driver/inventory.h"

namespace warpline::server {

/// The most device memory that a session may have on each device.
struct MemoryLimit {
    uint64_t bytes = 0;      ///< 0: there is none
    bool of_server = false;  ///< the server's owner has set it (`session_memory`), and the program none that is smaller
    static MemoryLimit smaller_of(uint64_t of_client, uint64_t of_server);
};

class MemoryCharge;
/// Who keeps memory alive holds it: a mapping, a handle. The bytes are free again when the last one lets go of it.
using MemoryChargePtr = std::shared_ptr<const MemoryCharge>;

/// The one place that knows how much device memory a session has, and that refuses more than its limit. What is allocated takes
/// a charge from it before the driver is asked. Memory that a graph allocates is the driver's to count (see reserved()).
///
/// @thread  any
class MemoryLedger {
public:
    /// @param devices  as the client counts them
    MemoryLedger(const Driver& driver, const std::vector<DeviceSnapshot>& devices, SessionCounters& counters,
                 MemoryLimit limit = {});

    /// Whether a refusal is told in the log: not where it is asked again.
    enum class Refusal : uint8_t { told, quiet };
    /// @errors  CUDA_ERROR_OUT_OF_MEMORY (it would be more than the limit; nothing has changed)
    CUresult take(CUdevice device, uint64_t bytes, MemoryChargePtr& charge, Refusal refusal = Refusal::told)
        WL_EXCLUDES(m_mutex);
    /// Memory that another session has made. It counts against the limit of that one.
    MemoryChargePtr borrow(CUdevice device, uint64_t bytes) WL_EXCLUDES(m_mutex);
    /// Before the driver takes so much more for graphs. @errors as take()
    CUresult check_graphs_take(CUdevice device, uint64_t bytes, Refusal refusal = Refusal::told) WL_EXCLUDES(m_mutex);
    /// Before the driver has so much for all graphs together, unless it has it already. @errors as take()
    /// @param bytes  asked again when what graphs do not use has been given back
    CUresult check_graphs_have(CUdevice device, FunctionRef<uint64_t()> bytes) WL_EXCLUDES(m_mutex);

    const MemoryLimit& limit() const { return m_limit; }
    /// What the session has of its limit. @blocks no
    uint64_t used(CUdevice device) const WL_EXCLUDES(m_mutex);
    /// What is left of the limit; without one as much as there can be.
    uint64_t left(CUdevice device) const WL_EXCLUDES(m_mutex);
    /// Makes of what a device has what the session may see: the limit as the total, what is left of it as free.
    void narrow(CUdevice device, uint64_t& free_bytes, uint64_t& total_bytes) const WL_EXCLUDES(m_mutex);

    /// From now on the driver is asked for what it keeps for graphs.
    void graphs_allocate() { m_graphs_allocate.store(true, std::memory_order_relaxed); }
    bool do_graphs_allocate() const { return m_graphs_allocate.load(std::memory_order_relaxed); }

private:
    friend class MemoryCharge;
    struct Account {
        uint64_t used = 0;      ///< counts against the limit
        uint64_t borrowed = 0;  ///< does not
    };
    bool fits(CUdevice device, uint64_t bytes, uint64_t graphs) const WL_REQUIRES(m_mutex);
    /// Asks `attempt(what the driver has for graphs)`, and once more if something of that could be given back.
    bool try_twice(CUdevice device, FunctionRef<bool(uint64_t)> attempt) const;
    bool knows(CUdevice device) const { return device >= 0 && static_cast<size_t>(device) < m_devices.size(); }
    /// What the driver has of the device for graphs of this process.
    uint64_t reserved(CUdevice device) const;
    /// Gives what graphs have no use for back to the device. False if that was nothing.
    bool trim(CUdevice device, uint64_t reserved_bytes) const;
    void tell(CUdevice device, uint64_t bytes) WL_EXCLUDES(m_mutex);
    void change(CUdevice device, uint64_t Account::*field, uint64_t bytes) WL_REQUIRES(m_mutex);
    void give_back(CUdevice device, uint64_t bytes, bool borrowed) WL_EXCLUDES(m_mutex);

    const Driver& m_driver;
    const std::vector<DeviceSnapshot>& m_devices;
    SessionCounters& m_counters;
    const MemoryLimit m_limit;
    std::atomic<bool> m_graphs_allocate{false};

    mutable Mutex m_mutex;  // the driver is not called under it
    std::vector<Account> m_accounts WL_GUARDED_BY(m_mutex);
    std::chrono::steady_clock::time_point m_told WL_GUARDED_BY(m_mutex);  // the last refusal
    uint64_t m_untold WL_GUARDED_BY(m_mutex) = 0;                         // refusals since then
};

/// Bytes of the ledger's, given back at its end. The ledger outlives it.
class MemoryCharge {
public:
    MemoryCharge(MemoryLedger& ledger, CUdevice device, uint64_t bytes, bool borrowed)
        : m_ledger(ledger), m_device(device), m_bytes(bytes), m_borrowed(borrowed) {}
    ~MemoryCharge() { m_ledger.give_back(m_device, m_bytes, m_borrowed); }
    MemoryCharge(const MemoryCharge&) = delete;
    MemoryCharge& operator=(const MemoryCharge&) = delete;

private:
    MemoryLedger& m_ledger;
    const CUdevice m_device;
    const uint64_t m_bytes;
    const bool m_borrowed;
};

}  // namespace warpline::server
