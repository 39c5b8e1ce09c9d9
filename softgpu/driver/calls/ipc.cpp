// Memory and events of other processes, by handles of 64 bytes.
#include <unistd.h>

#include <bit>

#include "softgpu/driver/context/context.h"
#include "softgpu/driver/context/event.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/memory/checks.h"
#include "softgpu/driver/memory/imported_memory.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

CUresult cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
    if (pHandle == nullptr || dptr == 0) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    AllocationPtr allocation = process().addresses.find(dptr);
    if (allocation == nullptr || allocation->kind != MemoryKind::device) return CUDA_ERROR_INVALID_VALUE;
    Device& device = *process().device(allocation->device);
    uint64_t chunk = 0, chunk_bytes = 0;
    if (!device.heap().share(allocation->address, &chunk, &chunk_bytes)) return CUDA_ERROR_INVALID_VALUE;
    SharedFilePtr file = device.exported().share(device.as_owner(), chunk, chunk_bytes);
    if (file == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    note_shared(allocation->address);
    ExportedMemory exported;
    exported.pid = getpid();
    exported.fd = file->fd();
    exported.file = file->id();
    exported.offset = allocation->address - chunk;
    exported.size_bytes = allocation->size_bytes;
    exported.allocation = allocation->id;
    *pHandle = std::bit_cast<CUipcMemHandle>(exported);
    return CUDA_SUCCESS;
}

namespace {

CUresult open_memory(CUdeviceptr* pdptr, const CUipcMemHandle& handle, unsigned int Flags, ImportedMemory::Again again) {
    if (pdptr == nullptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    CU_TRY(check_unsafe_call());
    uint64_t address = 0;
    CU_TRY(ImportedMemory::instance().open(std::bit_cast<ExportedMemory>(handle), context->device(), context->handle(), again,
                                           &address));
    *pdptr = address;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
    return open_memory(pdptr, handle, Flags, ImportedMemory::Again::counted);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
    return open_memory(pdptr, handle, Flags, ImportedMemory::Again::refused);  // DB-64
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr) {
    Context* context = nullptr;
    CU_TRY(current_context(context));
    CU_TRY(check_unsafe_call());
    AllocationPtr allocation = process().addresses.find(dptr);
    if (allocation == nullptr || allocation->kind != MemoryKind::imported || allocation->address != dptr) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool last = false;
    CU_TRY(ImportedMemory::instance().release(dptr, &last));
    if (!last) return CUDA_SUCCESS;
    for (const auto& user : process().contexts.all()) {
        for (const FencePtr& fence : Scheduler::instance().pending(*user->group())) fence->wait();
    }
    if (process().addresses.remove(dptr) != nullptr) release_allocation(*allocation);
    return CUDA_SUCCESS;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent event) {
    if (pHandle == nullptr || event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pHandle = {};
    auto found = process().events.find(event);
    if (found == nullptr || found->shared() == nullptr || !found->shared()->own()) return CUDA_ERROR_INVALID_HANDLE;
    *pHandle = std::bit_cast<CUipcEventHandle>(found->shared()->exported());
    return CUDA_SUCCESS;
}

namespace {
bool has_device(const CUuuid& uuid) { return process().device(uuid) != nullptr; }
}  // namespace

CUresult cuIpcOpenEventHandle(CUevent* phEvent, CUipcEventHandle handle) {
    if (phEvent == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    SharedEventPtr shared;
    CU_TRY(SharedEvent::open(std::bit_cast<ExportedEvent>(handle), has_device, shared));
    constexpr unsigned int k_flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    auto event = std::make_shared<Event>(context->shared_from_this(), k_flags, std::move(shared));
    *phEvent = as_handle<CUevent>(process().events.add(std::move(event)));
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
