// What a pointer points at.
#include <cstring>

#include "softgpu/driver/context/context.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/memory/memory_pool.h"
#include "softgpu/driver/memory/physical_memory.h"
#include "softgpu/driver/memory/vmm.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

template <typename T>
void put(void* data, T value) {
    std::memcpy(data, &value, sizeof(value));
}

CUcontext context_of(const Allocation& allocation) {
    if (allocation.context != 0) return reinterpret_cast<CUcontext>(allocation.context);
    // Pools, mappings and variables of modules belong to the device: CUDA names its primary context or none.
    return allocation.kind == MemoryKind::mapped ? nullptr : process().device(allocation.device)->primary->handle();
}

/// How the memory may be given to other processes.
unsigned long long handle_types(const Allocation& a) {
    if (a.kind == MemoryKind::pool) {
        auto pool = process().pools.find(a.pool);
        return pool != nullptr ? static_cast<unsigned long long>(pool->properties().handleTypes) : 0;
    }
    uint64_t handle = 0;
    auto memory = a.kind == MemoryKind::mapped ? VirtualMemory::instance().memory_at(a.address, &handle) : nullptr;
    return memory != nullptr ? static_cast<unsigned long long>(memory->properties().requestedHandleTypes) : 0;
}

bool starts_reservation(const Allocation& a) { return a.reserved_bytes != 0; }

/// The value of an attribute for known memory. Invalid value: CUDA does not answer it for this kind of memory.
CUresult known(const Allocation& a, CUpointer_attribute attribute, CUdeviceptr at, void* data) {
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: put(data, context_of(a)); break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            put<unsigned int>(data, a.on_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: put<CUdeviceptr>(data, at); break;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (!a.on_host() && a.kind != MemoryKind::managed) return CUDA_ERROR_INVALID_VALUE;
            put(data, reinterpret_cast<void*>(at));
            break;
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: put<unsigned int>(data, a.sync_memops ? 1 : 0); break;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: put<unsigned long long>(data, a.id); break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: put<unsigned int>(data, a.kind == MemoryKind::managed ? 1 : 0); break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: put<int>(data, a.device); break;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            put<unsigned int>(data, a.kind == MemoryKind::device ? 1 : 0);
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: put(data, starts_reservation(a) ? a.reserved_base : a.address); break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: put<size_t>(data, starts_reservation(a) ? a.reserved_bytes : a.size_bytes); break;
        case CU_POINTER_ATTRIBUTE_MAPPED: put<unsigned int>(data, 1); break;
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: put<unsigned long long>(data, handle_types(a)); break;
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: put<unsigned int>(data, 0); break;
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
            put<unsigned int>(data, a.writable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                               : (a.readable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                                             : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE));
            break;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: put(data, a.pool != 0 ? as_handle<CUmemoryPool>(a.pool) : nullptr); break;
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: put<size_t>(data, a.size_bytes); break;
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: put(data, a.address); break;
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: put<unsigned int>(data, 0); break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/// Of addresses that are reserved and have no memory. Invalid value: it is no such address, or says nothing of the attribute.
CUresult reserved(CUpointer_attribute attribute, CUdeviceptr at, void* data) {
    uint64_t base = 0, size_bytes = 0;
    if (!VirtualMemory::instance().find_reservation(at, base, size_bytes)) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: put<CUdeviceptr>(data, base); return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: put<size_t>(data, size_bytes); return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/// What cuPointerGetAttributes says of memory that the driver does not know, instead of failing. Where devices reach ordinary
/// memory, it is the processor's, at the same address for them.
void unknown(CUpointer_attribute attribute, CUdeviceptr at, void* data) {
    const bool pageable = process().device(0)->attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_HOST_POINTER: put<uint64_t>(data, at); break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: put<uint64_t>(data, pageable ? at : 0); break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: break;  // not written
        case CU_POINTER_ATTRIBUTE_CONTEXT:
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: put<uint64_t>(data, 0); break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: put<int>(data, pageable ? CU_DEVICE_CPU : CU_DEVICE_INVALID); break;
        default: put<unsigned int>(data, 0); break;
    }
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    if (data == nullptr || ptr == 0) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    AllocationPtr allocation = process().addresses.find(ptr);
    return allocation != nullptr ? known(*allocation, attribute, ptr, data) : reserved(attribute, ptr, data);
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes, void** data, CUdeviceptr ptr) {
    if (attributes == nullptr || data == nullptr || numAttributes == 0) return CUDA_ERROR_INVALID_VALUE;
    AllocationPtr allocation = process().addresses.find(ptr);
    for (unsigned int i = 0; i < numAttributes; ++i) {
        if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
        if (attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT || attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        const CUresult told =
            allocation != nullptr ? known(*allocation, attributes[i], ptr, data[i]) : reserved(attributes[i], ptr, data[i]);
        if (told == CUDA_SUCCESS) continue;
        if (allocation != nullptr && attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
            put<uint64_t>(data[i], 0);  // memory of a device, which the host does not reach
        } else {
            unknown(attributes[i], ptr, data[i]);
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
    if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    AllocationPtr allocation = process().addresses.find(ptr);
    if (allocation == nullptr || allocation->on_host()) return CUDA_ERROR_INVALID_VALUE;
    allocation->sync_memops = *static_cast<const unsigned int*>(value) != 0;
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
