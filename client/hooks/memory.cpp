// Device memory and host memory that no stream orders.
#include <algorithm>
#include <chrono>

#include "client/call/allocate.h"
#include "client/call/managed.h"
#include "client/call/pooled.h"
#include "client/call/share.h"
#include "client/copy/program_memory.h"
#include "client/gen/memory_calls.gen.h"
#include "client/graph/memory.h"
#include "client/managed/system_calls.h"
#include "client/session/connection_to_server.h"
#include "common/base/mappings.h"

namespace warpline::client {

namespace {

/// Memory at the driver's own address. As in CUDA: the device has done with it when this returns.
CUresult free_of_driver(Call& call, const DeviceRange& range) {
    const CUresult result = come_to_rest(call);
    release_device_memory(call, range);
    return result;
}

/// As in CUDA: the device has done with it when this returns.
CUresult free_managed(Call& call, const DeviceRange& range) {
    call.context = range.context;
    const CUresult result = come_to_rest(call);
    call.state.advice.forget(range.base, range.size_bytes);
    release_managed(call, range);
    return result;
}

constexpr unsigned k_host_alloc_flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned k_host_register_flags =
    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

CUresult allocate_host(Call& call, void** pp, size_t bytes, unsigned flags) {
    if (CUresult refused = check_context(call); refused != CUDA_SUCCESS) return refused;
    if (flags & ~k_host_alloc_flags) return CUDA_ERROR_INVALID_VALUE;
    settle_freed(call);  // addresses of what kernels have used, too
    // No bytes are no error, and have an address that can be freed.
    void* address = call.state.host_memory.allocate(std::max<size_t>(bytes, 1), call.context, call.device(), flags);
    if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
    // Before anybody knows it: kernels may come by the address of what is allocated for them in any way.
    const auto base = reinterpret_cast<uint64_t>(address);
    if ((flags & CU_MEMHOSTALLOC_DEVICEMAP) != 0 && can_be_mapped(call, base)) {
        uint64_t device_address = 0;
        if (CUresult refused = map_host_memory(call, base, device_address); refused != CUDA_SUCCESS) {
            (void)free_host_memory(call, base);
            return refused;
        }
        system_calls::attend();  // a call that is under way at the first launch would find its pages gone
    }
    *pp = address;
    return CUDA_SUCCESS;
}

}  // namespace

/// A program that polls is told again what it was told a moment ago, unless it has asked anything of the device since: what
/// others do on the same device is news for it a moment later.
CUresult hook_client_cuMemGetInfo_v2(Call& call, size_t* free, size_t* total) {
    constexpr std::chrono::milliseconds k_moment(10);
    Context* context = call.current();
    const auto now = std::chrono::steady_clock::now();
    const bool polls = call.session.calls().uses(config::Optimisation::polling);
    Context::MemoryInfo known;
    {
        MutexLock lock(context->mutex);
        known = context->memory_info;
    }
    if (polls && known.number != 0 && known.number == call.session.last_number() && now - known.when < k_moment) {
        if (free) *free = known.free_bytes;
        if (total) *total = known.total_bytes;
        return CUDA_SUCCESS;
    }
    settle_freed(call);
    gen::CuMemGetInfoV2Values values;
    const CUresult result = gen::request_cuMemGetInfo_v2(call, values);
    if (result != CUDA_SUCCESS) return result;
    if (free) *free = values.free;
    if (total) *total = values.total;
    MutexLock lock(context->mutex);
    context->memory_info = {call.number, std::chrono::steady_clock::now(), values.free, values.total};
    return result;
}

CUresult hook_client_cuMemAlloc_v2(Call& call, CUdeviceptr* dptr, size_t bytesize) {
    uint64_t address = 0;
    CUresult result = allocate_device_memory(call, bytesize, address);
    if (result == CUDA_SUCCESS) *dptr = address;
    return result;
}

CUresult hook_client_cuMemAllocPitch_v2(Call& call, CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                                        unsigned int ElementSizeBytes) {
    if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) return CUDA_ERROR_INVALID_VALUE;
    constexpr size_t k_pitch_alignment = 512;  // what NVIDIA's drivers use: the texture alignment
    if (WidthInBytes > SIZE_MAX - k_pitch_alignment) return CUDA_ERROR_INVALID_VALUE;
    size_t pitch = (WidthInBytes + k_pitch_alignment - 1) / k_pitch_alignment * k_pitch_alignment;
    if (Height > SIZE_MAX / pitch) return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t address = 0;
    CUresult result = allocate_device_memory(call, pitch * Height, address);
    if (result != CUDA_SUCCESS) return result;
    *dptr = address;
    *pPitch = pitch;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemFree_v2(Call& call, CUdeviceptr dptr) {
    if (dptr == 0) return CUDA_SUCCESS;
    // A graph's memory is the driver's. Its address stays known while a graph has it: the next launch allocates it again.
    if (const auto known = call.state.memory.find(dptr); known && is_graph_memory(*known)) {
        const CUresult result = known->base == dptr ? gen::request_cuMemFree_v2(call, dptr) : CUDA_ERROR_INVALID_VALUE;
        if (result == CUDA_SUCCESS) call.state.graph_memory.free({dptr});
        return result;
    }
    if (const auto managed = call.state.memory.forget(dptr, MemoryKind::managed)) return free_managed(call, *managed);
    std::optional<DeviceRange> range = call.state.memory.forget(dptr, MemoryKind::device);
    if (!range) return close_pointer(call, dptr);
    note_freed(call, *range);
    call.context = range->context;
    settle_freed(call);
    uncount_reserved(call, *range);
    if (!call.state.memory.has_window()) return free_of_driver(call, *range);
    // CUDA waits here for the device. We do not, and nobody gets the memory until the server says that the device is done.
    // Whole blocks it has to unmap anyway.
    if (range->capacity_bytes > DeviceMemory::k_small_bytes || rests(call, range->context))
        return release_device_memory(call, *range);
    const CUresult result = gen::issue_cuMemFree_v2(call, dptr);
    if (result == CUDA_SUCCESS) call.state.freed_memory.put(call.number, *range);
    return result;
}

CUresult hook_client_cuMemGetAddressRange_v2(Call& call, CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
    std::optional<DeviceRange> range = call.state.memory.find(dptr);
    if (!range) return CUDA_ERROR_NOT_FOUND;
    if (pbase) *pbase = range->base;
    if (psize) *psize = range->size_bytes;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemHostAlloc(Call& call, void** pp, size_t bytesize, unsigned int Flags) {
    return allocate_host(call, pp, bytesize, Flags);
}

CUresult hook_client_cuMemAllocHost_v2(Call& call, void** pp, size_t bytesize) { return allocate_host(call, pp, bytesize, 0); }

CUresult hook_client_cuMemFreeHost(Call& call, void* p) {
    if (CUresult failed = failure_of(call); failed != CUDA_SUCCESS) return failed;
    return p ? free_host_memory(call, reinterpret_cast<uint64_t>(p)) : CUDA_SUCCESS;
}

CUresult hook_client_cuMemHostRegister_v2(Call& call, void* p, size_t bytesize, unsigned int Flags) {
    if (CUresult refused = check_context(call); refused != CUDA_SUCCESS) return refused;
    if (Flags & ~k_host_register_flags) return CUDA_ERROR_INVALID_VALUE;
    if (Flags & CU_MEMHOSTREGISTER_IOMEMORY) {
        return WL_REFUSE_CALL("cuMemHostRegister", "memory of devices of this machine is out of the remote GPU's reach");
    }
    HostRange range;
    range.base = reinterpret_cast<uint64_t>(p);
    range.size_bytes = bytesize;
    range.context = call.context;
    range.device = call.device();
    range.flags = Flags;
    if (range.base + bytesize < range.base) return CUDA_ERROR_INVALID_VALUE;
    // Memory of the device, or managed; or none that the program can use itself.
    const auto known = call.state.memory.find(range.base);
    if (known && known->kind != MemoryKind::page_locked) return CUDA_ERROR_INVALID_VALUE;
    const auto own = call.state.host_memory.find(range.base);
    if (own && own->origin != HostOrigin::registered) return CUDA_ERROR_INVALID_VALUE;  // of cuMemHostAlloc
    const auto can_be_used = (Flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0 ? is_readable : is_writable;
    if (!own && !can_be_used(range.base, bytesize)) return CUDA_ERROR_INVALID_VALUE;
    auto registered = call.state.host_memory.register_range(range);
    return registered == HostMemory::Registered::ok ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult hook_client_cuMemHostUnregister(Call& call, void* p) {
    if (CUresult failed = failure_of(call); failed != CUDA_SUCCESS) return failed;
    return unregister_host_memory(call, reinterpret_cast<uint64_t>(p));
}

CUresult hook_client_cuMemHostGetFlags(Call& call, unsigned int* pFlags, void* p) {
    if (CUresult failed = failure_of(call); failed != CUDA_SUCCESS) return failed;
    std::optional<HostRange> range = call.state.host_memory.find(reinterpret_cast<uint64_t>(p));
    if (!range) return CUDA_ERROR_INVALID_VALUE;
    // All of it can be mapped, whether it was asked for or not.
    *pFlags = range->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemHostGetDevicePointer_v2(Call& call, CUdeviceptr* pdptr, void* p, unsigned int Flags) {
    if (CUresult failed = failure_of(call); failed != CUDA_SUCCESS) return failed;
    if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    uint64_t address = 0;
    const CUresult result = map_host_memory(call, reinterpret_cast<uint64_t>(p), address);
    if (result == CUDA_SUCCESS) *pdptr = address;
    return result;
}

}  // namespace warpline::client
