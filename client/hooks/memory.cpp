// Device memory at addresses of our choice, host memory, and what is known about pointers.
#include <algorithm>
#include <cstring>

#include "client/gen/internal_calls.gen.h"
#include "client/gen/memory_calls.gen.h"
#include "client/hooks/capture.h"
#include "client/hooks/common.h"
#include "client/hooks/graph_memory.h"
#include "client/session/address_window.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

/// Backs a block with memory: without waiting while the server's grant lasts.
CUresult map_block(Call& call, RangeHeap::Range block, int device) {
    MemoryCredit& credit = call.session.memory_credit();
    {
        MutexLock lock(credit.order);
        if (credit.take(device, block.size_bytes)) return gen::issue_wlMap(call, block.base, block.size_bytes, device);
        credit.give_up(device);
    }
    gen::WlMapNowValues answer{};
    const CUresult result = gen::request_wlMapNow(call, block.base, block.size_bytes, device, answer);
    credit.answered(device, call.number, answer.credit);
    return result;
}

void unmap_block(Call& call, RangeHeap::Range block) {
    // The server grants credit anew when it sees what is free again, and tells when the addresses can be used again.
    if (gen::issue_wlUnmap(call, block.base, block.size_bytes) == CUDA_SUCCESS) call.state.freed_memory.put(call.number, block);
}

/// Takes back what the device has done with. False if that was nothing.
bool settle_freed(Call& call) {
    const auto over = call.state.freed_memory.take(call.session.freed_through());
    for (const FreedMemory::Freed& freed : over) {
        if (const auto* block = std::get_if<RangeHeap::Range>(&freed)) {
            if (call.state.memory.has_window()) call.state.memory.return_block(*block);
        } else {
            release_device_memory(call, std::get<DeviceRange>(freed));
        }
    }
    return !over.empty();
}

/// True if all that the device was given before is known to be done.
bool is_idle(const Call& call, uint64_t context_token) {
    const Context* context = call.state.contexts.find(context_token);
    return context && call.session.last_work() < context->idle_at.load(std::memory_order_acquire);
}

