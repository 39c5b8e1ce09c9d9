// Memory of devices and page-locked memory of the host.
#include "softgpu/driver/memory/memory.h"

#include <algorithm>

#include "common/base/mappings.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/graph_memory.h"
#include "softgpu/driver/memory/memory_pool.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// Rows of cuMemAllocPitch begin at multiples of this.
constexpr uint64_t k_pitch_bytes = 512;

constexpr unsigned int k_host_alloc_flags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned int k_host_register_flags =
    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

AllocationPtr find_starting_at(uint64_t address) {
    AllocationPtr found = process().addresses.find(address);
    return found != nullptr && found->address == address ? found : nullptr;
}

/// What frees do to captures on the device (DB-05).
CUresult check_free(const Allocation& allocation) {
    if (!process().config().profile.free_synchronises) return CUDA_SUCCESS;
    return check_device_wait(*process().device(allocation.device));
}

/// Frees wait for everything that the device still does, as CUDA's do.
void wait_for_device(const Allocation& allocation) {
    for (const auto& context : process().contexts.all()) {
        if (context->device().ordinal() != allocation.device && allocation.kind != MemoryKind::host) continue;
        for (const FencePtr& fence : Scheduler::instance().pending(*context->group())) fence->wait();
        context->device().flush_printf();
    }
}

CUresult free_now(uint64_t address) {
    AllocationPtr taken = process().addresses.find(address);
    if (taken == nullptr) return CUDA_ERROR_INVALID_VALUE;
    wait_for_device(*taken);
    taken = process().addresses.remove(address);
    if (taken == nullptr) return CUDA_ERROR_INVALID_VALUE;
    release_allocation(*taken);
    return CUDA_SUCCESS;
}

/// The memory stays the graph's; the program has given it up.
CUresult free_of_graph(const Allocation& allocation) {
    auto memory = GraphMemory::find(allocation.address);
    if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    wait_for_device(allocation);
    memory->set_live(false);
    return CUDA_SUCCESS;
}

