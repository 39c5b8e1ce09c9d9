// Stream-ordered memory. Its addresses are ours like those of cuMemAlloc; what is freed in the order of a stream can be used
// again in that stream at once, and what a pool keeps when the stream has been waited for in every one. To the server pools are
// nothing.
#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "client/call/allocate.h"
#include "client/call/pooled.h"
#include "client/call/share.h"
#include "client/gen/internal_calls.gen.h"
#include "client/gen/pool_calls.gen.h"
#include "client/graph/capture.h"
#include "client/graph/memory.h"
#include "cuda/abi/handle_types.h"
#include "cuda/abi/pool_facts.h"

namespace warpline::client {

namespace {

uint64_t default_pool(Call& call, int device) {
    if (uint64_t known = call.state.device_pools.get(device).default_pool; known != 0) return known;
    auto made = make_object<HandleKind::mem_pool>(call);
    if (!made) return 0;
    made.object->device = device;
    made.object->is_default = true;
    made.object->properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    made.object->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    uint64_t pool = call.state.device_pools.set_default(device, made.token);
    if (pool != made.token) call.state.pools.remove(made.token);
    return pool;
}

uint64_t current_pool(Call& call, int device) {
    uint64_t current = call.state.device_pools.get(device).current;
    return current != 0 ? current : default_pool(call, device);
}

void raise(std::atomic<uint64_t>& high, uint64_t value) {
    uint64_t seen = high.load();
    while (seen < value && !high.compare_exchange_weak(seen, value)) continue;
}

void count_allocation(Pool& pool, uint64_t bytes) {
    uint64_t used = pool.used_bytes.fetch_add(bytes) + bytes;
    raise(pool.used_high, used);
    raise(pool.reserved_high, reserved_bytes(pool));
}

/// The call as one about a context of this device: "The specified memory pool may be from a device different than that of the
/// specified hStream" (CUDA Driver API, cuMemAllocFromPoolAsync), and than the current one.
Call on_device(const Call& call, int device, uint64_t stream) {
    Call own = call;
    if (call.device() == device) [[likely]]
        return own;
    own.converted = 0;
    own.context = context_of_work(call, stream);
    const Device* found = find_device(device);
    if (own.device() != device && found) own.context = found->primary_context;
    return own;
}

/// "The memory pool's properties are used to set the node's creation parameters" (cuda.h, cuMemAllocFromPoolAsync).
/// @param same_device  the stream is of the pool's device
CUresult capture(Call& call, CUdeviceptr* dptr, size_t bytes, Pool& pool, uint64_t stream, bool same_device) {
    std::vector<CUmemAccessDesc> access;
    {
        MutexLock lock(pool.mutex);
        for (const auto& [device, flags] : pool.access) access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags});
    }
    if (access.empty() && pool.properties.maxSize == 0 && same_device)
        return capture_allocation(call, dptr, bytes, pool.device, stream);
    return capture_allocation(call, dptr, bytes, pool.properties, access, stream);
}

