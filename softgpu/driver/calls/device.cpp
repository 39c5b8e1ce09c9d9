// What devices say of themselves.
#include "softgpu/driver/device/device.h"

#include <cstdio>
#include <cstring>

#include "softgpu/driver/context/context.h"
#include "softgpu/driver/graph/graph_memory.h"
#include "softgpu/driver/memory/memory_pool.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// Copies text into a caller's buffer, cut to its length and ended with a zero.
CUresult copy_text(char* out, int length, const std::string& text) {
    if (out == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(out, static_cast<size_t>(length), "%s", text.c_str());
    return CUDA_SUCCESS;
}

/// What atomic operations do on memory that the CPU executes them on: all of them, in every width.
unsigned int atomic_capabilities(CUatomicOperation operation) {
    constexpr unsigned int integer = CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED |
                                     CU_ATOMIC_CAPABILITY_REDUCTION | CU_ATOMIC_CAPABILITY_SCALAR_32 |
                                     CU_ATOMIC_CAPABILITY_SCALAR_64;
    constexpr unsigned int exchange = integer | CU_ATOMIC_CAPABILITY_SCALAR_128;
    switch (operation) {
        case CU_ATOMIC_OPERATION_EXCHANGE:
        case CU_ATOMIC_OPERATION_CAS: return exchange;
        case CU_ATOMIC_OPERATION_FLOAT_MIN:
        case CU_ATOMIC_OPERATION_FLOAT_MAX: return 0;
        default: return integer;
    }
}

CUresult list_atomics(unsigned int* capabilities, const CUatomicOperation* operations, unsigned int count) {
    if (capabilities == nullptr || operations == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; ++i) {
        if (operations[i] < 0 || operations[i] >= CU_ATOMIC_OPERATION_MAX) return CUDA_ERROR_INVALID_VALUE;
        capabilities[i] = atomic_capabilities(operations[i]);
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDeviceGetCount(int* count) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = process().device_count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* found = nullptr;
    CU_TRY(find_device(ordinal, found));
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    return copy_text(name, len, device->name());
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    *uuid = device->uuid();
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    *bytes = device->total_bytes();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
    if (pi == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    return device->attribute(static_cast<int>(attrib), pi);
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
    if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    *major = device->attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = device->attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
    if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    auto get = [device](CUdevice_attribute which) { return device->attribute(which); };
    *prop = CUdevprop{};
    prop->maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    for (int i = 0; i < 3; ++i) {
        prop->maxThreadsDim[i] = get(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
        prop->maxGridSize[i] = get(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
    }
    prop->sharedMemPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    prop->totalConstantMemory = get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    prop->SIMDWidth = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    prop->memPitch = get(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    prop->regsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    prop->clockRate = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    prop->textureAlign = get(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    CU_TRY(copy_text(pciBusId, len, device->pci_bus_id()));
    return static_cast<size_t>(len) > device->pci_bus_id().size() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
    if (dev == nullptr || pciBusId == nullptr) return CUDA_ERROR_INVALID_VALUE;
    unsigned int domain = 0, bus = 0, number = 0, function = 0;
    bool full = std::sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &number, &function) >= 3;
    if (!full) domain = 0;
    if (!full && std::sscanf(pciBusId, "%x:%x.%x", &bus, &number, &function) < 2) return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < process().device_count(); ++i) {
        const Device& device = *process().device(i);
        if (domain != 0 || number != 0 || function != 0) break;
        if (static_cast<int>(bus) != device.attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)) continue;
        *dev = i;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev) {
    static_cast<void>(type);  // none is supported, known or not
    if (pi == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    *pi = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* maxWidthInElements, CUarray_format, unsigned numChannels, CUdevice dev) {
    if (maxWidthInElements == nullptr || (numChannels != 1 && numChannels != 2 && numChannels != 4)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    *maxWidthInElements = static_cast<size_t>(device->attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetHostAtomicCapabilities(unsigned int* capabilities, const CUatomicOperation* operations, unsigned int count,
                                           CUdevice dev) {
    Device* device = nullptr;
    CU_TRY(find_device(dev, device));
    return list_atomics(capabilities, operations, count);
}

CUresult cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
    if (canAccessPeer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device *device = nullptr, *peer = nullptr;
    CU_TRY(find_device(dev, device));
    CU_TRY(find_device(peerDev, peer));
    *canAccessPeer = device != peer && process().config().profile.peers ? 1 : 0;  // DB-21
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device *source = nullptr, *destination = nullptr;
    CU_TRY(find_device(srcDevice, source));
    CU_TRY(find_device(dstDevice, destination));
    if (source == destination) return CUDA_ERROR_INVALID_DEVICE;
    switch (attrib) {
        case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: *value = 0; return CUDA_SUCCESS;
        case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
        case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
            *value = process().config().profile.peers ? 1 : 0;
            return CUDA_SUCCESS;
        case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED: *value = 0; return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int* capabilities, const CUatomicOperation* operations, unsigned int count,
                                          CUdevice srcDevice, CUdevice dstDevice) {
    Device *source = nullptr, *destination = nullptr;
    CU_TRY(find_device(srcDevice, source));
    CU_TRY(find_device(dstDevice, destination));
    if (source == destination && capabilities != nullptr && operations != nullptr && count != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    return list_atomics(capabilities, operations, count);
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
    Device* found = nullptr;
    CU_TRY(find_device(device, found));
    GraphMemory::trim(*found);
    found->heap().trim(0);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* found = nullptr;
    CU_TRY(find_device(device, found));
    auto* out = static_cast<cuuint64_t*>(value);
    switch (attr) {
        case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: *out = found->graph_memory; return CUDA_SUCCESS;
        case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: *out = found->graph_used_high; return CUDA_SUCCESS;
        case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: *out = found->graph_memory; return CUDA_SUCCESS;
        case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: *out = found->graph_reserved_high; return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
    if (value == nullptr || *static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
    Device* found = nullptr;
    CU_TRY(find_device(device, found));
    switch (attr) {
        case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: found->graph_used_high = found->graph_memory.load(); return CUDA_SUCCESS;
        case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: found->graph_reserved_high = found->graph_memory.load(); return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

}  // namespace warpline::softgpu::driver