CUresult free_to_pool(const Allocation& allocation) {
    auto pool = process().pools.find(allocation.pool);
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    wait_for_device(allocation);
    pool->free(allocation.address);
    pool->release_excess();
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
    Context* context = nullptr;
    CU_TRY(current_context(context));
    if (free != nullptr) *free = context->device().free_bytes();
    if (total != nullptr) *total = context->device().total_bytes();
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
    if (dptr == nullptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    CU_TRY(check_unsafe_call());
    context->gate().pass_to_make();
    AllocationPtr allocation;
    CU_TRY(allocate_device(context->device(), context->handle(), bytesize, allocation));
    *dptr = allocation->address;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes) {
    if (dptr == nullptr || pPitch == nullptr || WidthInBytes == 0 || Height == 0) return CUDA_ERROR_INVALID_VALUE;
    if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) return CUDA_ERROR_INVALID_VALUE;
    uint64_t pitch = round_up(WidthInBytes, k_pitch_bytes), bytes = 0;
    if (pitch < WidthInBytes) return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_mul_overflow(pitch, Height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    CU_TRY(driver::cuMemAlloc_v2(dptr, bytes));
    *pPitch = pitch;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr dptr) {
    CU_TRY(check_unsafe_call());
    if (dptr == 0) return CUDA_SUCCESS;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    AllocationPtr found = find_starting_at(dptr);
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const bool freeable = found->kind == MemoryKind::pool || found->kind == MemoryKind::graph ||
                          found->kind == MemoryKind::device || found->kind == MemoryKind::managed;
    // Managed memory that neither a context nor a pool has given is a variable.
    const bool is_variable = found->kind == MemoryKind::managed && found->context == 0 && found->pool == 0;
    if (!freeable || is_variable) return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(check_free(*found));
    const CallGate::Held held(*context, CallGate::while_waiting());
    if (found->pool != 0) return free_to_pool(*found);
    if (found->kind == MemoryKind::graph) return free_of_graph(*found);
    return free_now(dptr);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
    Context* context = nullptr;
    CU_TRY(current_context(context));
    AllocationPtr found = process().addresses.find(dptr);
    if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
    if (pbase != nullptr) *pbase = found->address;
    if (psize != nullptr) *psize = found->size_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
    if (pp == nullptr || (Flags & ~k_host_alloc_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    CU_TRY(check_unsafe_call());
    context->gate().pass_to_make();
    if (process().config().profile.host_allocations_wait) context->wait_for_work();  // DB-06
    AllocationPtr allocation;
    // With one address space for host and devices, host memory is always mapped and portable. No bytes are no error here, and
    // have an address that can be freed.
    CU_TRY(allocate_pages(context->device(), context->handle(), std::max<size_t>(bytesize, 1), MemoryKind::host,
                          Flags | CU_MEMHOSTALLOC_DEVICEMAP, allocation));
    *pp = reinterpret_cast<void*>(allocation->address);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void** pp, size_t bytesize) { return driver::cuMemHostAlloc(pp, bytesize, 0); }

CUresult cuMemFreeHost(void* p) {
    if (p == nullptr) return CUDA_SUCCESS;
    AllocationPtr found = find_starting_at(reinterpret_cast<uint64_t>(p));
    if (found == nullptr || found->kind != MemoryKind::host) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    CU_TRY(check_unsafe_call());
    CU_TRY(check_free(*found));
    const CallGate::Held held(*context, CallGate::while_waiting());
    return free_now(found->address);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
    if (pdptr == nullptr || p == nullptr || Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    AllocationPtr found = process().addresses.find(reinterpret_cast<uint64_t>(p));
    if (found == nullptr || !found->on_host()) return CUDA_ERROR_INVALID_VALUE;
    *pdptr = reinterpret_cast<CUdeviceptr>(p);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* pFlags, void* p) {
    if (pFlags == nullptr || p == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    AllocationPtr found = process().addresses.find(reinterpret_cast<uint64_t>(p));
    if (found == nullptr || found->kind != MemoryKind::host) return CUDA_ERROR_INVALID_VALUE;
    *pFlags = found->flags;
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
    if (p == nullptr || bytesize == 0 || (Flags & ~k_host_register_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    auto address = reinterpret_cast<uint64_t>(p);
    if (address + bytesize < address) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    CU_TRY(check_unsafe_call());
    context->gate().pass_to_make();
    const AllocationPtr there = process().addresses.find(address);
    if (there != nullptr && there->kind == MemoryKind::host) return CUDA_ERROR_INVALID_VALUE;  // of cuMemHostAlloc
    if (process().addresses.overlaps(address, bytesize)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    const bool read_only = (Flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
    if (!(read_only ? is_readable : is_writable)(address, bytesize)) return CUDA_ERROR_INVALID_VALUE;
    auto allocation = std::make_shared<Allocation>();
    allocation->address = address;
    allocation->size_bytes = bytesize;
    allocation->kind = MemoryKind::registered;
    allocation->device = context->device().ordinal();
    allocation->context = reinterpret_cast<uint64_t>(context->handle());
    allocation->flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP;
    if (!process().addresses.insert_apart(allocation)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    process().ranges.add(VisibleRanges::k_all_devices, address, bytesize);
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* p) {
    if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // Memory that is known, and was not registered from this address on, is an invalid value; other memory is not registered.
    const auto address = reinterpret_cast<uint64_t>(p);
    AllocationPtr found = process().addresses.find(address);
    if (found == nullptr || !found->on_host()) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (found->address != address || found->kind != MemoryKind::registered) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    CU_TRY(check_unsafe_call());
    const CallGate::Held held(*context, CallGate::while_waiting());
    return free_now(found->address);
}

}  // namespace warpline::softgpu::driver
