// Virtual memory management: addresses, physical memory, mappings, access.
#include "softgpu/driver/memory/vmm.h"

#include "cuda/abi/handle_types.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/memory/physical_memory.h"
#include "softgpu/driver/process/process.h"
#include "softgpu/driver/space/heap.h"

namespace warpline::softgpu::driver {

namespace {

constexpr int k_host = -1;

/// DB-20: a machine without virtual memory management has none of the calls below.
CUresult check_supported() { return process().config().profile.vmm ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED; }

/// The device in whose memory an allocation lies; host memory is kept by the first one.
CUresult device_of(const CUmemLocation& location, Device*& device) {
    switch (location.type) {
        case CU_MEM_LOCATION_TYPE_DEVICE: return find_device(location.id, device);
        case CU_MEM_LOCATION_TYPE_HOST:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: return find_device(0, device);
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult check_properties(const CUmemAllocationProp* properties, Device*& device) {
    if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE &&
        properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return device_of(properties->location, device);
}

/// Where access is granted to: a device's ordinal, or the host.
CUresult accessor_of(const CUmemLocation& location, int& accessor) {
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        Device* device = nullptr;
        CU_TRY(find_device(location.id, device));
        accessor = location.id;
        return CUDA_SUCCESS;
    }
    accessor = k_host;
    Device* device = nullptr;
    return device_of(location, device);
}

/// Devices that are no peers cannot be granted access to each other's memory (DB-21).
CUresult check_reach(CUdeviceptr address, int accessor, CUmemAccess_flags flags) {
    if (process().config().profile.peers || accessor == k_host || flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) return CUDA_SUCCESS;
    uint64_t handle = 0;
    auto memory = VirtualMemory::instance().memory_at(address, &handle);
    bool elsewhere = memory != nullptr && memory->properties().location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                     memory->device().ordinal() != accessor;
    return elsewhere ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags) {
    CU_TRY(check_supported());
    if (ptr == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    uint64_t address = 0;
    CU_TRY(VirtualMemory::instance().reserve(size, alignment, addr, &address));
    *ptr = address;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    CU_TRY(check_supported());
    return VirtualMemory::instance().release(ptr, size);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
    CU_TRY(check_supported());
    if (handle == nullptr || flags != 0 || size == 0 || size % k_chunk_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(check_properties(prop, device));
    auto memory = PhysicalMemory::create(*device, size, *prop);
    if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = process().physical.add(std::move(memory));
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    CU_TRY(check_supported());
    auto memory = process().physical.find(handle);
    if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (--memory->handle_references == 0) process().physical.remove(handle);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    CU_TRY(check_supported());
    if (ptr == 0 || size == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    auto memory = process().physical.find(handle);
    if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return VirtualMemory::instance().map(ptr, size, offset, memory, handle);
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    CU_TRY(check_supported());
    CU_TRY(check_unsafe_call());
    if (process().config().profile.free_synchronises) {  // DB-05
        uint64_t handle = 0;
        auto memory = VirtualMemory::instance().memory_at(ptr, &handle);
        if (memory != nullptr) CU_TRY(check_device_wait(memory->device()));
    }
    for (const auto& context : process().contexts.all()) {
        for (const FencePtr& fence : Scheduler::instance().pending(*context->group())) fence->wait();
    }
    return VirtualMemory::instance().unmap(ptr, size);
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
    CU_TRY(check_supported());
    if (desc == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        const CUmemAccess_flags flags = desc[i].flags;
        if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
        int accessor = 0;
        CU_TRY(accessor_of(desc[i].location, accessor));
        CU_TRY(check_reach(ptr, accessor, desc[i].flags));
        CU_TRY(VirtualMemory::instance().set_access(ptr, size, accessor, desc[i].flags));
    }
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
    CU_TRY(check_supported());
    if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (ptr == 0) return CUDA_ERROR_INVALID_VALUE;
    int accessor = 0;
    CU_TRY(accessor_of(*location, accessor));
    *flags = 0;
    CUmemAccess_flags found = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    const AllocationPtr own = process().addresses.find(ptr);
    if (own != nullptr && own->kind == MemoryKind::device) {
        // Memory of cuMemAlloc: its device has access to it.
        if (accessor == own->device) found = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    } else {
        CU_TRY(VirtualMemory::instance().access(ptr, accessor, &found));
    }
    *flags = static_cast<unsigned long long>(found);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
    CU_TRY(check_supported());
    if (granularity == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    Device* device = nullptr;
    CU_TRY(check_properties(prop, device));
    *granularity = k_chunk_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
    CU_TRY(check_supported());
    if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto memory = process().physical.find(handle);
    if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *prop = memory->properties();
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType, unsigned long long flags) {
    CU_TRY(check_supported());
    if (shareableHandle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    auto memory = process().physical.find(handle);
    if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (handleType == CU_MEM_HANDLE_TYPE_NONE || memory->properties().requestedHandleTypes != handleType) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int fd = memory->export_fd();
    if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *static_cast<int*>(shareableHandle) = fd;
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                        CUmemAllocationHandleType shHandleType) {
    CU_TRY(check_supported());
    if (handle == nullptr || !cuda::abi::is_one_handle_type(shHandleType)) return CUDA_ERROR_INVALID_VALUE;
    if (shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    std::shared_ptr<PhysicalMemory> memory;
    CU_TRY(PhysicalMemory::import(static_cast<int>(reinterpret_cast<intptr_t>(osHandle)), memory));
    *handle = process().physical.add(std::move(memory));
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
    CU_TRY(check_supported());
    if (handle == nullptr || addr == nullptr) return CUDA_ERROR_INVALID_VALUE;
    uint64_t value = 0;
    auto memory = VirtualMemory::instance().memory_at(reinterpret_cast<uint64_t>(addr), &value);
    if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (process().physical.find(value) == nullptr) {
        // Every reference by handle was released while the mapping kept the memory.
        value = process().physical.add(memory);
        memory->handle_references = 0;
    }
    ++memory->handle_references;
    *handle = value;
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
