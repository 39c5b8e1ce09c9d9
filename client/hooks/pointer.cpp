// cuPointerGetAttribute and its relatives: answered from what the client knows about ranges.
#include <cstring>

#include "client/call/common.h"
#include "client/call/mapped.h"
#include "client/gen/pointer_calls.gen.h"
#include "client/gen/vmm_calls.gen.h"

namespace warpline::client {

namespace {

/// A pointer with what is known about it; at most one of the two.
struct Pointer {
    CUdeviceptr address = 0;
    std::optional<DeviceRange> device;
    std::optional<HostRange> host;
    std::optional<RangeHeap::Range> reserved;  ///< by cuMemAddressReserve, whether anything is mapped there or not
    bool known() const { return device || host; }
};

Pointer look_up(const State& state, CUdeviceptr address) {
    Pointer pointer;
    pointer.address = address;
    pointer.device = state.memory.find(address);
    if (!pointer.device) pointer.host = state.host_memory.find(address);
    if (!pointer.host && (!pointer.device || pointer.device->kind == MemoryKind::mapped))
        pointer.reserved = state.memory.reservation_of(address);
    if (!pointer.device || pointer.device->kind != MemoryKind::page_locked) return pointer;
    // Memory of the host that kernels use: by either of its addresses.
    pointer.host = state.host_memory.find_mapped(address);
    if (pointer.host) {
        pointer.address = pointer.host->base + (address - pointer.host->device_base);
        pointer.device.reset();
    }
    return pointer;
}

template <typename T>
CUresult put(void* data, T value) {
    std::memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
}

/// cuIpcGetMemHandle serves memory of cuMemAlloc.
bool has_ipc_handle(const DeviceRange& range) {
    const Device* device = find_device(range.device);
    return range.kind == MemoryKind::device && range.owner == 0 && device &&
           device->attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0;
}

bool is_managed(const Pointer& pointer) {
    return pointer.device && (pointer.device->kind == MemoryKind::managed || pointer.device->managed_variable);
}

CUresult put_type(const Pointer& pointer, void* data) {
    return put(data, static_cast<unsigned>(pointer.device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST));
}

/// The program has said that kernels will use registered memory: its address for them is what it asks for then.
void map_if_asked_for(Call& call, Pointer& pointer) {
    if (!pointer.host || pointer.host->origin != HostOrigin::registered || pointer.host->device_base != 0) return;
    if ((pointer.host->flags & CU_MEMHOSTREGISTER_DEVICEMAP) == 0 || !can_be_mapped(call, pointer.address)) return;
    uint64_t device_address = 0;
    if (map_host_memory(call, pointer.address, device_address) == CUDA_SUCCESS)
        pointer.host->device_base = device_address - (pointer.address - pointer.host->base);
}

uint64_t handle_types_of(const State& state, const DeviceRange& range) {
    if (const PhysicalMemory* memory = state.physical_memory.find(range.owner)) return memory->handle_types;
    if (const Pool* pool = state.pools.find(range.owner)) return pool->properties.handleTypes;
    return CU_MEM_HANDLE_TYPE_NONE;
}

/// What the device of the current context may do there.
CUresult put_access(Call& call, const Pointer& pointer, void* data) {
    unsigned flags = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    if (pointer.device && pointer.device->kind == MemoryKind::mapped) {
        CUmemLocation location{};
        location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        location.id = call.device();
        gen::CuMemGetAccessValues answer;
        const CUresult result = gen::request_cuMemGetAccess(call, struct_bytes(&location), pointer.address, answer);
        if (result != CUDA_SUCCESS) return result;
        flags = static_cast<unsigned>(answer.flags);
    }
    return put(data, flags);
}

/// Of addresses that the program has reserved, also where nothing is mapped. False: it is another attribute.
bool put_reserved(const Pointer& pointer, CUpointer_attribute attribute, void* data) {
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: put(data, CUdeviceptr{pointer.reserved->base}); return true;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: put(data, size_t{pointer.reserved->size_bytes}); return true;
        default: return false;
    }
}

/// The value of one attribute for a known pointer.
CUresult attribute_of(Call& call, Pointer& pointer, CUpointer_attribute attribute, void* data) {
    const bool device = pointer.device.has_value();
    if (pointer.reserved && put_reserved(pointer, attribute, data)) return CUDA_SUCCESS;
    if (!pointer.known()) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            return put(data, to_handle<CUcontext>(device ? pointer.device->context : pointer.host->context));
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return put_type(pointer, data);
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            if (device) return put(data, pointer.address);
            map_if_asked_for(call, pointer);
            // What CUDA has allocated kernels find at the same address, whether they have been given it yet or not.
            if (pointer.host->device_base != 0)
                return put(data, CUdeviceptr{pointer.host->device_base + (pointer.address - pointer.host->base)});
            return pointer.host->block_bytes != 0 ? put(data, pointer.address) : CUDA_ERROR_INVALID_VALUE;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (device && !is_managed(pointer)) return CUDA_ERROR_INVALID_VALUE;
            return put(data, reinterpret_cast<void*>(pointer.address));
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return put(data, static_cast<unsigned>(device && pointer.device->sync_memops));
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            return put(data, static_cast<unsigned long long>(device ? pointer.device->buffer_id : pointer.host->buffer_id));
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: return put(data, is_managed(pointer) ? 1u : 0u);
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put(data, device ? pointer.device->device : pointer.host->device);
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return put(data, int{device && has_ipc_handle(*pointer.device)});
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            return put(data, CUdeviceptr{device ? pointer.device->base : pointer.host->base});
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            return put(data, size_t{device ? pointer.device->size_bytes : pointer.host->size_bytes});
        case CU_POINTER_ATTRIBUTE_MAPPED:
            return put(data, device || pointer.host->device_base != 0 || pointer.host->block_bytes != 0 ? 1u : 0u);
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
            return put(data, static_cast<unsigned long long>(device ? handle_types_of(call.state, *pointer.device) : 0));
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return put(data, 0u);
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return put_access(call, pointer, data);
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            return put(data, device && token_is(HandleKind::mem_pool, pointer.device->owner)
                                 ? to_handle<CUmemoryPool>(pointer.device->owner)
                                 : nullptr);
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
            return put(data, size_t{device ? pointer.device->size_bytes : pointer.host->size_bytes});
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
            return put(data, CUdeviceptr{device ? pointer.device->base : pointer.host->base});
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
            return put(data, static_cast<unsigned long long>(device ? pointer.device->buffer_id : pointer.host->buffer_id));
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return put(data, 0u);
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

size_t size_of(CUpointer_attribute attribute) {
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return 4;
        case CU_POINTER_ATTRIBUTE_P2P_TOKENS: return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
        default: return 8;
    }
}

constexpr auto k_last_attribute = CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE;

/// What is said of memory that CUDA does not know. Where devices reach ordinary memory, it is the processor's, at the same
/// address for them.
void put_default(CUdeviceptr address, CUpointer_attribute attribute, void* data) {
    const Device* device = find_device(0);
    const bool pageable = device && device->attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_HOST_POINTER: put(data, address); break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: put(data, pageable ? address : CUdeviceptr{0}); break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: put(data, int{pageable ? CU_DEVICE_CPU : CU_DEVICE_INVALID}); break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: break;  // not written
        default: std::memset(data, 0, size_of(attribute));
    }
}

}  // namespace

