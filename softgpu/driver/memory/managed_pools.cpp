// Making pools of managed memory, and remembering those of each place.
#include "softgpu/driver/memory/managed_pools.h"

#include "softgpu/driver/config/version.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// The first driver that has them.
constexpr int k_managed_pools = 13000;

/// The device that a pool of a place is counted for.
CUresult device_of_place(const CUmemLocation& place, Device*& device) {
    switch (place.type) {
        case CU_MEM_LOCATION_TYPE_DEVICE: return find_device(place.id, device);
        case CU_MEM_LOCATION_TYPE_NONE:
        case CU_MEM_LOCATION_TYPE_HOST:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA: return find_device(0, device);
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

}  // namespace

ManagedPools& ManagedPools::instance() {
    static auto* made = new ManagedPools;  // leaked on purpose: calls come after static destructors
    return *made;
}

CUresult ManagedPools::create(const CUmemPoolProps& properties, bool is_default, std::shared_ptr<MemoryPool>& pool) {
    // It is not shared with other processes, is not bounded, and nothing is decompressed into it.
    const bool plain = properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE && properties.maxSize == 0 && properties.usage == 0;
    if (!plain || driver_version() < k_managed_pools) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(device_of_place(properties.location, device));
    pool = std::make_shared<MemoryPool>(*device, properties, is_default);
    pool->set_handle(process().pools.add(pool));
    return CUDA_SUCCESS;
}

std::pair<int, int> ManagedPools::key(const CUmemLocation& place) {
    const bool has_number = place.type == CU_MEM_LOCATION_TYPE_DEVICE || place.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    return {place.type, has_number ? place.id : 0};
}

CUresult ManagedPools::default_of(const CUmemLocation& place, std::shared_ptr<MemoryPool>& pool) {
    MutexLock lock(m_mutex);
    std::shared_ptr<MemoryPool>& usual = m_pools[key(place)].usual;
    if (usual == nullptr) {
        CUmemPoolProps properties{};
        properties.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
        properties.location = place;
        CU_TRY(create(properties, true, usual));
    }
    pool = usual;
    return CUDA_SUCCESS;
}

CUresult ManagedPools::current_of(const CUmemLocation& place, std::shared_ptr<MemoryPool>& pool) {
    {
        MutexLock lock(m_mutex);
        pool = m_pools[key(place)].current.lock();
    }
    return pool != nullptr && !pool->retired() ? CUDA_SUCCESS : default_of(place, pool);
}

CUresult ManagedPools::set_current(const CUmemLocation& place, const std::shared_ptr<MemoryPool>& pool) {
    if (key(pool->properties().location) != key(place)) return CUDA_ERROR_INVALID_VALUE;
    MutexLock lock(m_mutex);
    m_pools[key(place)].current = pool;
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
