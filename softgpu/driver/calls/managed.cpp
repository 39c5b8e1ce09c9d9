// Managed memory: making it, advice, prefetching, and what is asked of ranges of it.
#include <algorithm>
#include <cstring>

#include "softgpu/driver/code/module.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/memory/advice.h"
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

CUresult check_location(const CUmemLocation& location) {
    switch (location.type) {
        case CU_MEM_LOCATION_TYPE_DEVICE: {
            Device* device = nullptr;
            return find_device(location.id, device);
        }
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

CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise advice, const CUmemLocation& location) {
    CU_TRY(check_managed(address, bytes));
    bool needs_location = advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION && advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
    if (needs_location) CU_TRY(check_location(location));
    auto change = [&](auto apply) { AdviceMap::instance().change(address, bytes, apply); };
    using Advice = AdviceMap::Advice;
    switch (advice) {
        case CU_MEM_ADVISE_SET_READ_MOSTLY: change([](Advice& a) { a.read_mostly = true; }); break;
        case CU_MEM_ADVISE_UNSET_READ_MOSTLY: change([](Advice& a) { a.read_mostly = false; }); break;
        case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: change([&](Advice& a) { a.preferred = location; }); break;
        case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: change([](Advice& a) { a.preferred = Advice{}.preferred; }); break;
        case CU_MEM_ADVISE_SET_ACCESSED_BY: change([&](Advice& a) { a.accessed_by.insert(number_of(location)); }); break;
        case CU_MEM_ADVISE_UNSET_ACCESSED_BY: change([&](Advice& a) { a.accessed_by.erase(number_of(location)); }); break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult prefetch(CUdeviceptr address, size_t bytes, const CUmemLocation& location, CUstream handle) {
    StreamPtr stream;
    CU_TRY(find_stream(handle, stream));
    CU_TRY(check_managed(address, bytes));
    CU_TRY(check_location(location));
    AdviceMap::instance().change(address, bytes, [&](AdviceMap::Advice& a) { a.prefetched = location; });
    return CUDA_SUCCESS;
}

/// What all pieces agree on, else the default of the attribute.
CUmemLocation common_location(const std::vector<AdviceMap::Advice>& pieces, CUmemLocation AdviceMap::Advice::*member) {
    CUmemLocation first = pieces.front().*member;
    bool same = std::all_of(pieces.begin(), pieces.end(), [&](const AdviceMap::Advice& piece) {
        return (piece.*member).type == first.type && (piece.*member).id == first.id;
    });
    return same ? first : CUmemLocation{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
}

CUresult list_accessors(const std::vector<AdviceMap::Advice>& pieces, void* data, size_t bytes) {
    if (bytes == 0 || bytes % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
    std::vector<int> common;
    for (int who : pieces.front().accessed_by) {
        bool everywhere =
            std::all_of(pieces.begin(), pieces.end(), [who](const auto& p) { return p.accessed_by.contains(who); });
        if (everywhere) common.push_back(who);
    }
    common.resize(bytes / sizeof(int), CU_DEVICE_INVALID);
    std::memcpy(data, common.data(), bytes);
    return CUDA_SUCCESS;
}

CUresult range_attribute(void* data, size_t bytes, CUmem_range_attribute attribute, CUdeviceptr address, size_t count) {
    if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(check_managed(address, count));
    auto pieces = AdviceMap::instance().read(address, count);
    auto put = [data, bytes](int value) {
        if (bytes != sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
        std::memcpy(data, &value, sizeof(value));
        return CUDA_SUCCESS;
    };
    using Advice = AdviceMap::Advice;
    switch (attribute) {
        case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
            return put(std::all_of(pieces.begin(), pieces.end(), [](const Advice& p) { return p.read_mostly; }) ? 1 : 0);
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: return put(number_of(common_location(pieces, &Advice::preferred)));
        case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: return list_accessors(pieces, data, bytes);
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: return put(number_of(common_location(pieces, &Advice::prefetched)));
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: return put(common_location(pieces, &Advice::preferred).type);
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: return put(common_location(pieces, &Advice::preferred).id);
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: return put(common_location(pieces, &Advice::prefetched).type);
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: return put(common_location(pieces, &Advice::prefetched).id);
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult check_batch(const CUdeviceptr* addresses, const size_t* sizes, size_t count, unsigned long long flags) {
    if (addresses == nullptr || sizes == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) CU_TRY(check_managed(addresses[i], sizes[i]));
    return CUDA_SUCCESS;
}

CUresult prefetch_batch(CUdeviceptr* addresses, size_t* sizes, size_t count, CUmemLocation* locations, size_t* first_of,
                        size_t location_count, unsigned long long flags, CUstream handle) {
    CU_TRY(check_batch(addresses, sizes, count, flags));
    if (locations == nullptr || first_of == nullptr || location_count == 0 || location_count > count || first_of[0] != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0, at = 0; i < count; ++i) {
        if (at + 1 < location_count && first_of[at + 1] == i) ++at;
        CU_TRY(prefetch(addresses[i], sizes[i], locations[at], handle));
    }
    return CUDA_SUCCESS;
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
    return prefetch_batch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, unsigned long long flags, CUstream hStream) {
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    // What is discarded may keep its content: reading it is undefined until it is written again.
    return check_batch(dptrs, sizes, count, flags);
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs,
                                           size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
                                           CUstream hStream) {
    return prefetch_batch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
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
