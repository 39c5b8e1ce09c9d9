// Virtual memory management: addresses are reserved here, in the window that client and server share.
#include "client/call/common.h"
#include "client/gen/vmm_calls.gen.h"

namespace warpline::client {

CUresult hook_client_cuMemAddressReserve(Call& call, CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                         unsigned long long flags) {
    if (size == 0 || size % DeviceMemory::k_block_bytes != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (alignment != 0 && (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!call.state.memory.has_window())
        return WL_REFUSE_CALL("cuMemAddressReserve", "the server's driver has no virtual memory management");
    std::optional<uint64_t> base = call.state.memory.reserve(size, alignment, addr);
    if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
    *ptr = *base;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemAddressFree(Call& call, CUdeviceptr ptr, size_t size) {
    return call.state.memory.unreserve(ptr, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult hook_client_cuMemGetAllocationGranularity(Call& call, size_t* granularity, const CUmemAllocationProp* prop,
                                                   CUmemAllocationGranularity_flags option) {
    // Allocators ask before each allocation: the same properties have the same answer.
    const BytesView question = struct_bytes(prop);
    Granularities& known = call.state.granularities;
    if (const auto answer = known.find(option, question)) {
        *granularity = *answer;
        return CUDA_SUCCESS;
    }
    gen::CuMemGetAllocationGranularityValues values;
    const CUresult result = gen::request_cuMemGetAllocationGranularity(call, question, option, values);
    if (result != CUDA_SUCCESS) return result;
    *granularity = values.granularity;
    known.add(option, question, values.granularity);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemRelease(Call& call, CUmemGenericAllocationHandle handle) {
    PhysicalMemory* memory = call.state.physical_memory.find(handle);
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    // Retained handles are counted here: the server knows one.
    if (memory->references.fetch_sub(1) > 1) return CUDA_SUCCESS;
    CUresult result = gen::issue_cuMemRelease(call, handle);
    call.state.physical_memory.remove(handle);
    return result;
}

CUresult hook_client_cuMemMap(Call& call, CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                              unsigned long long flags) {
    if (flags != 0 || offset != 0 || size == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!call.state.physical_memory.find(handle)) return CUDA_ERROR_INVALID_VALUE;
    if (!call.state.memory.is_reserved(ptr, size)) return CUDA_ERROR_INVALID_VALUE;
    // Waits: the program finds out here whether the sizes fit, and nothing is known of the range before.
    CUresult result = gen::request_cuMemMap(call, ptr, size, offset, handle, flags);
    if (result != CUDA_SUCCESS) return result;
    DeviceRange range;
    range.base = ptr;
    range.size_bytes = size;
    range.context = call.context;
    range.device = call.device();
    range.owner = handle;
    range.kind = MemoryKind::mapped;
    call.state.memory.register_range(range);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemUnmap(Call& call, CUdeviceptr ptr, size_t size) {
    if (size == 0 || !call.state.memory.forget_mapped(ptr, size)) return CUDA_ERROR_INVALID_VALUE;
    return gen::issue_cuMemUnmap(call, ptr, size);
}

CUresult hook_client_cuMemRetainAllocationHandle(Call& call, CUmemGenericAllocationHandle* handle, void* addr) {
    std::optional<DeviceRange> range = call.state.memory.find(reinterpret_cast<uint64_t>(addr));
    if (!range || range->kind != MemoryKind::mapped) return CUDA_ERROR_INVALID_VALUE;
    PhysicalMemory* memory = call.state.physical_memory.find(range->owner);
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    memory->references.fetch_add(1);
    *handle = range->owner;
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
