// Everything about devices is in the snapshot that the handshake brought.
#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "client/call/common.h"
#include "client/gen/device_calls.gen.h"

namespace warpline::client {

namespace {

/// As CUDA's functions with a length do: what does not fit is cut off, and the text is terminated.
void copy_text(char* out, int length, const std::string& text) {
    size_t count = std::min(text.size(), static_cast<size_t>(length) - 1);
    std::memcpy(out, text.data(), count);
    out[count] = '\0';
}

}  // namespace

CUresult hook_client_cuDeviceGet(Call&, CUdevice* device, int ordinal) {
    if (!find_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDeviceGetCount(Call&, int* count) {
    *count = static_cast<int>(Process::instance().server().devices.size());
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDeviceGetName(Call&, char* name, int len, CUdevice dev) {
    const Device* device = find_device(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (len <= 0) return CUDA_ERROR_INVALID_VALUE;
    copy_text(name, len, device->name);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDeviceTotalMem_v2(Call&, size_t* bytes, CUdevice dev) {
    const Device* device = find_device(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = device->total_bytes;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDeviceGetAttribute(Call&, int* pi, CUdevice_attribute attrib, CUdevice dev) {
    const Device* device = find_device(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (attrib <= 0 || static_cast<size_t>(attrib) >= Device::k_attribute_ids) return CUDA_ERROR_INVALID_VALUE;
    if (attrib >= CU_DEVICE_ATTRIBUTE_MAX && !device->has_attribute[attrib]) return CUDA_ERROR_INVALID_VALUE;
    *pi = device->attributes[attrib];
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDeviceGetUuid_v2(Call&, CUuuid* uuid, CUdevice dev) {
    const Device* device = find_device(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    *uuid = device->uuid;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDeviceComputeCapability(Call&, int* major, int* minor, CUdevice dev) {
    const Device* device = find_device(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    *major = device->major;
    *minor = device->minor;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDeviceGetProperties(Call&, CUdevprop* prop, CUdevice dev) {
    const Device* device = find_device(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    prop->maxThreadsPerBlock = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    prop->maxThreadsDim[0] = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
    prop->maxThreadsDim[1] = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
    prop->maxThreadsDim[2] = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
    prop->maxGridSize[0] = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
    prop->maxGridSize[1] = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
    prop->maxGridSize[2] = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
    prop->sharedMemPerBlock = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    prop->totalConstantMemory = device->attribute(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    prop->SIMDWidth = device->attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    prop->memPitch = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    prop->regsPerBlock = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    prop->clockRate = device->attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    prop->textureAlign = device->attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDeviceGetByPCIBusId(Call&, CUdevice* dev, const char* pciBusId) {
    unsigned wanted[4] = {0, 0, 0, 0};
    // [domain]:[bus]:[device].[function], the domain and the function may be left out.
    bool with_domain = std::sscanf(pciBusId, "%x:%x:%x.%x", &wanted[0], &wanted[1], &wanted[2], &wanted[3]) >= 3;
    if (!with_domain) {
        wanted[0] = 0;
        if (std::sscanf(pciBusId, "%x:%x.%x", &wanted[1], &wanted[2], &wanted[3]) < 2) return CUDA_ERROR_INVALID_VALUE;
    }
    const auto& devices = Process::instance().server().devices;
    for (size_t i = 0; i < devices.size(); ++i) {
        const Device& device = devices[i];
        if (device.attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) != static_cast<int>(wanted[0])) continue;
        if (device.attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) != static_cast<int>(wanted[1])) continue;
        if (device.attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) != static_cast<int>(wanted[2])) continue;
        *dev = static_cast<CUdevice>(i);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult hook_client_cuDeviceGetPCIBusId(Call&, char* pciBusId, int len, CUdevice dev) {
    const Device* device = find_device(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (len <= 0) return CUDA_ERROR_INVALID_VALUE;
    copy_text(pciBusId, len, device->pci_bus_id);
    return static_cast<size_t>(len) > std::string_view(device->pci_bus_id).size() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult hook_client_cuDeviceGetP2PAttribute(Call&, int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                             CUdevice dstDevice) {
    const Device* source = find_device(srcDevice);
    if (!source || !find_device(dstDevice) || srcDevice == dstDevice) return CUDA_ERROR_INVALID_DEVICE;
    // CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED came with CUDA 13.
    constexpr int k_last = 5, k_last_before_cuda_13 = 4;
    const int last = Process::instance().driver_version() >= 13000 ? k_last : k_last_before_cuda_13;
    if (attrib <= 0 || static_cast<int>(attrib) > last) return CUDA_ERROR_INVALID_VALUE;
    auto peer = static_cast<size_t>(dstDevice);
    *value = peer < source->peers.size() ? source->peers[peer].attributes[attrib] : 0;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuDeviceCanAccessPeer(Call&, int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
    const Device* device = find_device(dev);
    if (!device || !find_device(peerDev)) return CUDA_ERROR_INVALID_DEVICE;
    auto peer = static_cast<size_t>(peerDev);
    *canAccessPeer = dev != peerDev && peer < device->peers.size() && device->peers[peer].can_access;
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
