// Asking a driver everything that programs will ask.
#include "server/driver/inventory.h"

#include <algorithm>
#include <cstring>

#include "common/log/log.h"
#include "cuda/abi/error_names.h"
#include "cuda/abi/visible_devices.h"
#include "server/driver/primary_context.h"

namespace warpline::server {

namespace {

constexpr int k_last_attribute = 200;  // above every CUdevice_attribute of CUDA 13, with room
constexpr int k_last_p2p_attribute = 8;
constexpr int k_last_limit = 15;

Error refused(const char* what, CUresult result) { return Error{Code::internal, what, static_cast<uint32_t>(result)}; }

void ask_attributes(const DriverTable& cuda, DeviceSnapshot& device) {
    if (cuda.cuDeviceGetAttribute == nullptr) return;
    for (int id = 1; id <= k_last_attribute; ++id) {
        int value = 0;
        if (cuda.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(id), device.device) == CUDA_SUCCESS) {
            device.attributes.push_back({static_cast<uint16_t>(id), value});
        }
    }
    device.compute_major = device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    device.compute_minor = device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

void ask_identity(const DriverTable& cuda, DeviceSnapshot& device) {
    char text[256] = {};
    if (cuda.cuDeviceGetName != nullptr && cuda.cuDeviceGetName(text, sizeof text - 1, device.device) == CUDA_SUCCESS) {
        device.name = text;
    }
    std::memset(text, 0, sizeof text);
    if (cuda.cuDeviceGetPCIBusId != nullptr && cuda.cuDeviceGetPCIBusId(text, 32, device.device) == CUDA_SUCCESS) {
        device.pci_bus_id = text;
    }
    size_t total = 0;
    if (cuda.cuDeviceTotalMem_v2 != nullptr && cuda.cuDeviceTotalMem_v2(&total, device.device) == CUDA_SUCCESS) {
        device.total_bytes = total;
    }
    if (cuda.cuDeviceGetUuid_v2 != nullptr) cuda.cuDeviceGetUuid_v2(&device.uuid, device.device);
}

void ask_peers(const DriverTable& cuda, DeviceSnapshot& device, int count) {
    if (cuda.cuDeviceCanAccessPeer == nullptr) return;
    for (int other = 0; other < count; ++other) {
        if (other == device.device) continue;
        DeviceSnapshot::Peer peer{static_cast<uint32_t>(other), false, {}};
        int can = 0;
        if (cuda.cuDeviceCanAccessPeer(&can, device.device, other) == CUDA_SUCCESS) peer.can_access = can != 0;
        for (int id = 1; id <= k_last_p2p_attribute && cuda.cuDeviceGetP2PAttribute != nullptr; ++id) {
            int value = 0;
            if (cuda.cuDeviceGetP2PAttribute(&value, static_cast<CUdevice_P2PAttribute>(id), device.device, other) ==
                CUDA_SUCCESS) {
                peer.attributes.push_back({static_cast<uint16_t>(id), value});
            }
        }
        device.peers.push_back(std::move(peer));
    }
}

/// What only a context can tell. A device whose context cannot be made (exclusive mode, out of memory) is told without it.
void ask_context(const Driver& driver, DeviceSnapshot& device) {
    const DriverTable& cuda = driver.table();
    CUcontext context = nullptr;
    if (cuda.cuCtxSetCurrent == nullptr) return;
    const CUresult made = retain_primary(driver, device.device, context);
    if (made != CUDA_SUCCESS) {
        WL_LOG(warn, "driver", "device {} gives no context: {}", device.device, cuda::abi::error_name_for_log(made));
        return;
    }
    cuda.cuCtxSetCurrent(context);
    for (int id = 0; id <= k_last_limit && cuda.cuCtxGetLimit != nullptr; ++id) {
        size_t value = 0;
        const CUresult result = cuda.cuCtxGetLimit(&value, static_cast<CUlimit>(id));
        device.limits.push_back({static_cast<uint16_t>(id), static_cast<int32_t>(result), value});
    }
    if (cuda.cuCtxGetStreamPriorityRange != nullptr) {
        cuda.cuCtxGetStreamPriorityRange(&device.least_priority, &device.greatest_priority);
    }
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    if (cuda.cuMemGetInfo_v2 != nullptr && cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
        device.free_bytes = free_bytes;
    }
    cuda.cuCtxSetCurrent(nullptr);
    // A context takes memory that others could use.
    if (cuda.cuDevicePrimaryCtxRelease_v2 != nullptr) cuda.cuDevicePrimaryCtxRelease_v2(device.device);
}

}  // namespace

int DeviceSnapshot::attribute(CUdevice_attribute id) const {
    const auto found = std::find_if(attributes.begin(), attributes.end(),
                                    [id](const Attribute& a) { return a.id == static_cast<uint16_t>(id); });
    return found != attributes.end() ? found->value : 0;
}

Result<std::vector<DeviceSnapshot>> take_inventory(const Driver& driver, bool contexts) {
    const DriverTable& cuda = driver.table();
    int count = 0;
    const CUresult counted = cuda.cuDeviceGetCount(&count);
    if (counted != CUDA_SUCCESS) return refused("cuDeviceGetCount failed", counted);
    count = std::min<int>(count, k_max_devices);
    std::vector<DeviceSnapshot> devices;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        DeviceSnapshot device;
        const CUresult got = cuda.cuDeviceGet != nullptr ? cuda.cuDeviceGet(&device.device, ordinal) : CUDA_ERROR_NOT_FOUND;
        if (got != CUDA_SUCCESS) return refused("cuDeviceGet failed", got);
        device.driver_device = device.device;
        ask_identity(cuda, device);
        ask_attributes(cuda, device);
        ask_peers(cuda, device, count);
        if (contexts) ask_context(driver, device);
        if (device.free_bytes == 0) device.free_bytes = device.total_bytes;
        devices.push_back(std::move(device));
    }
    return devices;
}

