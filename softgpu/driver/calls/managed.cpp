// Managed memory: making it, advice, prefetching, and what is asked of ranges of it.
#include "cuda/abi/memory_advice.h"
#include "softgpu/driver/code/module.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

CUresult check_managed(CUdeviceptr address, size_t bytes) {
    AllocationPtr allocation = process().addresses.find(address);
    if (bytes == 0 || allocation == nullptr || allocation->kind != MemoryKind::managed) return CUDA_ERROR_INVALID_VALUE;
    uint64_t offset = address - allocation->address;
    return bytes <= allocation->size_bytes - offset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

using cuda::abi::location_of;

CUresult check_place(const CUmemLocation& location) {
    return cuda::abi::check_location(location, [](int ordinal) { return process().device(ordinal) != nullptr; });
}

CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise advice, const CUmemLocation& location) {
    CU_TRY(check_managed(address, bytes));
    if (cuda::abi::names_location(advice)) CU_TRY(check_place(location));
    return process().advice.advise(address, bytes, advice, location);
}

CUresult prefetch(CUdeviceptr address, size_t bytes, const CUmemLocation& location, CUstream handle) {
    StreamPtr stream;
    CU_TRY(find_stream(handle, stream));
    CU_TRY(check_place(location));
    CU_TRY(check_managed(address, bytes));
    process().advice.note_prefetch(address, bytes, location);
    return CUDA_SUCCESS;
}

CUresult range_attribute(void* data, size_t bytes, CUmem_range_attribute attribute, CUdeviceptr address, size_t count) {
    if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(check_managed(address, count));
    return process().advice.read(data, bytes, attribute, address, count);
}

CUresult check_batch(const CUdeviceptr* addresses, const size_t* sizes, size_t count, unsigned long long flags) {
    if (addresses == nullptr || sizes == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) CU_TRY(check_managed(addresses[i], sizes[i]));
    return CUDA_SUCCESS;
}

CUresult prefetch_batch(const cuda::abi::PrefetchBatch& batch, unsigned long long flags, CUstream handle) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(find_stream(handle, stream));
    CU_TRY(check_batch(batch.addresses, batch.sizes, batch.count, flags));
    return batch.each([handle](CUdeviceptr address, size_t bytes, const CUmemLocation& location) {
        return prefetch(address, bytes, location, handle);
    });
}

}  // namespace

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
    Context* context = nullptr;
    CU_TRY(current_context(context));
    return advise(devPtr, count, advice, location);
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
    return driver::cuMemAdvise_v2(devPtr, count, advice, location_of(device));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags, CUstream hStream) {
    return flags == 0 ? prefetch(devPtr, count, location, hStream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
    return prefetch(devPtr, count, location_of(dstDevice), hStream);
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs,
                                 size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream) {
    return prefetch_batch({dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs}, flags, hStream);
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, unsigned long long flags, CUstream hStream) {
    if (hStream == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    // What is discarded may keep its content: reading it is undefined until it is written again.
    return check_batch(dptrs, sizes, count, flags);
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs,
                                           size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
                                           CUstream hStream) {
    return prefetch_batch({dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs}, flags, hStream);
}

CUresult cuMemRangeGetAttribute(void* data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr,
                                size_t count) {
    Context* context = nullptr;
    CU_TRY(current_context(context));
    return range_attribute(data, dataSize, attribute, devPtr, count);
}

CUresult cuMemRangeGetAttributes(void** data, size_t* dataSizes, CUmem_range_attribute* attributes, size_t numAttributes,
                                 CUdeviceptr devPtr, size_t count) {
    if (data == nullptr || dataSizes == nullptr || attributes == nullptr || numAttributes == 0) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    for (size_t i = 0; i < numAttributes; ++i) {
        CU_TRY(range_attribute(data[i], dataSizes[i], attributes[i], devPtr, count));
    }
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
    return find_variable(library, name, true, dptr, bytes);
}

CUresult cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
    if (dptr == nullptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    CU_TRY(check_unsafe_call());
    AllocationPtr allocation;
    CU_TRY(allocate_pages(context->device(), context->handle(), bytesize, MemoryKind::managed, flags, allocation));
    *dptr = allocation->address;
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