CUresult hook_client_cuPointerGetAttribute(Call& call, void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    Pointer pointer = look_up(call.state, ptr);
    return attribute_of(call, pointer, attribute, data);
}

CUresult hook_client_cuPointerGetAttributes(Call& call, unsigned int numAttributes, CUpointer_attribute* attributes,
                                            void** data, CUdeviceptr ptr) {
    if (numAttributes == 0) return CUDA_ERROR_INVALID_VALUE;
    Pointer pointer = look_up(call.state, ptr);
    for (unsigned i = 0; i < numAttributes; ++i) {
        const bool exists = attributes[i] >= CU_POINTER_ATTRIBUTE_CONTEXT && attributes[i] <= k_last_attribute;
        if (!data[i] || !exists) return CUDA_ERROR_INVALID_VALUE;
        // Here, unlike with a single attribute, what does not apply is answered with zeros (and an unknown pointer is no
        // error).
        if (pointer.known() || (pointer.reserved && put_reserved(pointer, attributes[i], data[i]))) {
            if (pointer.known() && attribute_of(call, pointer, attributes[i], data[i]) != CUDA_SUCCESS)
                std::memset(data[i], 0, size_of(attributes[i]));
        } else {
            put_default(pointer.address, attributes[i], data[i]);
        }
    }
    return CUDA_SUCCESS;
}

CUresult hook_client_cuPointerSetAttribute(Call& call, const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    std::optional<DeviceRange> range = call.state.memory.find(ptr);
    if (!range) return CUDA_ERROR_INVALID_VALUE;
    unsigned on = 0;
    std::memcpy(&on, value, sizeof on);
    call.state.memory.set_sync_memops(range->base, on != 0);
    if (on == 0) return CUDA_SUCCESS;
    call.state.any_sync_memops.store(true, std::memory_order_release);
    // "If there are any previously initiated synchronous memory operations that are pending when this attribute is set, the
    // function does not return until those memory operations are complete" (CUDA Driver API, cuPointerSetAttribute).
    return synchronize_stream(call, call.default_stream());
}

}  // namespace warpline::client
