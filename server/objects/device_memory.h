// The memory that a session may use.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/base/mutex.h"
#include "server/control/control.h"
#include "server/driver/driver.h"
#include "server/driver/inventory.h"
#include "server/objects/address_window.h"
#include "server/objects/memory_credit.h"
#include "server/objects/memory_ledger.h"
#include "server/objects/peer_access.h"

namespace warpline::server {

/// A session's device memory: the window of addresses that client and worker both reserve, what is mapped in it, and every
/// other range that the client may name in a copy. Everything a client says about addresses is checked here.
///
/// @thread  any
class DeviceMemory {
public:
    /// What a session may have mapped at a time; bounds the bookkeeping.
    static constexpr size_t k_max_ranges = 4u << 20;
    static constexpr uint64_t k_block_bytes = uint64_t{2} << 20;  ///< what mappings are multiples of

    using Window = AddressWindow;

    DeviceMemory(const Driver& driver, const std::vector<DeviceSnapshot>& devices, MemoryLedger& ledger);

    /// Reserves the window that the client wants, or another one. @errors those of reserve_address_window
    Result<Window> reserve_window(Window wanted, AddressSpace space = AddressSpace::large);
    Window window() const { return m_window; }
    /// What is mapped from now on can be given to other processes, where the driver makes memory for that.
    void make_shareable() { m_shareable = true; }
    /// Gives the window back. For tests; a worker's window ends with its process.
    void release_window();

    /// Which devices may use memory of one: those that the program lets, or every one that can, as with memory of the host's.
    enum class Reach : uint8_t { peers, every_device };
    /// Maps fresh memory of a device at [address, address + bytes). A failure poisons the range: copies
    /// there give CUDA_ERROR_OUT_OF_MEMORY.
    /// @errors CUDA_ERROR_INVALID_VALUE (outside of the window, misaligned, mapped already), the ledger's, and the driver's
    CUresult map(uint64_t address, uint64_t bytes, CUdevice device, Reach reach = Reach::peers,
                 MemoryLedger::Refusal refusal = MemoryLedger::Refusal::told);
    /// The mapping that contains an allocation: a handle of its memory, which the caller releases, and where it lies.
    /// @errors CUDA_ERROR_INVALID_VALUE (not in one mapping of the session's own), and the driver's
    CUresult retain(uint64_t address, uint64_t bytes, CUmemGenericAllocationHandle& memory, uint64_t& base,
                    uint64_t& mapped_bytes) const;
    /// Maps memory of another session's at [address, address + bytes), for its device, the device's peers and `accessor`. It
    /// counts as the session's: it keeps the memory, whatever becomes of the other one.
    /// @errors as map(), and the driver's; nothing is poisoned
    CUresult map_imported(uint64_t address, uint64_t bytes, CUmemGenericAllocationHandle memory, CUdevice device,
                          CUdevice accessor);
    /// Memory where the driver likes, for drivers that cannot map: the address is told to the client. A context of the device
    /// must be current. @errors the ledger's and the driver's @blocks the driver may wait for the device
    CUresult allocate(uint64_t bytes, CUdevice device, uint64_t& address,
                      MemoryLedger::Refusal refusal = MemoryLedger::Refusal::told);

    /// What has gone from a session: nothing that has to be unmapped (it was poisoned), blocks of map(), or what allocate()
    /// made.
    enum class Retired : uint8_t { nothing, mapped, allocated };
    /// Blocks that map() mapped, or memory that allocate() made, are no longer the client's: nothing may name them, and nothing
    /// else be mapped there.
    /// @errors CUDA_ERROR_INVALID_VALUE (not the client's, or not whole)
    CUresult retire(uint64_t address, uint64_t bytes, Retired& what);
    /// Unmaps them. The device must have done with them; where allocate() made them, their context must be current, or have
    /// ended (then none is current). @blocks the driver may wait for the device
    CUresult unmap_retired(uint64_t address, uint64_t bytes);
    /// Both at once. For tests.
    CUresult unmap(uint64_t address, uint64_t bytes);

    /// A range that became valid otherwise: a module's variable, a graph's allocation, a mapping of the client's own. What was
    /// known there of that kind is forgotten: drivers give addresses anew.
    /// @param owner   token of the module or library that it ends with; 0: none
    /// @param charge  of the memory there, which the range keeps; null: it counts elsewhere, or not at all
    void add_range(uint64_t address, uint64_t bytes, uint64_t owner = 0, MemoryChargePtr charge = nullptr);
    /// Forgets the variables of modules and libraries that are gone: `alive(token)`.
    template <typename Alive>
    void sweep_owned(Alive&& alive) {
        MutexLock lock(m_mutex);
        for (auto owner = m_owned.begin(); owner != m_owned.end();) {
            if (alive(owner->first)) {
                ++owner;
                continue;
            }
            for (uint64_t address : owner->second) forget_owned(address, owner->first);
            owner = m_owned.erase(owner);
        }
    }
    /// True if the client mapped all of this range itself (cuMemMap).
    bool is_clients_own(uint64_t address, uint64_t bytes) const;
    /// Forgets every such range in there.
    void remove_ranges(uint64_t address, uint64_t bytes);

