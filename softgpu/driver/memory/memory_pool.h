// Pools of memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/memory/shared_chunks.h"
#include "softgpu/driver/space/address_map.h"
#include "softgpu/driver/space/heap.h"

namespace warpline::softgpu::driver {

class Device;

/// A pool of stream-ordered memory. Memory is taken when it is asked for and given back when the stream reaches the free. That
/// of a pool of managed memory is host and devices' alike, and kept for nobody.
class MemoryPool {
public:
    MemoryPool(Device& device, const CUmemPoolProps& properties, bool is_default);
    /// A pool whose memory other processes can map, or (`imported`) that of another process: nothing is allocated from it.
    MemoryPool(Device& device, const CUmemPoolProps& properties, SharedFilePtr file, bool imported);

    /// The pool that cuMemPoolCreate makes. Null if what it needs for other processes cannot be had.
    static std::shared_ptr<MemoryPool> create(Device& device, const CUmemPoolProps& properties);
    /// From a descriptor that another process exported. Errors: invalid value (it is no pool), not supported (this process does
    /// not have the device).
    static CUresult import(int fd, std::shared_ptr<MemoryPool>& pool);
    bool imported() const { return m_imported; }
    /// A new descriptor of the pool, or -1.
    int export_fd();
    /// Names an allocation of this pool to processes that import it. Errors: invalid value (a pool that has not been exported).
    CUresult export_pointer(const Allocation& allocation, CUmemPoolPtrExportData* data) const;
    /// Maps an allocation of the process that this pool comes from. Errors: invalid value, out of memory.
    CUresult import_pointer(const CUmemPoolPtrExportData& data, AllocationPtr& allocation);

    Device& device() const { return m_device; }
    const CUmemPoolProps& properties() const { return m_properties; }
    bool is_default() const { return m_is_default; }
    bool is_managed() const { return m_properties.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED; }
    uint64_t handle() const { return m_handle; }
    void set_handle(uint64_t handle) { m_handle = handle; }

    /// The handle stops naming the pool for calls; it is destroyed when its last allocation is freed.
    void retire(const std::shared_ptr<MemoryPool>& self);
    bool retired() const { return m_retired.load(); }

    /// Null if there is no memory.
    AllocationPtr allocate(uint64_t size_bytes);
    /// Takes the memory back; it may be used for another allocation at once.
    void free(uint64_t address);
    void trim(uint64_t keep_bytes) { m_heap.trim(keep_bytes); }
    /// Returns what exceeds the release threshold, as CUDA does when something synchronises.
    void release_excess() { m_heap.trim(m_release_threshold.load()); }

    CUresult set_attribute(CUmemPool_attribute attribute, const void* value);
    CUresult get_attribute(CUmemPool_attribute attribute, void* value) const;
    /// Errors: invalid value, invalid device (no such device, no peer, or other than full access for the pool's own).
    CUresult check_access(const CUmemAccessDesc& access) const;
    /// For access that has been checked.
    void set_access(const CUmemAccessDesc& access);
    CUmemAccess_flags access(const CUmemLocation& location) const;
    std::vector<CUmemAccessDesc> access_of_others() const;

private:
    AllocationPtr allocate_managed(uint64_t size_bytes);
    void count(uint64_t size_bytes);
    uint64_t reserved_bytes() const { return is_managed() ? m_used.load() : m_heap.reserved_bytes(); }

    Device& m_device;
    const CUmemPoolProps m_properties;
    const bool m_is_default;
    uint64_t m_handle = 0;
    std::atomic<bool> m_retired{false};
    const bool m_imported = false;
    std::unique_ptr<SharedChunks> m_chunks;  // null: nobody else can map the memory
    std::atomic<bool> m_exported{false};     // its handle has been: DB-62
    Heap m_heap;
    std::atomic<uint64_t> m_release_threshold{0}, m_reserved_high{0}, m_used_high{0}, m_used{0};
    std::atomic<int> m_reuse_follow{1}, m_reuse_opportunistic{1}, m_reuse_internal{1};
    mutable Mutex m_mutex;
    std::map<int, CUmemAccess_flags> m_access WL_GUARDED_BY(m_mutex);  // of other devices
};

/// Of a device to memory of another one's pool, or to its own. Errors: as MemoryPool::check_access.
CUresult check_pool_access(const Device& device, const CUmemAccessDesc& access);

/// Pools give back what exceeds their release thresholds. Called where CUDA does it: when something synchronises.
void release_pool_excess(const Device& device);

}  // namespace warpline::softgpu::driver