CUresult allocate(Call& call, CUdeviceptr* dptr, size_t bytes, uint64_t pool_token, CUstream hStream) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    Pool* pool = call.state.pools.find(pool_token);
    if (!pool || pool->imported) return CUDA_ERROR_INVALID_VALUE;
    if (bytes == 0) return CUDA_SUCCESS;  // the address is 0
    const uint64_t stream = stream_token(call, hStream);
    Call own = on_device(call, pool->device, stream);
    if (is_capturing(call, stream)) {
        const Context* of_stream = call.state.contexts.find(context_of_work(call, stream));
        return capture(own, dptr, bytes, *pool, stream, of_stream && of_stream->device == pool->device);
    }
    if (const uint64_t most = cuda::abi::largest_pool_bytes(pool->properties.maxSize);
        most != 0 && DeviceMemory::rounded(bytes) > most - std::min(most, pool->used_bytes.load()))
        return CUDA_ERROR_OUT_OF_MEMORY;
    PoolHeap& heap = call.state.pool_heap;
    DeviceRange range;
    auto reused = heap.take(PoolHeap::key(stream, call.scope(), call.thread.number), pool_token, bytes);
    if (!reused) reused = heap.take_kept(pool_token, own.context, bytes);
    if (reused) {
        range = *reused;
        range.size_bytes = bytes;
        range.sync_memops = false;
        call.state.memory.register_range(range);
    } else {
        uint64_t address = 0;
        exchange_kept(own, pool_token, bytes);
        CUresult result = allocate_device_memory(own, bytes, address, pool_token);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            // What was freed in other streams' order can be had after waiting for them.
            if (CUresult waited = wait_beside_captures(own); waited != CUDA_SUCCESS) return waited;
            result = allocate_device_memory(own, bytes, address, pool_token);
        }
        if (result != CUDA_SUCCESS) return result;
        range.base = address;
        range.capacity_bytes = DeviceMemory::rounded(bytes);
        count_reserved(*pool, range);
    }
    count_allocation(*pool, DeviceMemory::rounded(bytes));
    *dptr = range.base;
    return CUDA_SUCCESS;
}

/// Of an attribute that is a switch.
std::atomic<int>* switch_of(Pool& pool, CUmemPool_attribute attribute) {
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: return &pool.reuse_event;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: return &pool.reuse_opportunistic;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return &pool.reuse_internal;
        default: return nullptr;
    }
}

/// CUDA has pools of managed memory only where all devices have concurrentManagedAccess, and answers so.
constexpr const char* k_no_managed_pools = "pools of managed memory need concurrentManagedAccess, which is 0 over the wire";

