// Exported functions: finding devices, and who they are. What they say agrees with libcuda.so.1, whatever the server's NVML
// says.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "client/nvml/answer.h"
#include "client/nvml/export.h"

namespace abi = warpline::cuda::nvml;
using namespace warpline::client::nvml;

namespace {

/// "0000:41:00.0", or with a domain of eight digits; the function may be missing, and case does not count.
bool parse_bus_id(const char* text, unsigned (&place)[3]) {
    int end = 0;
    if (std::sscanf(text, "%8x:%2x:%2x%n", &place[0], &place[1], &place[2], &end) != 3) {
        place[0] = 0;
        end = 0;
        if (std::sscanf(text, "%2x:%2x%n", &place[1], &place[2], &end) != 2) return false;
    }
    const std::string_view rest = text + end;
    return rest.empty() || (rest.size() == 2 && rest[0] == '.');
}

bool is_part(const Known& device) { return device.uuid().starts_with("MIG-"); }

/// Finds the device that `fits`.
template <typename Fits>
int find(void** out, Fits fits) {
    Known device;
    if (const int result = Library::instance().snapshot(Age::any, device.snapshot); result != abi::k_success) return result;
    if (out == nullptr) return abi::k_invalid_argument;
    for (device.index = 0; device.index < device.snapshot->devices().size(); ++device.index) {
        if (!fits(device)) continue;
        *out = handle_of(device.index);
        return abi::k_success;
    }
    return abi::k_not_found;
}

/// Of nvmlDeviceGetPciInfo_v3 and nvmlDeviceGetAttributes_v2 (cuda/nvml/calls.yaml).
constexpr uint16_t k_pci_info = 51, k_attributes = 372;

/// Where the device is says CUDA; what kind it is, the server's NVML, where there is one.
int pci_of(void* handle, abi::PciInfo& info) {
    Known device;
    if (const int result = find_device(handle, Age::answered, device); result != abi::k_success) return result;
    unsigned place[3];
    info = {};
    const auto told = answer_to(device, k_pci_info);
    if (told && told->result == abi::k_success && !warpline::read_at(told->value, 0, info)) info = {};
    if (!parse_bus_id(device.sheet().pci_bus_id.c_str(), place)) return abi::k_not_supported;
    info.domain = place[0];
    info.bus = place[1];
    info.device = place[2];
    std::snprintf(info.bus_id, sizeof info.bus_id, "%08X:%02X:%02X.0", place[0], place[1] & 0xff, place[2] & 0xff);
    std::snprintf(info.bus_id_legacy, sizeof info.bus_id_legacy, "%04X:%02X:%02X.0", place[0] & 0xffff, place[1] & 0xff,
                  place[2] & 0xff);
    return abi::k_success;
}

}  // namespace

WL_NVML int nvmlDeviceGetCount_v2(uint32_t* count) {
    SnapshotPtr snapshot;
    if (const int result = Library::instance().snapshot(Age::any, snapshot); result != abi::k_success) return result;
    if (count == nullptr) return abi::k_invalid_argument;
    *count = static_cast<uint32_t>(snapshot->devices().size());
    return abi::k_success;
}
WL_NVML int nvmlDeviceGetCount(uint32_t* count) { return nvmlDeviceGetCount_v2(count); }

WL_NVML int nvmlDeviceGetHandleByIndex_v2(uint32_t index, void** device) {
    const int result = find(device, [index](const Known& known) { return known.index == index; });
    return result == abi::k_not_found ? abi::k_invalid_argument : result;
}
WL_NVML int nvmlDeviceGetHandleByIndex(uint32_t index, void** device) { return nvmlDeviceGetHandleByIndex_v2(index, device); }

WL_NVML int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
    if (uuid == nullptr) return abi::k_invalid_argument;
    // Also as CUDA's own programs write it: without what says that it is a GPU's.
    static constexpr std::string_view k_prefix = "GPU-";
    return find(device, [wanted = std::string_view(uuid)](const Known& known) {
        const std::string_view own = known.uuid();
        return own == wanted || (own.starts_with(k_prefix) && own.substr(k_prefix.size()) == wanted);
    });
}

WL_NVML int nvmlDeviceGetHandleByUUIDV(const abi::Uuid* uuid, void** device) {
    if (uuid == nullptr) return abi::k_invalid_argument;
    if (uuid->version != abi::version_tag<abi::Uuid>(1)) return abi::k_argument_version_mismatch;
    if (uuid->type != 1 && uuid->type != 2) return abi::k_invalid_argument;
    return find(device, [uuid](const Known& known) {
        if (uuid->type == 2) return std::memcmp(known.sheet().uuid.data(), uuid->bytes, sizeof uuid->bytes) == 0;
        return known.uuid() == std::string_view(uuid->text, strnlen(uuid->text, sizeof uuid->text));
    });
}

