// Memory and events by handles of 64 bytes, which programs carry to other processes.
#include <bit>

#include "client/call/share.h"
#include "client/gen/ipc_calls.gen.h"

namespace warpline::client {

namespace {

/// CUDA_SUCCESS if the server gives memory to other processes at all.
CUresult check_memory_is_shared(const Call& call) {
    const Device* device = find_device(call.device());
    if (device && device->attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0) return CUDA_SUCCESS;
    return WL_REFUSE_CALL("cuIpc*", "the server, or its driver, gives no memory to other processes");
}

CUresult check_events_are_shared(const Call& call) {
    const Device* device = find_device(call.device());
    if (device && device->attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED) != 0) return CUDA_SUCCESS;
    return WL_REFUSE_CALL("cuIpc*", "the server, or its driver, gives no events to other processes");
}

/// What is to be made of memory that is open already.
enum class Again { counted, refused };

CUresult open(Call& call, CUdeviceptr* address, const CUipcMemHandle& handle, unsigned flags, Again again) {
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult refused = check_context(call); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_memory_is_shared(call); refused != CUDA_SUCCESS) return refused;
    const auto ticket = protocol::read_ticket(as_bytes(&handle, sizeof handle), ShareKind::memory);
    if (!ticket)
        return told_why("cuIpcOpenMemHandle", static_cast<uint32_t>(protocol::ShareRefusal::other_kind),
                        CUDA_ERROR_INVALID_HANDLE);
    if (again == Again::refused && call.state.shares.is_open(*ticket, call.context)) return CUDA_ERROR_ALREADY_MAPPED;
    if (const auto known = call.state.shares.open_again(*ticket, call.context)) {
        *address = *known;
        return CUDA_SUCCESS;
    }
    OpenedMemory opened;
    const CUresult result = open_memory(call, *ticket, nullptr, 0, opened);
    if (result != CUDA_SUCCESS) return result;
    call.state.shares.add(*ticket, opened);
    *address = opened.address;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_client_cuIpcGetMemHandle(Call& call, CUipcMemHandle* pHandle, CUdeviceptr dptr) {
    if (CUresult refused = check_memory_is_shared(call); refused != CUDA_SUCCESS) return refused;
    const std::optional<DeviceRange> range = call.state.memory.find(dptr);
    if (!range || range->kind != MemoryKind::device || range->owner != 0) return CUDA_ERROR_INVALID_VALUE;
    note_shared(call);
    gen::CuIpcGetMemHandleValues answer;
    const CUresult result = gen::request_cuIpcGetMemHandle(call, range->base, range->size_bytes, answer);
    if (result != CUDA_SUCCESS) return told_why("cuIpcGetMemHandle", answer.why, result);
    ShareTicket ticket;
    if (!take_ticket(answer.ticket, ShareKind::memory, ticket)) return CUDA_ERROR_UNKNOWN;
    call.state.shares.lent(range->base, ticket);
    *pHandle = std::bit_cast<CUipcMemHandle>(ticket);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuIpcOpenMemHandle_v2(Call& call, CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
    return open(call, pdptr, handle, Flags, Again::counted);
}

CUresult hook_client_cuIpcOpenMemHandle(Call& call, CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
    return open(call, pdptr, handle, Flags, Again::refused);  // DB-64
}

/// CUDA waits here for the device; we do not, and nobody gets the addresses before it has done with them.
CUresult hook_client_cuIpcCloseMemHandle(Call& call, CUdeviceptr dptr) {
    const auto opened = call.state.shares.close(dptr);
    if (!opened) return CUDA_ERROR_INVALID_VALUE;
    if (opened->uses > 0) return CUDA_SUCCESS;
    call.state.memory.forget(dptr, MemoryKind::imported);
    close_memory(call, *opened);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuIpcGetEventHandle(Call& call, CUipcEventHandle* pHandle, CUevent event) {
    *pHandle = {};
    const Event* found = call.state.events.find(to_token(event));
    if (!found || (found->flags & CU_EVENT_INTERPROCESS) == 0 || found->imported) return CUDA_ERROR_INVALID_HANDLE;
    call.context = found->context;
    gen::CuIpcGetEventHandleValues answer;
    const CUresult result = gen::request_cuIpcGetEventHandle(call, to_token(event), answer);
    if (result != CUDA_SUCCESS) return told_why("cuIpcGetEventHandle", answer.why, result);
    ShareTicket ticket;
    if (!take_ticket(answer.ticket, ShareKind::event, ticket)) return CUDA_ERROR_UNKNOWN;
    *pHandle = std::bit_cast<CUipcEventHandle>(ticket);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuIpcOpenEventHandle(Call& call, CUevent* phEvent, CUipcEventHandle handle) {
    if (CUresult refused = check_context(call); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_events_are_shared(call); refused != CUDA_SUCCESS) return refused;
    const BytesView bytes = as_bytes(&handle, sizeof handle);
    if (!protocol::read_ticket(bytes, ShareKind::event)) {
        const auto why = static_cast<uint32_t>(protocol::ShareRefusal::other_kind);
        return told_why("cuIpcOpenEventHandle", why, CUDA_ERROR_MAP_FAILED);
    }
    auto made = make_object<HandleKind::event>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made.object->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    made.object->imported = true;
    gen::CuIpcOpenEventHandleValues answer;
    const CUresult result = gen::request_cuIpcOpenEventHandle(call, made.token, bytes, answer);
    if (result != CUDA_SUCCESS) {
        call.state.events.remove(made.token);
        return told_why("cuIpcOpenEventHandle", answer.why, result);
    }
    note_shared(call);
    *phEvent = to_handle<CUevent>(made.token);
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
