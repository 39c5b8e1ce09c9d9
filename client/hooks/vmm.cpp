// Virtual memory management: addresses are reserved here, in the window that client and server share.
#include <algorithm>
#include <span>

#include "client/call/allocate.h"
#include "client/call/share.h"
#include "client/gen/internal_calls.gen.h"
#include "client/gen/vmm_calls.gen.h"
#include "cuda/abi/handle_types.h"

namespace warpline::client {

CUresult hook_client_cuMemAddressReserve(Call& call, CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                         unsigned long long flags) {
    if (size == 0 || size % DeviceMemory::k_block_bytes != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (alignment != 0 && (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (addr % std::max(alignment, DeviceMemory::k_block_bytes) != 0) return CUDA_ERROR_INVALID_VALUE;  // DB-10
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
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE && prop->location.type != CU_MEM_LOCATION_TYPE_INVALID)
        return WL_REFUSE_CALL("cuMemCreate", "memory of the host, which would be the server's, or of a part of a device");
    settle_shares(call);  // what nobody can import any more takes memory
    auto made = make_object<HandleKind::allocation>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = create_memory(call, made.token, size, *prop, flags);
    if (result != CUDA_SUCCESS) {
        call.state.physical_memory.remove(made.token);
        return result;
    }
    made.object->size_bytes = size;
    made.object->device = prop->location.id;
    made.object->handle_types = prop->requestedHandleTypes;
    // Of other memory the driver may say something else than what was asked for.
    if (is_ordinary(*prop, size, flags)) {
        MutexLock lock(made.object->mutex);
        made.object->properties = *prop;
    }
    *handle = made.token;
    return CUDA_SUCCESS;
}

namespace {

/// The memory of a handle that the program has.
PhysicalMemory* find_held(const Call& call, CUmemGenericAllocationHandle handle) {
    PhysicalMemory* memory = call.state.physical_memory.find(handle);
    if (!memory) return nullptr;
    MutexLock lock(memory->mutex);
    return memory->references != 0 ? memory : nullptr;
}

/// Memory has lost a mapping, or its handle a reference: `count` says which. False if it had none.
CUresult let_go(Call& call, CUmemGenericAllocationHandle handle, unsigned PhysicalMemory::*count) WL_NO_THREAD_SAFETY_ANALYSIS {
    PhysicalMemory* memory = call.state.physical_memory.find(handle);
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    {
        MutexLock lock(memory->mutex);
        if (memory->*count == 0) return CUDA_ERROR_INVALID_VALUE;
        --(memory->*count);
        if (memory->references != 0 || memory->mappings != 0) return CUDA_SUCCESS;
    }
    settle_shares(call);
    const CUresult result = gen::issue_cuMemRelease(call, handle);
    call.state.physical_memory.remove(handle);
    return result;
}

}  // namespace

CUresult hook_client_cuMemRelease(Call& call, CUmemGenericAllocationHandle handle) {
    return let_go(call, handle, &PhysicalMemory::references);
}

CUresult hook_client_cuMemMap(Call& call, CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                              unsigned long long flags) {
    if (ptr == 0 || size == 0) return CUDA_ERROR_INVALID_VALUE;
    PhysicalMemory* memory = find_held(call, handle);
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    // What is no part of the memory is not supported, wherever it is to be; nor are parts behind its beginning.
    const bool whole_blocks = size % DeviceMemory::k_block_bytes == 0;
    const bool longer = memory->size_bytes != 0 && size > memory->size_bytes;  // of other processes' memory the driver knows
    if (offset != 0 || !whole_blocks || longer) return CUDA_ERROR_NOT_SUPPORTED;
    if (flags != 0 || !call.state.memory.is_reserved(ptr, size)) return CUDA_ERROR_INVALID_VALUE;
    // A whole piece of memory fits where nothing is. What else there may be the driver decides.
    const bool fits =
        memory->size_bytes == size && ptr % DeviceMemory::k_block_bytes == 0 && call.state.memory.is_vacant(ptr, size);
    const CUresult result = fits ? gen::issue_cuMemMap(call, ptr, size, offset, handle, flags)
                                 : gen::request_cuMemMap(call, ptr, size, offset, handle, flags);
    if (result != CUDA_SUCCESS) return result;
    {
        MutexLock lock(memory->mutex);
        ++memory->mappings;
    }
    DeviceRange range;
    range.base = ptr;
    range.size_bytes = size;
    range.context = call.context;
    range.device = memory->device;
    range.owner = handle;
    range.kind = MemoryKind::mapped;
    call.state.memory.register_range(range);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemUnmap(Call& call, CUdeviceptr ptr, size_t size) {
    const std::vector<DeviceRange> gone = call.state.memory.forget_mapped(ptr, size);
    if (size == 0 || gone.empty()) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = gen::issue_cuMemUnmap(call, ptr, size);
    for (const DeviceRange& range : gone) static_cast<void>(let_go(call, range.owner, &PhysicalMemory::mappings));
    return result;
}

CUresult hook_client_cuMemSetAccess(Call& call, CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
    const std::vector<DeviceRange> ranges = call.state.memory.mapped_in(ptr, size);
    if (count == 0 || ranges.empty()) return CUDA_ERROR_INVALID_VALUE;
    bool others = false;
    for (const CUmemAccessDesc& one : std::span(desc, count)) {
        if (one.location.type != CU_MEM_LOCATION_TYPE_DEVICE && one.location.type != CU_MEM_LOCATION_TYPE_INVALID)
            return WL_REFUSE_CALL("cuMemSetAccess", "access of the host to memory of a device");
        if (one.location.type != CU_MEM_LOCATION_TYPE_DEVICE || !find_device(one.location.id)) return CUDA_ERROR_INVALID_DEVICE;
        const bool exists = one.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || one.flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                            one.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (!exists) return CUDA_ERROR_INVALID_VALUE;
        // What a device may do with its own memory every driver gives; whether others reach it the program is to know at once.
        others = others || one.flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                 std::any_of(ranges.begin(), ranges.end(),
                             [&](const DeviceRange& range) { return range.device != one.location.id; });
    }
    const auto set = others ? gen::request_cuMemSetAccess : gen::issue_cuMemSetAccess;
    return set(call, ptr, size, array_bytes(desc, count), count);
}

CUresult hook_client_cuMemRetainAllocationHandle(Call& call, CUmemGenericAllocationHandle* handle, void* addr) {
    std::optional<DeviceRange> range = call.state.memory.find(reinterpret_cast<uint64_t>(addr));
    if (!range || range->kind != MemoryKind::mapped) return CUDA_ERROR_INVALID_VALUE;
    PhysicalMemory* memory = call.state.physical_memory.find(range->owner);
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    MutexLock lock(memory->mutex);
    ++memory->references;
    *handle = range->owner;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemGetAllocationPropertiesFromHandle(Call& call, CUmemAllocationProp* prop,
                                                            CUmemGenericAllocationHandle handle) {
    if (CUresult failed = failure_of(call); failed != CUDA_SUCCESS) return failed;
    PhysicalMemory* memory = find_held(call, handle);
    if (!memory) return CUDA_ERROR_INVALID_VALUE;
    {
        MutexLock lock(memory->mutex);
        if (memory->properties) {
            *prop = *memory->properties;
            return CUDA_SUCCESS;
        }
    }
    gen::CuMemGetAllocationPropertiesFromHandleValues answer;
    if (CUresult result = gen::request_cuMemGetAllocationPropertiesFromHandle(call, handle, answer); result != CUDA_SUCCESS)
        return result;
    copy_struct(prop, answer.prop);
    MutexLock lock(memory->mutex);
    memory->properties = *prop;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemExportToShareableHandle(Call& call, void* shareableHandle, CUmemGenericAllocationHandle handle,
                                                  CUmemAllocationHandleType handleType, unsigned long long flags) {
    if (flags != 0 || !find_held(call, handle)) return CUDA_ERROR_INVALID_VALUE;
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
    if (!cuda::abi::is_one_handle_type(shHandleType)) return CUDA_ERROR_INVALID_VALUE;
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
    made.object->device = static_cast<int>(answer.device);
    made.object->handle_types = static_cast<CUmemAllocationHandleType>(answer.handleTypes);
    *handle = made.token;
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