CUresult pool_of_location(Call& call, const CUmemLocation* location, CUmemAllocationType type, int& device) {
    if (type == CU_MEM_ALLOCATION_TYPE_MANAGED) return WL_REFUSE_CALL("cuMemGetMemPool", k_no_managed_pools);
    if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return WL_REFUSE_CALL("cuMemGetMemPool", "pools of host memory");
    if (!find_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
    device = location->id;
    (void)call;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_client_cuMemAllocAsync(Call& call, CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    // "… from the memory pool current to the stream's device" (CUDA Driver API, cuMemAllocAsync).
    const Context* context = call.state.contexts.find(context_of_work(call, stream_token(call, hStream)));
    const uint64_t pool = current_pool(call, context ? context->device : call.device());
    if (pool == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    return allocate(call, dptr, bytesize, pool, hStream);
}

CUresult hook_client_cuMemAllocFromPoolAsync(Call& call, CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                             CUstream hStream) {
    return allocate(call, dptr, bytesize, to_token(pool), hStream);
}

CUresult hook_client_cuMemFreeAsync(Call& call, CUdeviceptr dptr, CUstream hStream) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    if (dptr == 0) return CUDA_SUCCESS;
    const uint64_t stream = stream_token(call, hStream);
    if (!is_capturing(call, stream)) {
        if (CUresult refused = check_unsafe_call(call); refused != CUDA_SUCCESS) return refused;
    }
    // A graph's memory is the driver's. Its address stays known while a graph has it: the next launch allocates it again.
    if (const auto known = call.state.memory.find(dptr); known && is_graph_memory(*known)) {
        if (known->base != dptr) return CUDA_ERROR_INVALID_VALUE;
        const bool captured = is_capturing(call, stream);
        // What may not be there the driver refuses.
        const bool is_certain = !captured && call.state.graph_memory.is_there(dptr);
        const CUresult result =
            is_certain ? gen::issue_cuMemFreeAsync(call, dptr, stream) : gen::request_cuMemFreeAsync(call, dptr, stream);
        if (result != CUDA_SUCCESS) return result;
        if (captured)
            call.state.captures.note_memory(stream_state(call, stream)->capture_id.load(),
                                            [&](MemoryNodes& memory) { memory.free(dptr); });
        else
            call.state.graph_memory.free({dptr});
        return result;
    }
    // A captured free is a node, and frees what a node has allocated (CUDA Driver API 13.0, cuMemFreeAsync).
    if (is_capturing(call, stream)) return CUDA_ERROR_INVALID_VALUE;
    std::optional<DeviceRange> range = call.state.memory.forget(dptr, MemoryKind::device);
    if (!range) return close_pointer(call, dptr);
    note_freed(call, *range);
    call.state.pool_heap.give(PoolHeap::key(stream, call.scope(), call.thread.number), *range);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemPoolCreate(Call& call, CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
    if (poolProps->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED) return WL_REFUSE_CALL("cuMemPoolCreate", k_no_managed_pools);
    if (poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return WL_REFUSE_CALL("cuMemPoolCreate", "pools of host memory");
    const Device* device = find_device(poolProps->location.id);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    const auto shareable = static_cast<unsigned>(device->attribute(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES));
    if ((static_cast<unsigned>(poolProps->handleTypes) & ~shareable) != 0)
        return WL_REFUSE_CALL("cuMemPoolCreate", "pools for other processes by handles other than file descriptors");
    auto made = make_object<HandleKind::mem_pool>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made.object->device = poolProps->location.id;
    made.object->properties = *poolProps;
    *pool = to_handle<CUmemoryPool>(made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemPoolDestroy(Call& call, CUmemoryPool pool) {
    Pool* found = call.state.pools.find(to_token(pool));
    if (!found || found->is_default) return CUDA_ERROR_INVALID_VALUE;
    end_sharing(call, *found);
    trim_pool(call, to_token(pool), *found, 0);
    // What it shared with other devices stays so: their kernels may still be running on it.
    call.state.device_pools.forget(to_token(pool));
    call.state.pools.remove(to_token(pool));
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemPoolTrimTo(Call& call, CUmemoryPool pool, size_t minBytesToKeep) {
    Pool* found = call.state.pools.find(to_token(pool));
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    trim_pool(call, to_token(pool), *found, minBytesToKeep);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemPoolSetAttribute(Call& call, CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
    Pool* found = call.state.pools.find(to_token(pool));
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    if (std::atomic<int>* on = switch_of(*found, attr)) {
        int number = 0;
        std::memcpy(&number, value, sizeof number);
        on->store(number != 0);
        return CUDA_SUCCESS;
    }
    uint64_t number = 0;
    std::memcpy(&number, value, sizeof number);
    switch (attr) {
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            found->release_threshold.store(number);
            found->trim_pending.store(true);
            call.state.pools_to_trim.store(true);
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            if (number != 0) return CUDA_ERROR_INVALID_VALUE;
            found->used_high.store(found->used_bytes.load());
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
            if (number != 0) return CUDA_ERROR_INVALID_VALUE;
            found->reserved_high.store(reserved_bytes(*found));
            return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult hook_client_cuMemPoolGetAttribute(Call& call, CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
    Pool* found = call.state.pools.find(to_token(pool));
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    if (const std::atomic<int>* on = switch_of(*found, attr)) {
        int number = on->load();
        std::memcpy(value, &number, sizeof number);
        return CUDA_SUCCESS;
    }
    if (cuda::abi::read_pool_fact(found->properties, found->imported, attr, Process::instance().driver_version(), value))
        return CUDA_SUCCESS;
    uint64_t number = 0;
    switch (attr) {
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: number = found->release_threshold.load(); break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: number = reserved_bytes(*found); break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: number = found->reserved_high.load(); break;
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: number = found->used_bytes.load(); break;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH: number = found->used_high.load(); break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    std::memcpy(value, &number, sizeof number);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemPoolSetAccess(Call& call, CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
    Pool* found = call.state.pools.find(to_token(pool));
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    // All of it before anything is changed (DB-34).
    for (const CUmemAccessDesc& wanted : std::span(map, count)) {
        if (wanted.location.type != CU_MEM_LOCATION_TYPE_DEVICE || !find_device(wanted.location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        if (wanted.location.id == found->device && wanted.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_DEVICE;
        const bool possible =
            wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (!possible) return CUDA_ERROR_INVALID_VALUE;
    }
    for (const CUmemAccessDesc& wanted : std::span(map, count)) {
        if (wanted.location.id == found->device) continue;
        // Pools share blocks of memory: a device that may use one of them may use all of that device's memory.
        const bool on = wanted.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        if (CUresult result = gen::request_cuMemPoolSetAccess(call, found->device, wanted.location.id, to_token(pool), on);
            result != CUDA_SUCCESS) {
            return result;
        }
        MutexLock lock(found->mutex);
        found->access[wanted.location.id] = wanted.flags;
    }
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemPoolGetAccess(Call& call, CUmemAccess_flags* flags, CUmemoryPool memPool, CUmemLocation* location) {
    Pool* found = call.state.pools.find(to_token(memPool));
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !find_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
    *flags = location->id == found->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    MutexLock lock(found->mutex);
    if (const auto given = found->access.find(location->id); given != found->access.end()) *flags = given->second;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDeviceGetDefaultMemPool(Call& call, CUmemoryPool* pool_out, CUdevice dev) {
    if (!find_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
    uint64_t pool = default_pool(call, dev);
    if (pool == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *pool_out = to_handle<CUmemoryPool>(pool);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDeviceGetMemPool(Call& call, CUmemoryPool* pool, CUdevice dev) {
    if (!find_device(dev)) return CUDA_ERROR_INVALID_VALUE;
    uint64_t token = current_pool(call, dev);
    if (token == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *pool = to_handle<CUmemoryPool>(token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDeviceSetMemPool(Call& call, CUdevice dev, CUmemoryPool pool) {
    if (!find_device(dev)) return CUDA_ERROR_INVALID_VALUE;
    const Pool* found = call.state.pools.find(to_token(pool));
    if (!found || found->imported || found->device != dev) return CUDA_ERROR_INVALID_VALUE;
    call.state.device_pools.set_current(dev, to_token(pool));
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemGetDefaultMemPool(Call& call, CUmemoryPool* pool_out, CUmemLocation* location,
                                            CUmemAllocationType type) {
    int device = 0;
    CUresult refused = pool_of_location(call, location, type, device);
    return refused != CUDA_SUCCESS ? refused : hook_client_cuDeviceGetDefaultMemPool(call, pool_out, device);
}

CUresult hook_client_cuMemGetMemPool(Call& call, CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
    int device = 0;
    CUresult refused = pool_of_location(call, location, type, device);
    return refused != CUDA_SUCCESS ? refused : hook_client_cuDeviceGetMemPool(call, pool, device);
}

CUresult hook_client_cuMemSetMemPool(Call& call, CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
    int device = 0;
    CUresult refused = pool_of_location(call, location, type, device);
    return refused != CUDA_SUCCESS ? refused : hook_client_cuDeviceSetMemPool(call, device, pool);
}

// Pools and pointers of other processes: a pool travels as a descriptor, its pointers as 64 bytes.

CUresult hook_client_cuMemPoolExportToShareableHandle(Call& call, void* handle_out, CUmemoryPool pool,
                                                      CUmemAllocationHandleType handleType, unsigned long long flags) {
    Pool* found = call.state.pools.find(to_token(pool));
    if (!found || flags != 0 || found->imported) return CUDA_ERROR_INVALID_VALUE;
    if (handleType == CU_MEM_HANDLE_TYPE_NONE || found->properties.handleTypes != handleType) return CUDA_ERROR_INVALID_VALUE;
    ShareTicket ticket;
    if (CUresult refused = ticket_of(call, *found, "cuMemPoolExportToShareableHandle", ticket); refused != CUDA_SUCCESS)
        return refused;
    note_shared(call);
    int descriptor = -1;
    // The pool is to be had as long as it lives, by any of its descriptors.
    if (CUresult refused = give_descriptor(call, ticket, Ends::no, descriptor); refused != CUDA_SUCCESS) return refused;
    *static_cast<int*>(handle_out) = descriptor;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemPoolImportFromShareableHandle(Call& call, CUmemoryPool* pool_out, void* handle,
                                                        CUmemAllocationHandleType handleType, unsigned long long flags) {
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    *pool_out = nullptr;
    if (flags != 0 || !cuda::abi::is_one_handle_type(handleType)) return CUDA_ERROR_INVALID_VALUE;
    if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return WL_REFUSE_CALL("cuMemPoolImportFromShareableHandle", "handles other than file descriptors");
    const auto ticket = ticket_in(static_cast<int>(reinterpret_cast<intptr_t>(handle)), ShareKind::pool);
    if (!ticket) return CUDA_ERROR_INVALID_VALUE;
    gen::CuMemPoolImportFromShareableHandleValues answer;
    const CUresult result = gen::request_cuMemPoolImportFromShareableHandle(call, as_bytes(&*ticket, sizeof *ticket), answer);
    if (result != CUDA_SUCCESS) return told_why("cuMemPoolImportFromShareableHandle", answer.why, result);
    if (!find_device(answer.device)) return CUDA_ERROR_UNKNOWN;
    auto made = make_object<HandleKind::mem_pool>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made.object->device = answer.device;
    made.object->imported = true;
    made.object->properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    made.object->properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    made.object->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, answer.device};
    {
        MutexLock lock(made.object->mutex);
        made.object->ticket = *ticket;
    }
    *pool_out = to_handle<CUmemoryPool>(made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemPoolExportPointer(Call& call, CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr) {
    const std::optional<DeviceRange> range = call.state.memory.find(ptr);
    Pool* pool = range && range->kind == MemoryKind::device ? call.state.pools.find(range->owner) : nullptr;
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    {
        MutexLock lock(pool->mutex);
        if (!pool->ticket) return CUDA_ERROR_INVALID_VALUE;  // its handle comes first (DB-62)
    }
    ShareTicket of_pool;
    if (CUresult refused = ticket_of(call, *pool, "cuMemPoolExportPointer", of_pool); refused != CUDA_SUCCESS) return refused;
    note_shared(call);
    gen::CuMemPoolExportPointerValues answer;
    const CUresult result =
        gen::request_cuMemPoolExportPointer(call, as_bytes(&of_pool, sizeof of_pool), range->base, range->size_bytes, answer);
    if (result != CUDA_SUCCESS) return told_why("cuMemPoolExportPointer", answer.why, result);
    ShareTicket ticket;
    if (!take_ticket(answer.ticket, ShareKind::pointer, ticket)) return CUDA_ERROR_UNKNOWN;
    call.state.shares.lent(range->base, ticket);
    *shareData_out = std::bit_cast<CUmemPoolPtrExportData>(ticket);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMemPoolImportPointer(Call& call, CUdeviceptr* ptr_out, CUmemoryPool pool,
                                            CUmemPoolPtrExportData* shareData) {
    Pool* found = call.state.pools.find(to_token(pool));
    if (!found || !found->imported) return CUDA_ERROR_INVALID_VALUE;
    const auto ticket = protocol::read_ticket(as_bytes(shareData, sizeof *shareData), ShareKind::pointer);
    if (!ticket) return CUDA_ERROR_INVALID_VALUE;
    ShareTicket of_pool;
    if (CUresult refused = ticket_of(call, *found, "cuMemPoolImportPointer", of_pool); refused != CUDA_SUCCESS) return refused;
    OpenedMemory opened;
    const CUresult result = open_memory(call, *ticket, &of_pool, to_token(pool), opened);
    if (result != CUDA_SUCCESS) return result;
    call.state.shares.add(*ticket, opened);
    *ptr_out = opened.address;
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