/// Memory with a driver that cannot map: at its own address, which the program must not use for something else.
CUresult allocate_by_driver(Call& call, DeviceRange& range) {
    constexpr int k_attempts = 8;
    std::vector<uint64_t> unusable;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (int attempt = 0; attempt < k_attempts && range.base == 0; ++attempt) {
        gen::WlAllocValues answer{};
        result = gen::request_wlAlloc(call, range.capacity_bytes, answer);
        if (result != CUDA_SUCCESS) break;
        if (claim_server_range(answer.address, range.capacity_bytes)) {
            range.base = answer.address;
        } else {
            unusable.push_back(answer.address);  // kept while others are asked for, lest they be the same
        }
    }
    for (const uint64_t address : unusable) gen::issue_wlUnmap(call, address, range.capacity_bytes);
    if (range.base == 0 && result == CUDA_SUCCESS) {
        WL_LOG(warn, "client", "{} device addresses of the server are in use in this program", unusable.size());
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

constexpr unsigned k_host_alloc_flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned k_host_register_flags =
    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

CUresult allocate_host(Call& call, void** pp, size_t bytes, unsigned flags) {
    if (CUresult refused = check_context(call); refused != CUDA_SUCCESS) return refused;
    if (flags & ~k_host_alloc_flags) return CUDA_ERROR_INVALID_VALUE;
    // No bytes are no error, and have an address that can be freed.
    void* address = call.state.host_memory.allocate(std::max<size_t>(bytes, 1), call.context, call.device(), flags);
    if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
    *pp = address;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult allocate_device_memory(Call& call, uint64_t size_bytes, uint64_t& address, uint64_t pool) {
    DeviceMemory& memory = call.state.memory;
    const int device = call.device();
    DeviceRange range;
    range.size_bytes = size_bytes;
    range.capacity_bytes = DeviceMemory::rounded(size_bytes);
    range.context = call.context;
    range.device = device;
    range.owner = pool;
    settle_freed(call);
    while (memory.has_window()) {
        if (auto piece = memory.try_allocate(device, size_bytes)) {
            range.base = *piece;
            break;
        }
        std::optional<RangeHeap::Range> block = memory.take_block(size_bytes);
        if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
        if (CUresult result = map_block(call, *block, device); result != CUDA_SUCCESS) {
            memory.return_block(*block);
            // The answer has waited for what was freed before.
            if (result == CUDA_ERROR_OUT_OF_MEMORY && settle_freed(call)) continue;
            return result;
        }
        if (size_bytes > DeviceMemory::k_small_bytes) {
            range.base = block->base;
            break;
        }
        memory.add_block(device, *block);
    }
    if (!memory.has_window()) {
        if (CUresult result = allocate_by_driver(call, range); result != CUDA_SUCCESS) return result;
    }
    memory.register_range(range);
    address = range.base;
    return CUDA_SUCCESS;
}

CUresult release_device_memory(Call& call, const DeviceRange& range) {
    if (!call.state.memory.has_window()) {
        unmap_block(call, {range.base, range.capacity_bytes});
        return CUDA_SUCCESS;
    }
    std::optional<RangeHeap::Range> block = call.state.memory.release(range.device, range.base, range.capacity_bytes);
    if (block) unmap_block(call, *block);
    return CUDA_SUCCESS;
}

Side side_of(const State& state, uint64_t address) {
    return state.memory.in_window(address) || state.memory.find(address) ? Side::device : Side::host;
}

void settle_host_memory(Call& call, const void* address, uint64_t size_bytes) {
    Session& session = call.session;
    const auto base = reinterpret_cast<uint64_t>(address);
    const bool copies = session.copy_pending(base, size_bytes);
    const bool functions = !session.host_calls().idle() || session.graph_functions_pending();
    if ((!functions && !copies) || HostCalls::in_callback()) return;
    // From pageable memory CUDA takes the bytes when the call is made, as we do; and what it copies to it is there when that
    // call returns.
    if (!copies && !call.state.host_memory.find(base)) return;
    const uint64_t last_call = session.host_calls().last_id();
    const uint64_t last_number = session.last_number();
    Call own = call;
    // Its result is not ours to report: whoever waits for the streams gets it.
    CUresult result = synchronize_context(own);
    if (result != CUDA_SUCCESS) session.defer(result);
    session.host_calls().settled(last_call);
    session.copies_settled(base, size_bytes, last_number);
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
    // A graph's memory is the driver's. Its address stays known: the next launch allocates it again.
    if (const auto known = call.state.memory.find(dptr); known && is_graph_memory(*known)) {
        return known->base == dptr ? gen::request_cuMemFree_v2(call, dptr) : CUDA_ERROR_INVALID_VALUE;
    }
    std::optional<DeviceRange> range = call.state.memory.forget(dptr, MemoryKind::device);
    if (!range) return CUDA_ERROR_INVALID_VALUE;
    if (Pool* pool = call.state.pools.find(range->owner)) pool->used_bytes.fetch_sub(DeviceMemory::rounded(range->size_bytes));
    call.context = range->context;
    settle_freed(call);
    // CUDA waits here for the device. We do not, and nobody gets the memory until the server says that the device is done.
    // Whole blocks it has to unmap anyway.
    const bool own_block = !call.state.memory.has_window() || range->capacity_bytes > DeviceMemory::k_small_bytes;
    if (own_block || is_idle(call, range->context)) return release_device_memory(call, *range);
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
    if (!p) return CUDA_SUCCESS;
    std::optional<HostRange> range = call.state.host_memory.find(reinterpret_cast<uint64_t>(p));
    if (!range || range->base != reinterpret_cast<uint64_t>(p)) return CUDA_ERROR_INVALID_VALUE;
    settle_host_memory(call, p, range->size_bytes);
    return call.state.host_memory.free(p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
    auto registered = call.state.host_memory.register_range(range);
    return registered == HostMemory::Registered::ok ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult hook_client_cuMemHostUnregister(Call& call, void* p) {
    std::optional<HostRange> range = call.state.host_memory.find(reinterpret_cast<uint64_t>(p));
    if (!range) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    // What is known, and was not registered from this address on, is an invalid value.
    if (range->origin != HostOrigin::registered || range->base != reinterpret_cast<uint64_t>(p))
        return CUDA_ERROR_INVALID_VALUE;
    settle_host_memory(call, p, range->size_bytes);
    return call.state.host_memory.unregister(p) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult hook_client_cuMemHostGetFlags(Call& call, unsigned int* pFlags, void* p) {
    std::optional<HostRange> range = call.state.host_memory.find(reinterpret_cast<uint64_t>(p));
    if (!range) return CUDA_ERROR_INVALID_VALUE;
    *pFlags = range->flags;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemHostGetDevicePointer_v2(Call& call, CUdeviceptr*, void* p, unsigned int Flags) {
    if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!call.state.host_memory.find(reinterpret_cast<uint64_t>(p))) return CUDA_ERROR_INVALID_VALUE;
    return WL_REFUSE_CALL("cuMemHostGetDevicePointer", "host memory mapped into the GPU's address space; copy it instead");
}

}  // namespace warpline::client
