// A pool's memory, attributes and access.
#include "softgpu/driver/memory/memory_pool.h"

#include "cuda/abi/pool_facts.h"
#include "softgpu/driver/config/version.h"
#include "softgpu/driver/memory/checks.h"
#include "softgpu/driver/memory/imported_memory.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/process/process.h"
#include "softgpu/driver/space/high_water.h"

namespace warpline::softgpu::driver {

namespace {

/// Set when memory went back to a pool: synchronisations look at the pools only then.
std::atomic<bool> pools_changed{false};

}  // namespace

MemoryPool::MemoryPool(Device& device, const CUmemPoolProps& properties, bool is_default)
    : m_device(device), m_properties(properties), m_is_default(is_default), m_heap(device) {}

MemoryPool::MemoryPool(Device& device, const CUmemPoolProps& properties, SharedFilePtr file, bool imported)
    : m_device(device),
      m_properties(properties),
      m_is_default(false),
      m_imported(imported),
      m_chunks(std::make_unique<SharedChunks>(device, std::move(file))),
      m_heap(*m_chunks) {}

AllocationPtr MemoryPool::allocate(uint64_t size_bytes) {
    if (m_imported) return nullptr;
    if (is_managed()) return allocate_managed(size_bytes);
    const uint64_t most = cuda::abi::largest_pool_bytes(m_properties.maxSize);
    if (most != 0 && m_used.load() + size_bytes > most) return nullptr;
    const uint64_t wanted = with_red_zone(m_device, size_bytes);
    uint64_t address = m_heap.allocate(wanted);
    if (address == 0) {
        // Other pools may keep memory that nobody uses.
        for (const auto& pool : process().pools.all()) {
            if (&pool->device() == &m_device) pool->trim(0);
        }
        m_device.end_quarantine();
        m_device.heap().trim(0);
        address = m_heap.allocate(wanted);
        if (address == 0) return nullptr;
    }
    auto allocation = std::make_shared<Allocation>();
    allocation->address = address;
    allocation->size_bytes = size_bytes;
    allocation->kind = MemoryKind::pool;
    allocation->device = m_device.ordinal();
    allocation->pool = m_handle;
    process().addresses.insert(allocation);
    if (m_device.config().exact_bounds) process().ranges.add(m_device.ordinal(), address, size_bytes);
    note_uninitialised(address, size_bytes);
    count(size_bytes);
    return allocation;
}

AllocationPtr MemoryPool::allocate_managed(uint64_t size_bytes) {
    AllocationPtr allocation;
    const CUresult made = allocate_pages(m_device, nullptr, size_bytes, MemoryKind::managed, CU_MEM_ATTACH_GLOBAL, allocation);
    if (made != CUDA_SUCCESS) return nullptr;
    allocation->pool = m_handle;  // nobody else knows its address yet
    // Where the pool's memory would rather be.
    if (m_properties.location.type != CU_MEM_LOCATION_TYPE_NONE) {
        static_cast<void>(process().advice.advise(allocation->address, size_bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                                                  m_properties.location));
    }
    count(size_bytes);
    return allocation;
}

void MemoryPool::count(uint64_t size_bytes) {
    m_used += size_bytes;
    raise(m_used_high, m_used.load());
    raise(m_reserved_high, reserved_bytes());
}

void MemoryPool::free(uint64_t address) {
    AllocationPtr allocation = process().addresses.remove(address);
    if (allocation == nullptr) return;
    uint64_t left = m_used.fetch_sub(allocation->size_bytes) - allocation->size_bytes;
    if (m_imported) {
        unmap_imported(*allocation);
        if (m_retired.load() && left == 0) process().pools.remove(m_handle);
        return;
    }
    if (is_managed()) {
        release_allocation(*allocation);
        if (m_retired.load() && left == 0) process().pools.remove(m_handle);
        return;
    }
    note_freed(address);
    if (m_device.config().exact_bounds) process().ranges.remove(address);
    m_heap.free(address, m_retired.load() ? 0 : UINT64_MAX);  // chunks go back when something synchronises
    pools_changed = true;
    if (m_retired.load() && left == 0) process().pools.remove(m_handle);
}

void MemoryPool::retire(const std::shared_ptr<MemoryPool>& self) {
    m_retired = true;
    m_heap.trim(0);
    if (m_used.load() == 0) process().pools.remove(self->handle());
}

void release_pool_excess(const Device& device) {
    if (!pools_changed.exchange(false)) return;
    for (const auto& pool : process().pools.all()) {
        if (&pool->device() == &device) pool->release_excess();
    }
}

CUresult MemoryPool::set_attribute(CUmemPool_attribute attribute, const void* value) {
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: m_reuse_follow = *static_cast<const int*>(value); break;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: m_reuse_opportunistic = *static_cast<const int*>(value); break;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: m_reuse_internal = *static_cast<const int*>(value); break;
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: m_release_threshold = *static_cast<const cuuint64_t*>(value); break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
            if (*static_cast<const cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
            m_reserved_high = reserved_bytes();
            break;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            if (*static_cast<const cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
            m_used_high = m_used.load();
            break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult MemoryPool::get_attribute(CUmemPool_attribute attribute, void* value) const {
    auto number = [value](uint64_t n) { *static_cast<cuuint64_t*>(value) = n; };
    auto truth = [value](int n) { *static_cast<int*>(value) = n; };
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: truth(m_reuse_follow); break;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: truth(m_reuse_opportunistic); break;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: truth(m_reuse_internal); break;
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: number(m_release_threshold); break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: number(reserved_bytes()); break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: number(m_reserved_high); break;
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: number(m_used); break;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH: number(m_used_high); break;
        default:
            if (!cuda::abi::read_pool_fact(m_properties, m_imported, attribute, driver_version(), value))
                return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult check_pool_access(const Device& device, const CUmemAccessDesc& access) {
    if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (process().device(access.location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (access.location.id == device.ordinal()) {
        // The pool's own device always has access (DB-34).
        return access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    }
    const bool granted = access.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return granted && !process().config().profile.peers ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;  // DB-21
}

CUresult MemoryPool::check_access(const CUmemAccessDesc& access) const {
    if (!is_managed()) return check_pool_access(m_device, access);
    // Managed memory is every device's.
    if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (process().device(access.location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    return access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void MemoryPool::set_access(const CUmemAccessDesc& access) {
    const int accessor = access.location.id;
    if (accessor == m_device.ordinal() || is_managed()) return;
    MutexLock lock(m_mutex);
    CUmemAccess_flags& now = m_access[accessor];
    bool had = now != CU_MEM_ACCESS_FLAGS_PROT_NONE, has = access.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    now = access.flags;
    if (has && !had) process().ranges.allow_peer(accessor, m_device.ordinal());
    if (had && !has) process().ranges.deny_peer(accessor, m_device.ordinal());
}

CUmemAccess_flags MemoryPool::access(const CUmemLocation& location) const {
    if (is_managed()) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (location.id == m_device.ordinal()) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    MutexLock lock(m_mutex);
    auto found = m_access.find(location.id);
    return found != m_access.end() ? found->second : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

std::vector<CUmemAccessDesc> MemoryPool::access_of_others() const {
    std::vector<CUmemAccessDesc> all;
    MutexLock lock(m_mutex);
    for (const auto& [device, flags] : m_access) {
        if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) all.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags});
    }
    return all;
}

}  // namespace warpline::softgpu::driver
