// Managed memory: making it, advice, prefetching, and what is asked of ranges of it. Nothing of this waits for the server.
#include "client/call/managed.h"

#include "client/code/images.h"
#include "client/gen/managed_calls.gen.h"
#include "client/managed/system_calls.h"

namespace warpline::client {

namespace {

using cuda::abi::location_of;

CUresult check_place(const CUmemLocation& location) {
    return cuda::abi::check_location(location, [](int ordinal) { return find_device(ordinal) != nullptr; });
}

CUresult advise(Call& call, CUdeviceptr address, size_t bytes, CUmem_advise advice, const CUmemLocation& location) {
    if (CUresult refused = check_managed(call, address, bytes); refused != CUDA_SUCCESS) return refused;
    if (cuda::abi::names_location(advice)) {
        if (CUresult refused = check_place(location); refused != CUDA_SUCCESS) return refused;
    }
    return call.state.advice.advise(address, bytes, advice, location);
}

/// To the device: the pages go there now. To the host: they come whole with the first access, which waits for the device as the
/// stream would.
CUresult prefetch(Call& call, CUdeviceptr address, size_t bytes, const CUmemLocation& location, CUstream stream) {
    if (CUresult refused = check_stream(call, stream); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_managed(call, address, bytes); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_place(location); refused != CUDA_SUCCESS) return refused;
    call.state.advice.note_prefetch(address, bytes, location);
    call.stream = stream_token(call, stream);
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return give_pages(call, address, bytes);
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    if (SharedRegion* shared = pages.find(address)) shared->wanted_here = {address, bytes};
    return CUDA_SUCCESS;
}

CUresult range_attribute(const Call& call, void* data, size_t bytes, CUmem_range_attribute attribute, CUdeviceptr address,
                         size_t count) {
    if (!data) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult refused = check_managed(call, address, count); refused != CUDA_SUCCESS) return refused;
    return call.state.advice.read(data, bytes, attribute, address, count);
}

CUresult check_batch(const Call& call, const CUdeviceptr* addresses, const size_t* sizes, size_t count,
                     unsigned long long flags, CUstream stream) {
    if (count == 0 || flags != 0 || !takes_batches(stream)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        if (CUresult refused = check_managed(call, addresses[i], sizes[i]); refused != CUDA_SUCCESS) return refused;
    }
    return check_stream(call, stream);
}

CUresult prefetch_batch(Call& call, const cuda::abi::PrefetchBatch& batch, unsigned long long flags, CUstream stream) {
    const CUresult refused = check_batch(call, batch.addresses, batch.sizes, batch.count, flags, stream);
    if (refused != CUDA_SUCCESS) return refused;
    return batch.each([&](CUdeviceptr address, size_t bytes, const CUmemLocation& location) {
        return prefetch(call, address, bytes, location, stream);
    });
}

}  // namespace

CUresult hook_client_cuMemAllocManaged(Call& call, CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
    uint64_t address = 0;
    const CUresult result = allocate_managed(call, bytesize, flags, address);
    if (result != CUDA_SUCCESS) return result;
    system_calls::attend();  // a call that is under way at the first launch would find its pages gone
    *dptr = address;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemAdvise(Call& call, CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
    return advise(call, devPtr, count, advice, location_of(device));
}

CUresult hook_client_cuMemAdvise_v2(Call& call, CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
    return advise(call, devPtr, count, advice, location);
}

CUresult hook_client_cuMemPrefetchAsync(Call& call, CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
    return prefetch(call, devPtr, count, location_of(dstDevice), hStream);
}

CUresult hook_client_cuMemPrefetchAsync_v2(Call& call, CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                           unsigned int flags, CUstream hStream) {
    return flags == 0 ? prefetch(call, devPtr, count, location, hStream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult hook_client_cuMemPrefetchBatchAsync(Call& call, CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                             CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs, size_t numPrefetchLocs,
                                             unsigned long long flags, CUstream hStream) {
    return prefetch_batch(call, {dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs}, flags, hStream);
}

CUresult hook_client_cuMemDiscardBatchAsync(Call& call, CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                            unsigned long long flags, CUstream hStream) {
    // What is discarded may keep its content: reading it is undefined until it is written again.
    return check_batch(call, dptrs, sizes, count, flags, hStream);
}

CUresult hook_client_cuMemDiscardAndPrefetchBatchAsync(Call& call, CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                                       CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                                       size_t numPrefetchLocs, unsigned long long flags, CUstream hStream) {
    return prefetch_batch(call, {dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs}, flags, hStream);
}

CUresult hook_client_cuMemRangeGetAttribute(Call& call, void* data, size_t dataSize, CUmem_range_attribute attribute,
                                            CUdeviceptr devPtr, size_t count) {
    return range_attribute(call, data, dataSize, attribute, devPtr, count);
}

CUresult hook_client_cuMemRangeGetAttributes(Call& call, void** data, size_t* dataSizes, CUmem_range_attribute* attributes,
                                             size_t numAttributes, CUdeviceptr devPtr, size_t count) {
    if (numAttributes == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < numAttributes; ++i) {
        const CUresult result = range_attribute(call, data[i], dataSizes[i], attributes[i], devPtr, count);
        if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

CUresult hook_client_cuLibraryGetManaged(Call& call, CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
    const Library* found = call.state.libraries.find(to_token(library));
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    const cuda::image::Global* global = found->code->info.find_global(name);
    if (!global || !global->managed) return CUDA_ERROR_NOT_FOUND;
    // Run-time libraries ask before the program has a context. The variable has one address in all of them.
    if (!call.current()) call.context = find_device(0)->primary_context;
    return get_variable(call, *found->code, to_token(library), name, dptr, bytes);
}

}  // namespace warpline::client