WL_NVML int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
    unsigned wanted[3];
    if (bus_id == nullptr || !parse_bus_id(bus_id, wanted)) return abi::k_invalid_argument;
    return find(device, [&wanted](const Known& known) {
        unsigned place[3];
        return parse_bus_id(known.sheet().pci_bus_id.c_str(), place) && std::equal(place, place + 3, wanted);
    });
}
WL_NVML int nvmlDeviceGetHandleByPciBusId(const char* bus_id, void** device) {
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

WL_NVML int nvmlDeviceGetSerial(void* device, char* serial, uint32_t length);
WL_NVML int nvmlDeviceGetHandleBySerial(const char* serial, void** device) {
    if (serial == nullptr) return abi::k_invalid_argument;
    return find(device, [serial](const Known& known) {
        char text[abi::k_name_bytes];
        return nvmlDeviceGetSerial(handle_of(known.index), text, sizeof text) == abi::k_success &&
               std::strcmp(text, serial) == 0;
    });
}

WL_NVML int nvmlDeviceGetIndex(void* device, uint32_t* index) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    if (index == nullptr) return abi::k_invalid_argument;
    *index = static_cast<uint32_t>(known.index);
    return abi::k_success;
}
/// The number of the device's file, of which there is none here: tools print it, and nothing is opened by it.
WL_NVML int nvmlDeviceGetMinorNumber(void* device, uint32_t* number) { return nvmlDeviceGetIndex(device, number); }

WL_NVML int nvmlDeviceGetName(void* device, char* name, uint32_t length) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    return give_text(known.sheet().name, name, length);
}

WL_NVML int nvmlDeviceGetUUID(void* device, char* uuid, uint32_t length) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    return give_text(known.uuid(), uuid, length);
}

WL_NVML int nvmlDeviceGetPciInfo_v3(void* device, abi::PciInfo* out) {
    abi::PciInfo info;
    if (const int result = pci_of(device, info); result != abi::k_success) return result;
    if (out == nullptr) return abi::k_invalid_argument;
    *out = info;
    return abi::k_success;
}
WL_NVML int nvmlDeviceGetPciInfo_v2(void* device, abi::PciInfoV2* out) {
    abi::PciInfo info;
    if (const int result = pci_of(device, info); result != abi::k_success) return result;
    if (out == nullptr) return abi::k_invalid_argument;
    *out = {};
    std::memcpy(out, &info, offsetof(abi::PciInfo, bus_id));
    return abi::k_success;
}
/// The first version ends before the subsystem's id.
WL_NVML int nvmlDeviceGetPciInfo(void* device, abi::PciInfoV2* out) {
    abi::PciInfo info;
    if (const int result = pci_of(device, info); result != abi::k_success) return result;
    if (out == nullptr) return abi::k_invalid_argument;
    std::memcpy(out, &info, offsetof(abi::PciInfo, subsystem_id));
    return abi::k_success;
}
WL_NVML int nvmlDeviceGetPciInfoExt(void* device, abi::PciInfoExt* out) {
    abi::PciInfo info;
    if (const int result = pci_of(device, info); result != abi::k_success) return result;
    if (out == nullptr) return abi::k_invalid_argument;
    if (out->version != abi::version_tag<abi::PciInfoExt>(1)) return abi::k_argument_version_mismatch;
    constexpr uint32_t k_display_controller = 3, k_3d_controller = 2;
    const uint32_t version = out->version;
    *out = {version,           info.domain,          info.bus,        info.device, info.device_id,
            info.subsystem_id, k_display_controller, k_3d_controller, {}};
    std::memcpy(out->bus_id, info.bus_id, sizeof out->bus_id);
    return abi::k_success;
}

WL_NVML int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    if (major == nullptr || minor == nullptr) return abi::k_invalid_argument;
    *major = static_cast<int>(known.sheet().compute_major);
    *minor = static_cast<int>(known.sheet().compute_minor);
    return abi::k_success;
}

WL_NVML int nvmlDeviceGetAttributes_v2(void* device, abi::DeviceAttributes* out) {
    Known known;
    if (const int result = find_device(device, Age::answered, known); result != abi::k_success) return result;
    if (out == nullptr) return abi::k_invalid_argument;
    // It is told of instances of partitioned GPUs only.
    const auto told = is_part(known) ? answer_to(known, k_attributes) : std::nullopt;
    if (!told) return abi::k_not_supported;
    if (told->result != abi::k_success) return told->result;
    return warpline::read_at(told->value, 0, *out) ? abi::k_success : abi::k_unknown;
}
WL_NVML int nvmlDeviceGetAttributes(void* device, abi::DeviceAttributes* out) {
    return nvmlDeviceGetAttributes_v2(device, out);
}

/// The server's instances are devices of their own here, as they are for CUDA: none is below another one.
WL_NVML int nvmlDeviceIsMigDeviceHandle(void* device, uint32_t* is_mig) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    if (is_mig == nullptr) return abi::k_invalid_argument;
    *is_mig = is_part(known) ? 1 : 0;
    return abi::k_success;
}
WL_NVML int nvmlDeviceGetMaxMigDeviceCount(void* device, uint32_t* count) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    if (count == nullptr) return abi::k_invalid_argument;
    *count = 0;
    return abi::k_success;
}
WL_NVML int nvmlDeviceGetMigDeviceHandleByIndex(void* device, uint32_t, void** out) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    return out == nullptr ? abi::k_invalid_argument : abi::k_not_found;
}
WL_NVML int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* device, void** out) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    return out == nullptr || !is_part(known) ? abi::k_invalid_argument : abi::k_not_supported;
}
WL_NVML int nvmlDeviceGetGpuInstanceId(void* device, uint32_t* out) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    return out == nullptr ? abi::k_invalid_argument : abi::k_not_supported;
}
WL_NVML int nvmlDeviceGetComputeInstanceId(void* device, uint32_t* out) { return nvmlDeviceGetGpuInstanceId(device, out); }
