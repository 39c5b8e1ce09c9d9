// Freeing, mapping and pools: what the client may still use afterwards is noted.
#include "server/gen/internal_calls.gen.h"
#include "server/gen/memory_calls.gen.h"
#include "server/gen/pool_calls.gen.h"
#include "server/gen/vmm_calls.gen.h"
#include "server/hooks/common.h"
#include "server/session/device_numbers.h"
#include "server/session/struct_bytes.h"

namespace warpline::server {

/// The client keeps the address to itself until it is told that nothing which was queued before can still use it.
CUresult hook_server_cuMemFree_v2(ServerCall& call, const CuMemFreeV2Args& args) {
    if (call.session().memory().is_own(args.dptr)) {
        call.session().freed().add(call.number(), call.context());
        return CUDA_SUCCESS;
    }
    // What a graph has allocated is the driver's, whose free waits; the client waits for the answer.
    const auto free = WL_DRIVER(call, cuMemFree_v2);
    if (call.wants_reply()) call.release_order();
    return free(args.dptr);
}

/// What is freed counts as free, as it does behind a free that waits.
CUresult hook_server_cuMemGetInfo_v2(ServerCall& call, const CuMemGetInfoV2Args&, CuMemGetInfoV2Values& values) {
    const auto get = WL_DRIVER(call, cuMemGetInfo_v2);
    call.release_order();
    call.session().freed().wait_before(call.number());
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    WL_CUDA(get(&free_bytes, &total_bytes));
    values.free = free_bytes;
    values.total = total_bytes;
    CUdevice device = 0;
    if (call.session().contexts().device_of(call.context(), device))
        call.session().ledger().narrow(device, values.free, values.total);
    return CUDA_SUCCESS;
}

/// The free takes place in the stream's order: the client reuses the addresses only behind it. The server has to know that both
/// exist.
CUresult hook_server_cuMemFreeAsync(ServerCall& call, const CuMemFreeAsyncArgs& args) {
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    // What a graph has allocated is the driver's.
    if (!call.session().memory().is_own(args.dptr)) return WL_DRIVER(call, cuMemFreeAsync)(args.dptr, stream);
    return CUDA_SUCCESS;
}

namespace {

/// Attributes of a pool are 32-bit switches or 64-bit numbers of bytes.
bool is_switch(CUmemPool_attribute attribute) {
    return attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
           attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
           attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

}  // namespace

CUresult hook_server_cuMemPoolSetAttribute(ServerCall& call, const CuMemPoolSetAttributeArgs& args) {
    const auto set = WL_DRIVER(call, cuMemPoolSetAttribute);
    const auto pool = WL_FIND(call, CUmemoryPool, mem_pool, args.pool);
    const auto attribute = static_cast<CUmemPool_attribute>(args.attr);
    uint64_t number = args.value;
    int on = static_cast<int>(args.value);
    return set(pool, attribute, is_switch(attribute) ? static_cast<void*>(&on) : &number);
}

CUresult hook_server_cuMemPoolGetAttribute(ServerCall& call, const CuMemPoolGetAttributeArgs& args,
                                           CuMemPoolGetAttributeValues& values) {
    const auto get = WL_DRIVER(call, cuMemPoolGetAttribute);
    const auto pool = WL_FIND(call, CUmemoryPool, mem_pool, args.pool);
    const auto attribute = static_cast<CUmemPool_attribute>(args.attr);
    uint64_t value[2] = {};  // more than any attribute has
    WL_CUDA(get(pool, attribute, value));
    int on = 0;
    std::memcpy(&on, value, sizeof on);
    values.value = is_switch(attribute) ? static_cast<uint64_t>(on) : value[0];
    return CUDA_SUCCESS;
}

CUresult hook_server_cuMemPoolSetAccess(ServerCall& call, const CuMemPoolSetAccessArgs& args) {
    CUdevice owner = 0;
    CUdevice peer = 0;
    if (!call.find_device(args.owner, owner) || !call.find_device(args.peer, peer) || owner == peer)
        return CUDA_ERROR_INVALID_DEVICE;
    int possible = 0;
    WL_CUDA(WL_DRIVER(call, cuDeviceCanAccessPeer)(&possible, peer, owner));
    if (possible == 0) return CUDA_ERROR_INVALID_DEVICE;
    return call.session().memory().share_pool(args.owner, args.peer, args.pool, args.access);
}

namespace {

/// Makes memory that is mapped by calls of its own. `take(device, charge, make)` has the limit's leave before make() is called.
template <typename Take>
CUresult create_memory(ServerCall& call, uint64_t token, uint64_t size_bytes, BytesView prop, uint64_t flags, Take&& take) {
    const auto create = WL_DRIVER(call, cuMemCreate);
    if (!call.may_bind(HandleKind::allocation, token)) return CUDA_ERROR_INVALID_HANDLE;
    CUmemAllocationProp properties{};
    if (!read_struct(prop, properties)) return CUDA_ERROR_INVALID_VALUE;
    const CUmemLocation location = properties.location;  // as the client counts devices
    // Memory of this machine would be charged to nobody, and no client could reach it.
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (!to_driver(call, properties)) return CUDA_ERROR_INVALID_DEVICE;
    MemoryChargePtr charge;
    CUmemGenericAllocationHandle handle{};
    const auto make = [&] { return create(&handle, size_bytes, &properties, flags); };
    WL_CUDA(take(location.id, charge, make));
    call.bind(HandleKind::allocation, token, handle, 0, std::move(charge));
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_server_cuMemCreate(ServerCall& call, const CuMemCreateArgs& args) {
    return create_memory(call, args.handle, args.size, args.prop, args.flags,
                         [&](CUdevice device, MemoryChargePtr& charge, const auto& make) -> CUresult {
                             // The credit has not been touched, but what can be granted has changed.
                             call.session().memory().credit().used(device, 0);
                             return make_charged(call, device, args.size, charge, make);
                         });
}

CUresult hook_server_wlMemCreate(ServerCall& call, const WlMemCreateArgs& args) {
    return create_memory(call, args.handle, args.size, args.prop, 0,
                         [&](CUdevice device, MemoryChargePtr& charge, const auto& make) -> CUresult {
                             call.session().memory().credit().used(device, args.size);
                             WL_CUDA(call.session().ledger().take(device, args.size, charge));
                             return make();
                         });
}

CUresult hook_server_cuMemMap(ServerCall& call, const CuMemMapArgs& args) {
    const auto map = WL_DRIVER(call, cuMemMap);
    const auto memory = WL_FIND(call, CUmemGenericAllocationHandle, allocation, args.handle);
    DeviceMemory& device_memory = call.session().memory();
    // The memory stays as long as it is mapped, whatever becomes of its handle.
    MemoryChargePtr charge;
    if (const auto entry = call.session().handles().find(HandleKind::allocation, args.handle)) charge = entry->charge;
    WL_CUDA(map(args.ptr, args.size, args.offset, memory, args.flags));
    device_memory.add_range(args.ptr, args.size, 0, std::move(charge));
    return CUDA_SUCCESS;
}

CUresult hook_server_cuMemUnmap(ServerCall& call, const CuMemUnmapArgs& args) {
    const auto unmap = WL_DRIVER(call, cuMemUnmap);
    DeviceMemory& device_memory = call.session().memory();
    WL_CUDA(unmap(args.ptr, args.size));
    device_memory.remove_ranges(args.ptr, args.size);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuMemAllocAsync(ServerCall& call, const CuMemAllocAsyncArgs& args, CuMemAllocAsyncValues& values) {
    const auto allocate = WL_DRIVER(call, cuMemAllocAsync);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    if (!is_capturing(call, stream)) return CUDA_ERROR_ILLEGAL_STATE;
    CUdevice device = 0;
    if (!call.session().contexts().device_of(call.context(), device)) return CUDA_ERROR_INVALID_CONTEXT;
    WL_CUDA(call.session().graph_memory().check_node(device, args.bytes));
    CUdeviceptr address = 0;
    WL_CUDA(allocate(&address, args.bytes, stream));
    call.session().memory().add_range(address, args.bytes);
    values.address = address;
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