namespace {

/// Peers are counted as the devices are.
void count_anew(std::vector<DeviceSnapshot>& devices) {
    for (size_t i = 0; i < devices.size(); ++i) devices[i].device = static_cast<CUdevice>(i);
    for (DeviceSnapshot& device : devices) {
        std::vector<DeviceSnapshot::Peer> peers;
        for (DeviceSnapshot::Peer peer : device.peers) {
            for (const DeviceSnapshot& other : devices) {
                if (other.driver_device != static_cast<CUdevice>(peer.device)) continue;
                peer.device = static_cast<uint32_t>(other.device);
                peers.push_back(peer);
                break;
            }
        }
        device.peers = std::move(peers);
    }
}

}  // namespace

std::vector<DeviceSnapshot> select_devices(const std::vector<DeviceSnapshot>& devices, const std::string& visible) {
    if (visible.empty()) return devices;
    std::vector<std::string> names;
    for (const DeviceSnapshot& device : devices) names.push_back(cuda::abi::device_name_of(device.uuid, device.name));
    std::vector<DeviceSnapshot> selected;
    for (const size_t index : cuda::abi::visible_devices(visible, names)) selected.push_back(devices[index]);
    count_anew(selected);
    return selected;
}

ReadyMessage summarise(const Driver& driver, const std::vector<DeviceSnapshot>& devices) {
    ReadyMessage ready{};
    ready.driver_version = driver.version();
    ready.software = driver.kind() == DriverKind::software ? 1 : 0;
    ready.missing_functions = driver.missing_functions();
    set_text(ready.driver_path, driver.path());
    ready.device_count = static_cast<uint32_t>(std::min(devices.size(), k_max_devices));
    for (uint32_t i = 0; i < ready.device_count; ++i) {
        const DeviceSnapshot& device = devices[i];
        DeviceRow& row = ready.devices[i];
        row.ordinal = device.device;
        row.compute_major = static_cast<uint32_t>(device.compute_major);
        row.compute_minor = static_cast<uint32_t>(device.compute_minor);
        row.multiprocessors = static_cast<uint32_t>(device.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
        row.total_bytes = device.total_bytes;
        std::memcpy(row.uuid, device.uuid.bytes, sizeof row.uuid);
        set_text(row.name, device.name);
        set_text(row.pci_bus_id, device.pci_bus_id);
    }
    return ready;
}

}  // namespace warpline::server
