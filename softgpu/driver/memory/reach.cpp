// What a device was granted, of mappings and of pools.
#include "softgpu/driver/memory/reach.h"

#include <algorithm>

#include "softgpu/driver/device/device.h"
#include "softgpu/driver/memory/memory_pool.h"
#include "softgpu/driver/memory/vmm.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

bool reaches(const Device& device, const Allocation& allocation) {
    CUmemAccess_flags granted = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (allocation.kind == MemoryKind::mapped) {
        CUresult known = VirtualMemory::instance().access(allocation.address, device.ordinal(), &granted);
        return known == CUDA_SUCCESS && granted != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
    if (allocation.kind != MemoryKind::pool) return true;
    auto pool = process().pools.find(allocation.pool);
    if (pool != nullptr) granted = pool->access({CU_MEM_LOCATION_TYPE_DEVICE, device.ordinal()});
    return granted != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

}  // namespace

bool reaches(const Device& device, uint64_t address, uint64_t size_bytes) {
    if (process().config().profile.foreign_copies) return true;
    AllocationPtr first = process().addresses.find(address);
    if (first != nullptr && !reaches(device, *first)) return false;
    auto others = process().addresses.in_range(address, size_bytes);
    return std::all_of(others.begin(), others.end(), [&device](const AllocationPtr& one) { return reaches(device, *one); });
}

}  // namespace warpline::softgpu::driver
