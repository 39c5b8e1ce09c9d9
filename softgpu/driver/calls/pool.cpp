// Pools of memory, and memory that is allocated in the order of a stream.
#include "cuda/abi/handle_types.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/graph_memory.h"
#include "softgpu/driver/memory/managed_pools.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/memory/memory_pool.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

using PoolPtr = std::shared_ptr<MemoryPool>;

CUresult find_pool(CUmemoryPool handle, PoolPtr& pool) {
    pool = process().pools.find(handle);
    return pool != nullptr && !pool->retired() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult current_pool(Device& device, PoolPtr& pool) {
    pool = process().pools.find(device.current_pool.load());
    if (pool == nullptr) pool = device.default_pool;
    return CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* out, size_t bytes, const PoolPtr& pool, Stream& stream) {
    // Graphs have memory of devices.
    if (stream.capture() != nullptr && pool->is_managed()) return CUDA_ERROR_NOT_SUPPORTED;
    if (stream.capture() != nullptr) return capture_allocation(stream, *pool, bytes, out);
    AllocationPtr allocation = pool->allocate(bytes);
    if (allocation == nullptr) {
        // What streams are about to free may be what is missing.
        stream.context().synchronise();
        allocation = pool->allocate(bytes);
        if (allocation == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = allocation->address;
    return CUDA_SUCCESS;
}

CUresult device_at(const CUmemLocation* location, CUmemAllocationType type, Device*& device) {
    if (location == nullptr || type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    return find_device(location->id, device);
}

}  // namespace

CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
    if (dptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    if (bytesize == 0) return CUDA_SUCCESS;  // the address is 0
    PoolPtr pool;
    CU_TRY(current_pool(stream->context().device(), pool));
    return allocate(dptr, bytesize, pool, *stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    if (dptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    PoolPtr found;
    CU_TRY(find_pool(pool, found));
    if (found->imported()) return CUDA_ERROR_INVALID_VALUE;
    if (bytesize == 0) return CUDA_SUCCESS;  // the address is 0
    return allocate(dptr, bytesize, found, *stream);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    if (dptr == 0) return CUDA_SUCCESS;
    if (stream->capture() != nullptr) return capture_free(*stream, dptr);
    CU_TRY(check_unsafe_call());
    AllocationPtr allocation = process().addresses.find(dptr);
    if (allocation == nullptr || allocation->address != dptr) return CUDA_ERROR_INVALID_VALUE;
    if (allocation->pool == 0 && (allocation->kind == MemoryKind::device || allocation->kind == MemoryKind::managed)) {
        // Memory of cuMemAlloc may be freed in stream order, too.
        stream->submit_always([dptr] {
            if (AllocationPtr taken = process().addresses.remove(dptr)) release_allocation(*taken);
        });
        return CUDA_SUCCESS;
    }
    if (allocation->kind == MemoryKind::graph) {
        auto memory = GraphMemory::find(dptr);
        if (memory == nullptr || !memory->live()) return CUDA_ERROR_INVALID_VALUE;
        memory->set_live(false);
        // If its graph is gone, it goes when what was launched before is done with it.
        stream->submit_always([held = std::move(memory)] {});
        return CUDA_SUCCESS;
    }
    if (allocation->pool == 0 || allocation->freed.exchange(true)) return CUDA_ERROR_INVALID_VALUE;
    auto pool = process().pools.find(allocation->pool);
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    stream->submit_always([pool, dptr] { pool->free(dptr); });
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
    if (pool == nullptr || poolProps == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (poolProps->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED) {
        PoolPtr made;
        CU_TRY(ManagedPools::create(*poolProps, false, made));
        *pool = as_handle<CUmemoryPool>(made->handle());
        return CUDA_SUCCESS;
    }
    const auto types = static_cast<unsigned int>(poolProps->handleTypes);
    if ((types & ~static_cast<unsigned int>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    Device* device = nullptr;
    CU_TRY(device_at(&poolProps->location, poolProps->allocType, device));
    auto made = MemoryPool::create(*device, *poolProps);
    if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    made->set_handle(process().pools.add(made));
    *pool = as_handle<CUmemoryPool>(made->handle());
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    PoolPtr found;
    CU_TRY(find_pool(pool, found));
    if (found->is_default()) return CUDA_ERROR_INVALID_VALUE;
    uint64_t handle = found->handle();
    found->device().current_pool.compare_exchange_strong(handle, found->device().default_pool->handle());
    // Allocations that are left stay valid until they are freed: the pool stays findable by them, not by its handle.
    found->retire(found);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
    PoolPtr found;
    CU_TRY(find_pool(pool, found));
    found->trim(minBytesToKeep);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    PoolPtr found;
    CU_TRY(find_pool(pool, found));
    return found->set_attribute(attr, value);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    PoolPtr found;
    CU_TRY(find_pool(pool, found));
    return found->get_attribute(attr, value);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
    if (map == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
    PoolPtr found;
    CU_TRY(find_pool(pool, found));
    for (size_t i = 0; i < count; ++i) CU_TRY(found->check_access(map[i]));  // all of them, before any is set (DB-34)
    for (size_t i = 0; i < count; ++i) found->set_access(map[i]);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool, CUmemLocation* location) {
    if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
    PoolPtr found;
    CU_TRY(find_pool(memPool, found));
    *flags = found->access(*location);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolExportToShareableHandle(void* handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType,
                                          unsigned long long flags) {
    if (handle_out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    PoolPtr found;
    CU_TRY(find_pool(pool, found));
    if (handleType == CU_MEM_HANDLE_TYPE_NONE || found->properties().handleTypes != handleType) return CUDA_ERROR_INVALID_VALUE;
    int fd = found->export_fd();
    if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *static_cast<int*>(handle_out) = fd;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle, CUmemAllocationHandleType handleType,
                                            unsigned long long flags) {
    if (pool_out == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pool_out = nullptr;
    if (flags != 0 || !cuda::abi::is_one_handle_type(handleType)) return CUDA_ERROR_INVALID_VALUE;
    if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    PoolPtr made;
    CU_TRY(MemoryPool::import(static_cast<int>(reinterpret_cast<intptr_t>(handle)), made));
    made->set_handle(process().pools.add(made));
    *pool_out = as_handle<CUmemoryPool>(made->handle());
    return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr) {
    if (shareData_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    AllocationPtr allocation = process().addresses.find(ptr);
    if (allocation == nullptr || allocation->kind != MemoryKind::pool || allocation->freed.load())
        return CUDA_ERROR_INVALID_VALUE;
    PoolPtr pool = process().pools.find(allocation->pool);
    return pool != nullptr ? pool->export_pointer(*allocation, shareData_out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolImportPointer(CUdeviceptr* ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData* shareData) {
    if (ptr_out == nullptr || shareData == nullptr) return CUDA_ERROR_INVALID_VALUE;
    PoolPtr found;
    CU_TRY(find_pool(pool, found));
    *ptr_out = 0;
    AllocationPtr allocation;
    CU_TRY(found->import_pointer(*shareData, allocation));
    *ptr_out = allocation->address;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
    if (pool_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    *pool_out = as_handle<CUmemoryPool>(device->default_pool->handle());
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    if (find_device(dev, device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
    *pool = as_handle<CUmemoryPool>(device->current_pool.load());
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
    Device* device = nullptr;
    if (find_device(dev, device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
    PoolPtr found;
    CU_TRY(find_pool(pool, found));
    if (&found->device() != device || found->imported() || found->is_managed()) return CUDA_ERROR_INVALID_VALUE;
    device->current_pool = found->handle();
    return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location, CUmemAllocationType type) {
    if (pool_out == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_ALLOCATION_TYPE_MANAGED) {
        PoolPtr pool;
        CU_TRY(ManagedPools::instance().default_of(*location, pool));
        *pool_out = as_handle<CUmemoryPool>(pool->handle());
        return CUDA_SUCCESS;
    }
    Device* device = nullptr;
    CU_TRY(device_at(location, type, device));
    return driver::cuDeviceGetDefaultMemPool(pool_out, device->ordinal());
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
    if (pool == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_ALLOCATION_TYPE_MANAGED) {
        PoolPtr found;
        CU_TRY(ManagedPools::instance().current_of(*location, found));
        *pool = as_handle<CUmemoryPool>(found->handle());
        return CUDA_SUCCESS;
    }
    Device* device = nullptr;
    CU_TRY(device_at(location, type, device));
    return driver::cuDeviceGetMemPool(pool, device->ordinal());
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
    if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_ALLOCATION_TYPE_MANAGED) {
        PoolPtr found;
        CU_TRY(find_pool(pool, found));
        return found->is_managed() ? ManagedPools::instance().set_current(*location, found) : CUDA_ERROR_INVALID_VALUE;
    }
    Device* device = nullptr;
    CU_TRY(device_at(location, type, device));
    return driver::cuDeviceSetMemPool(device->ordinal(), pool);
}

}  // namespace warpline::softgpu::driver