    /// True if [address, address + bytes) may be copied from and to. Ranges that touch count as one. Takes no lock where the
    /// calling thread asks again about the ranges that it asked about last, and nothing has gone meanwhile.
    bool contains(uint64_t address, uint64_t bytes) const;
    /// What to answer to a copy that contains() refuses: an address that was promised and could not be mapped is an illegal
    /// address, any other an invalid value.
    CUresult refusal(uint64_t address) const;
    /// True if the session mapped or allocated the memory itself, and not the driver for a graph or a module.
    bool is_own(uint64_t address) const;
    /// The client's number of the device whose memory this is; -1 if that is not known.
    CUdevice owner_of(uint64_t address) const;
    bool in_window(uint64_t address, uint64_t bytes) const {
        return bytes <= m_window.bytes && address >= m_window.address && address - m_window.address <= m_window.bytes - bytes;
    }

    /// A device's allocations become accessible to another device (cuCtxEnablePeerAccess), those of the future too, until the
    /// last context that was let has ended, or is let no more.
    /// @errors  the driver's; whether it was so before is the driver's to say
    CUresult open_to_peer(const PeerAccess::Leave& leave);
    void close_to_peer(const PeerAccess::Leave& leave);
    void context_ended(uint64_t context, PeerAccess::Ending ending);
    /// True if the device may access the owner's allocations.
    bool is_open(CUdevice owner, CUdevice device) const;
    /// A pool of the owner's lets another device use its memory, or does no longer. Pools share blocks with each other.
    CUresult share_pool(CUdevice owner, CUdevice peer, uint64_t pool, bool on);

    /// A primary context was reset. Whether a driver's mappings outlive that is nowhere said: restore() makes those of the
    /// device that have gone anew, empty, so that what the client believes to be mapped is.
    void device_was_reset(CUdevice device);
    bool was_reset() const { return m_was_reset.load(std::memory_order_relaxed); }
    /// At the next call in a context of the device, which must be current.
    void restore(CUdevice device);

    MemoryCredit& credit() { return m_credit; }

private:
    struct Range {
        uint64_t bytes = 0;
        CUdevice device = -1;    ///< -1: not ours to unmap
        uint64_t owner = 0;      ///< token of the module or library that it ends with; 0: none
        bool allocated = false;  ///< by allocate(): freed and not unmapped
        bool retired = false;
        Reach reach = Reach::peers;
        bool imported = false;  ///< by map_imported()
        MemoryChargePtr charge = nullptr;
        /// Peers come and go with it.
        bool follows_peers() const { return !allocated && !retired && reach == Reach::peers; }
    };
    using Ranges = std::map<uint64_t, Range>;

    CUresult create_and_map(uint64_t address, uint64_t bytes, CUdevice device, std::vector<CUdevice> accessors);
    CUresult create(uint64_t bytes, CUdevice device, CUmemGenericAllocationHandle& memory) const;
    CUresult set_access(uint64_t address, uint64_t bytes, const std::vector<CUdevice>& accessors, CUmemAccess_flags flags);
    Ranges::const_iterator containing(uint64_t address) const WL_REQUIRES(m_mutex);
    std::vector<CUdevice> accessors_of(CUdevice device, Reach reach) const WL_REQUIRES(m_mutex);
    /// What was allocated before is as m_peers says; `was_open`: as it was until now. Closing succeeds.
    CUresult follow_peers(CUdevice owner, CUdevice peer, bool was_open) WL_REQUIRES(m_mutex);
    bool overlaps(uint64_t address, uint64_t bytes) const WL_REQUIRES(m_mutex);
    void forget(uint64_t address, uint64_t bytes) WL_REQUIRES(m_mutex);
    void forget_owned(uint64_t address, uint64_t owner) WL_REQUIRES(m_mutex);
    /// To be called when something is no longer the session's: what threads remember of it counts no more.
    void forgot() WL_REQUIRES(m_mutex) { m_epoch.fetch_add(1, std::memory_order_release); }

    const Driver& m_driver;
    const std::vector<DeviceSnapshot>& m_devices;
    MemoryLedger& m_ledger;
    Window m_window;                // constant after the handshake
    bool m_shareable = false;       // likewise
    std::atomic<uint64_t> m_epoch;  // changes when ranges go; no other object of the process ever has the same
    static constexpr uint64_t k_epochs = uint64_t{1} << 40;  // of one object

    mutable Mutex m_mutex;  // held while the driver maps, not while it unmaps: a range is either known or not there
    Ranges m_ranges WL_GUARDED_BY(m_mutex);
    Ranges m_poisoned WL_GUARDED_BY(m_mutex);
    std::map<uint64_t, std::vector<uint64_t>> m_owned WL_GUARDED_BY(m_mutex);  // token of module or library → variables
    PeerAccess m_peers WL_GUARDED_BY(m_mutex);
    std::set<CUdevice> m_reset WL_GUARDED_BY(m_mutex);
    std::atomic<bool> m_was_reset{false};  // m_reset is not empty; the executor's, in the session's order
    MemoryCredit m_credit;
};

}  // namespace warpline::server
