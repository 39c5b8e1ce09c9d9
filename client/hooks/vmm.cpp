// Virtual memory management: addresses are reserved here, in the window that client and server share.
#include "client/call/allocate.h"
#include "client/call/share.h"
#include "client/gen/internal_calls.gen.h"
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

namespace {

/// True for what every driver gives as long as there is memory: nothing needs to be decided but whether there is enough.
bool is_ordinary(const CUmemAllocationProp& prop, size_t size_bytes, unsigned long long flags) {
    if (flags != 0 || size_bytes == 0 || size_bytes % DeviceMemory::k_block_bytes != 0) return false;
    if (prop.type != CU_MEM_ALLOCATION_TYPE_PINNED || prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return false;
    const Device* device = find_device(prop.location.id);
    if (device == nullptr || prop.win32HandleMetaData != nullptr) return false;
    const auto& special = prop.allocFlags;
    if (special.compressionType != CU_MEM_ALLOCATION_COMP_NONE || special.usage != 0) return false;
    if (special.gpuDirectRDMACapable != 0 &&
        device->attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) == 0)
        return false;
    return prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ||
           (prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
            device->attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0);
}

/// Makes memory: without waiting while the server's grant lasts.
CUresult create_memory(Call& call, uint64_t token, size_t size_bytes, const CUmemAllocationProp& prop,
                       unsigned long long flags) {
    const BytesView properties = as_bytes(&prop, sizeof prop);
    if (is_ordinary(prop, size_bytes, flags)) {
        MemoryCredit& credit = call.session.memory_credit();
        MutexLock lock(credit.order);
        if (credit.take(prop.location.id, size_bytes)) return gen::issue_wlMemCreate(call, token, size_bytes, properties);
    }
    const CUresult result = gen::request_cuMemCreate(call, token, size_bytes, properties, flags);
    if (result == CUDA_SUCCESS && prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE) took_memory(call, prop.location.id);
    return result;
}

}  // namespace

CUresult hook_client_cuMemCreate(Call& call, CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                                 unsigned long long flags) {
    settle_shares(call);  // what nobody can import any more takes memory
    auto made = make_object<HandleKind::allocation>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = create_memory(call, made.token, size, *prop, flags);
    if (result != CUDA_SUCCESS) {
        call.state.physical_memory.remove(made.token);
        return result;
    }
    made.object->size_bytes = size;
    *handle = made.token;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemRelease(Call& call, CUmemGenericAllocationHandle handle) {
    PhysicalMemory* memory = call.state.physical_memory.find(handle);
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    // Retained handles are counted here: the server knows one.
    if (memory->references.fetch_sub(1) > 1) return CUDA_SUCCESS;
    settle_shares(call);
    CUresult result = gen::issue_cuMemRelease(call, handle);
    call.state.physical_memory.remove(handle);
    return result;
}

CUresult hook_client_cuMemMap(Call& call, CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                              unsigned long long flags) {
    if (flags != 0 || offset != 0 || size == 0) return CUDA_ERROR_INVALID_VALUE;
    const PhysicalMemory* memory = call.state.physical_memory.find(handle);
    if (!memory || !call.state.memory.is_reserved(ptr, size)) return CUDA_ERROR_INVALID_VALUE;
    // A whole piece of memory fits where nothing is. What else there may be the driver decides.
    const bool fits =
        memory->size_bytes == size && ptr % DeviceMemory::k_block_bytes == 0 && call.state.memory.is_vacant(ptr, size);
    const CUresult result = fits ? gen::issue_cuMemMap(call, ptr, size, offset, handle, flags)
                                 : gen::request_cuMemMap(call, ptr, size, offset, handle, flags);
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

CUresult hook_client_cuMemExportToShareableHandle(Call& call, void* shareableHandle, CUmemGenericAllocationHandle handle,
                                                  CUmemAllocationHandleType handleType, unsigned long long flags) {
    if (flags != 0 || !call.state.physical_memory.find(handle)) return CUDA_ERROR_INVALID_VALUE;
    if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return WL_REFUSE_CALL("cuMemExportToShareableHandle", "handles other than file descriptors");
    settle_shares(call);
    note_shared(call);
    gen::CuMemExportToShareableHandleValues answer;
    const CUresult result = gen::request_cuMemExportToShareableHandle(call, handle, answer);
    if (result != CUDA_SUCCESS) return told_why("cuMemExportToShareableHandle", answer.why, result);
    ShareTicket ticket;
    int descriptor = -1;
    if (!take_ticket(answer.ticket, ShareKind::allocation, ticket)) return CUDA_ERROR_UNKNOWN;
    if (CUresult refused = give_descriptor(call, ticket, Ends::yes, descriptor); refused != CUDA_SUCCESS) return refused;
    *static_cast<int*>(shareableHandle) = descriptor;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemImportFromShareableHandle(Call& call, CUmemGenericAllocationHandle* handle, void* osHandle,
                                                    CUmemAllocationHandleType shHandleType) {
    if (shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return WL_REFUSE_CALL("cuMemImportFromShareableHandle", "handles other than file descriptors");
    const auto ticket = ticket_in(static_cast<int>(reinterpret_cast<intptr_t>(osHandle)), ShareKind::allocation);
    if (!ticket) return CUDA_ERROR_INVALID_VALUE;
    auto made = make_object<HandleKind::allocation>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    gen::CuMemImportFromShareableHandleValues answer;
    const CUresult result =
        gen::request_cuMemImportFromShareableHandle(call, made.token, as_bytes(&*ticket, sizeof *ticket), answer);
    if (result != CUDA_SUCCESS) {
        call.state.physical_memory.remove(made.token);
        return told_why("cuMemImportFromShareableHandle", answer.why, result);
    }
    note_shared(call);
    *handle = made.token;
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
