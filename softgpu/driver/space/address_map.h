// All memory that the driver knows, by address.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/base/mutex.h"

namespace warpline::softgpu::driver {

enum class MemoryKind : uint8_t {
    device,      ///< cuMemAlloc
    pool,        ///< cuMemAllocAsync
    mapped,      ///< cuMemMap
    module,      ///< a variable of a module
    host,        ///< cuMemHostAlloc
    registered,  ///< cuMemHostRegister
    managed,     ///< cuMemAllocManaged and __managed__
    graph,       ///< of an allocation node
    imported,    ///< cuIpcOpenMemHandle
};

/// A piece of memory that the driver knows. Immutable but for its access, which the driver changes with the map's mutex held.
struct Allocation {
    uint64_t address = 0;
    uint64_t size_bytes = 0;
    MemoryKind kind = MemoryKind::device;
    int device = 0;              ///< ordinal; for host memory the device of the context that made it
    uint64_t context = 0;        ///< handle; 0 if it belongs to none (VMM, pools)
    uint64_t id = 0;             ///< CU_POINTER_ATTRIBUTE_BUFFER_ID: unique in the process
    uint32_t flags = 0;          ///< as given by the program
    uint64_t pool = 0;           ///< handle of the pool that it comes from, for kinds pool and managed; 0: from none
    uint64_t physical = 0;       ///< handle of the physical memory, for kind mapped
    uint64_t reserved_base = 0;  ///< start and size of the address reservation, for kind mapped
    uint64_t reserved_bytes = 0;
    bool readable = true, writable = true;  ///< for the copy engine; false for mappings without access
    std::atomic<bool> sync_memops{false};
    std::atomic<bool> freed{false};  ///< cuMemFreeAsync was called and has not been reached yet

    bool on_host() const { return kind == MemoryKind::host || kind == MemoryKind::registered; }
    bool holds(uint64_t at) const { return at >= address && at - address < size_bytes; }
};
using AllocationPtr = std::shared_ptr<Allocation>;

enum class Access : uint8_t { read, write };

/// All memory of the process that the driver knows, by address. Any thread may call.
class AddressMap {
public:
    /// Gives the allocation its id.
    void insert(const AllocationPtr& allocation);
    /// As insert(), unless any byte of it lies in known memory: then false.
    bool insert_apart(const AllocationPtr& allocation);
    /// The allocation that begins at an address, taken out; null if there is none.
    AllocationPtr remove(uint64_t address);
    /// The allocation that contains an address, or null.
    AllocationPtr find(uint64_t address) const;
    /// True if every byte lies in known memory that permits the access; pieces may lie side by side.
    bool covers(uint64_t address, uint64_t size_bytes, Access access) const;
    /// True if any byte lies in known memory.
    bool overlaps(uint64_t address, uint64_t size_bytes) const;
    /// Changes what the copy engine may do with the allocation that begins at an address.
    void set_access(uint64_t address, bool readable, bool writable);
    /// The allocations that lie in a range, by address.
    std::vector<AllocationPtr> in_range(uint64_t address, uint64_t size_bytes) const;
    /// Takes out those that match.
    std::vector<AllocationPtr> remove_if(const std::function<bool(const Allocation&)>& matches);

private:
    AllocationPtr find_locked(uint64_t address) const WL_REQUIRES(m_mutex);
    bool overlaps_locked(uint64_t address, uint64_t size_bytes) const WL_REQUIRES(m_mutex);
    void insert_locked(const AllocationPtr& allocation) WL_REQUIRES(m_mutex);

    mutable Mutex m_mutex;
    std::map<uint64_t, AllocationPtr> m_by_address WL_GUARDED_BY(m_mutex);
    uint64_t m_next_id WL_GUARDED_BY(m_mutex) = 1;
};

}  // namespace warpline::softgpu::driver
