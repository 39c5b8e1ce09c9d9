// Managed memory: making it, advice, prefetching, and what is asked of ranges of it. Nothing of this waits for the server.
#include "client/call/managed.h"

#include <algorithm>
#include <cstring>

#include "client/code/images.h"
#include "client/gen/managed_calls.gen.h"

namespace warpline::client {

namespace {

CUresult check_location(const CUmemLocation& location) {
    switch (location.type) {
        case CU_MEM_LOCATION_TYPE_DEVICE: return find_device(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
        case CU_MEM_LOCATION_TYPE_HOST:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUmemLocation location_of(CUdevice device) {
    if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
    return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

int number_of(const CUmemLocation& location) {
    if (location.type == CU_MEM_LOCATION_TYPE_INVALID) return CU_DEVICE_INVALID;
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

CUresult advise(Call& call, CUdeviceptr address, size_t bytes, CUmem_advise advice, const CUmemLocation& location) {
    if (CUresult refused = check_managed(call, address, bytes); refused != CUDA_SUCCESS) return refused;
    const bool names_location =
        advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION && advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
    if (names_location) {
        if (CUresult refused = check_location(location); refused != CUDA_SUCCESS) return refused;
    }
    using Piece = Advice::Piece;
    const auto change = [&](auto apply) { call.state.advice.change(address, bytes, apply); };
    switch (advice) {
        case CU_MEM_ADVISE_SET_READ_MOSTLY: change([](Piece& piece) { piece.read_mostly = true; }); break;
        case CU_MEM_ADVISE_UNSET_READ_MOSTLY: change([](Piece& piece) { piece.read_mostly = false; }); break;
        case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: change([&](Piece& piece) { piece.preferred = location; }); break;
        case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: change([](Piece& piece) { piece.preferred = Piece{}.preferred; }); break;
        case CU_MEM_ADVISE_SET_ACCESSED_BY: change([&](Piece& piece) { piece.accessed_by.insert(number_of(location)); }); break;
        case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
            change([&](Piece& piece) { piece.accessed_by.erase(number_of(location)); });
            break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/// To the device: the pages go there now. To the host: they come whole with the first access, which waits for the device as the
/// stream would.
CUresult prefetch(Call& call, CUdeviceptr address, size_t bytes, const CUmemLocation& location, CUstream stream) {
    if (CUresult refused = check_stream(call, stream); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_managed(call, address, bytes); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_location(location); refused != CUDA_SUCCESS) return refused;
    call.state.advice.change(address, bytes, [&](Advice::Piece& piece) { piece.prefetched = location; });
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return give_pages(call, address, bytes);
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    if (SharedRegion* shared = pages.find(address)) shared->wanted_here = {address, bytes};
    return CUDA_SUCCESS;
}

/// What all pieces agree on, else the default of the attribute.
CUmemLocation common_location(const std::vector<Advice::Piece>& pieces, CUmemLocation Advice::Piece::*member) {
    const CUmemLocation first = pieces.front().*member;
    const bool same = std::all_of(pieces.begin(), pieces.end(), [&](const Advice::Piece& piece) {
        return (piece.*member).type == first.type && (piece.*member).id == first.id;
    });
    return same ? first : CUmemLocation{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
}

CUresult list_accessors(const std::vector<Advice::Piece>& pieces, void* data, size_t bytes) {
    if (bytes == 0 || bytes % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
    std::vector<int> common;
    for (const int who : pieces.front().accessed_by) {
        const bool everywhere =
            std::all_of(pieces.begin(), pieces.end(), [who](const auto& piece) { return piece.accessed_by.contains(who); });
        if (everywhere) common.push_back(who);
    }
    common.resize(bytes / sizeof(int), CU_DEVICE_INVALID);
    std::memcpy(data, common.data(), bytes);
    return CUDA_SUCCESS;
}

CUresult range_attribute(const Call& call, void* data, size_t bytes, CUmem_range_attribute attribute, CUdeviceptr address,
                         size_t count) {
    if (!data) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult refused = check_managed(call, address, count); refused != CUDA_SUCCESS) return refused;
    const auto pieces = call.state.advice.read(address, count);
    const auto put = [data, bytes](int value) {
        if (bytes != sizeof value) return CUDA_ERROR_INVALID_VALUE;
        std::memcpy(data, &value, sizeof value);
        return CUDA_SUCCESS;
    };
    using Piece = Advice::Piece;
    switch (attribute) {
        case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
            return put(std::all_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.read_mostly; }) ? 1 : 0);
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: return put(number_of(common_location(pieces, &Piece::preferred)));
        case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: return list_accessors(pieces, data, bytes);
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: return put(number_of(common_location(pieces, &Piece::prefetched)));
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: return put(common_location(pieces, &Piece::preferred).type);
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: return put(common_location(pieces, &Piece::preferred).id);
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: return put(common_location(pieces, &Piece::prefetched).type);
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: return put(common_location(pieces, &Piece::prefetched).id);
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult check_batch(const Call& call, const CUdeviceptr* addresses, const size_t* sizes, size_t count,
                     unsigned long long flags, CUstream stream) {
    if (count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        if (CUresult refused = check_managed(call, addresses[i], sizes[i]); refused != CUDA_SUCCESS) return refused;
    }
    return check_stream(call, stream);
}

CUresult prefetch_batch(Call& call, CUdeviceptr* addresses, size_t* sizes, size_t count, CUmemLocation* locations,
                        size_t* first_of, size_t location_count, unsigned long long flags, CUstream stream) {
    if (CUresult refused = check_batch(call, addresses, sizes, count, flags, stream); refused != CUDA_SUCCESS) return refused;
    if (location_count == 0 || location_count > count || first_of[0] != 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0, at = 0; i < count; ++i) {
        if (at + 1 < location_count && first_of[at + 1] == i) ++at;
        const CUresult result = prefetch(call, addresses[i], sizes[i], locations[at], stream);
        if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_client_cuMemAllocManaged(Call& call, CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
    uint64_t address = 0;
    const CUresult result = allocate_managed(call, bytesize, flags, address);
    if (result == CUDA_SUCCESS) *dptr = address;
    return result;
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
    return prefetch_batch(call, dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}

CUresult hook_client_cuMemDiscardBatchAsync(Call& call, CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                            unsigned long long flags, CUstream hStream) {
    // What is discarded may keep its content: reading it is undefined until it is written again.
    return check_batch(call, dptrs, sizes, count, flags, hStream);
}

CUresult hook_client_cuMemDiscardAndPrefetchBatchAsync(Call& call, CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                                       CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                                       size_t numPrefetchLocs, unsigned long long flags, CUstream hStream) {
    return prefetch_batch(call, dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
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
