// libnvidia-ml.so.1 of the software GPU: what a monitor would see of it, for gpu-server, which looks for the library beside the
// driver. Memory, processes and utilisation are what the driver's processes note on the usage board; there is no sensor, and
// temperature, power and clocks follow from the utilisation by the rules below. What is not here is not known.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#include "cuda/abi/visible_devices.h"
#include "cuda/nvml/types.h"
#include "softgpu/driver/config/config.h"
#include "softgpu/driver/device/visible_slots.h"
#include "softgpu/driver/share/usage_board.h"

#define WL_SOFTGPU_NVML extern "C" __attribute__((visibility("default"), used))

namespace abi = warpline::cuda::nvml;
namespace driver = warpline::softgpu::driver;

namespace {

/// A card of the size of a server's, in milliwatts, degrees Celsius and MHz. What it draws and how warm it is grows with its
/// utilisation; its clocks have two steps.
constexpr uint32_t k_idle_power_mw = 20'000, k_full_power_mw = 150'000;
constexpr uint32_t k_idle_degrees = 34, k_full_degrees = 74, k_slowdown_degrees = 90, k_shutdown_degrees = 95;
constexpr uint32_t k_idle_clock_mhz = 300, k_full_clock_mhz = 1'500;
constexpr uint32_t k_idle_memory_mhz = 405, k_full_memory_mhz = 5'000;
/// Of which the utilisation is told.
constexpr uint32_t k_window_us = 1'000'000;
constexpr uint32_t k_full_state = 0, k_idle_state = 8;
constexpr uint64_t k_reason_none = 0, k_reason_idle = 1;

std::atomic<unsigned> g_users{0};

const driver::Config& config() {
    static const driver::Config read = driver::read_config();
    return read;
}

std::array<char, driver::UsageBoard::k_devices> g_devices;  // their addresses are handles

/// Which device a handle is. @return success, uninitialized, invalid argument
int slot_of(const void* device, uint32_t& slot) {
    if (g_users.load() == 0) return abi::k_uninitialized;
    const auto* handle = static_cast<const char*>(device);
    if (handle < g_devices.data() || handle >= g_devices.data() + config().devices) return abi::k_invalid_argument;
    slot = static_cast<uint32_t>(handle - g_devices.data());
    return abi::k_success;
}

/// @return not supported as well: the processes of the driver have nowhere to note anything
int read_usage(const void* device, driver::UsageBoard::Reading& usage) {
    uint32_t slot = 0;
    if (const int result = slot_of(device, slot); result != abi::k_success) return result;
    return driver::UsageBoard::instance().read(slot, usage) ? abi::k_success : abi::k_not_supported;
}

/// A value made of the usage.
template <typename T, typename Make>
int give(const void* device, T* out, Make make) {
    driver::UsageBoard::Reading usage;
    if (const int result = read_usage(device, usage); result != abi::k_success) return result;
    if (out == nullptr) return abi::k_invalid_argument;
    *out = make(usage);
    return abi::k_success;
}

/// A value that is always the same.
template <typename T>
int give_fixed(const void* device, T* out, T value) {
    uint32_t slot = 0;
    if (const int result = slot_of(device, slot); result != abi::k_success) return result;
    if (out == nullptr) return abi::k_invalid_argument;
    *out = value;
    return abi::k_success;
}

uint32_t between(uint32_t idle, uint32_t full, uint32_t percent) { return idle + (full - idle) * percent / 100; }

uint32_t load_of(const driver::UsageBoard::Reading& usage) { return std::max(usage.kernel_percent, usage.copy_percent); }

bool same_text(const char* a, std::string b) {
    return a != nullptr && std::equal(b.begin(), b.end(), a, a + std::strlen(a),
                                      [](char x, char y) { return std::tolower(x) == std::tolower(y); });
}

std::string uuid_of(uint32_t slot) {
    const bool mig = config().profile.mig;
    return warpline::cuda::abi::device_name_of(driver::uuid_of_slot(slot, mig), mig ? " MIG " : "");
}

/// The first device of which `name_of` says this name.
template <typename Name>
int find(const char* name, void** device, Name name_of) {
    if (g_users.load() == 0) return abi::k_uninitialized;
    if (name == nullptr || device == nullptr) return abi::k_invalid_argument;
    for (uint32_t slot = 0; slot < config().devices; ++slot) {
        if (!same_text(name, name_of(slot))) continue;
        *device = g_devices.data() + slot;
        return abi::k_success;
    }
    return abi::k_not_found;
}

uint64_t free_of(uint64_t used) { return config().memory_bytes - std::min(used, config().memory_bytes); }

}  // namespace

WL_SOFTGPU_NVML int nvmlInit_v2() {
    ++g_users;
    return abi::k_success;
}
WL_SOFTGPU_NVML int nvmlShutdown() {
    unsigned users = g_users.load();
    while (users > 0 && !g_users.compare_exchange_weak(users, users - 1)) {
    }
    return users > 0 ? abi::k_success : abi::k_uninitialized;
}
WL_SOFTGPU_NVML const char* nvmlErrorString(int result) { return abi::error_text(result); }

WL_SOFTGPU_NVML int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) { return find(uuid, device, uuid_of); }
WL_SOFTGPU_NVML int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
    return find(bus_id, device, driver::pci_bus_id_of_slot);
}

WL_SOFTGPU_NVML int nvmlDeviceGetUtilizationRates(void* device, abi::Utilization* out) {
    return give(device, out, [](const auto& usage) { return abi::Utilization{usage.kernel_percent, usage.copy_percent}; });
}
WL_SOFTGPU_NVML int nvmlDeviceGetMemoryInfo(void* device, abi::Memory* out) {
    return give(device, out, [](const auto& usage) {
        return abi::Memory{config().memory_bytes, free_of(usage.used_bytes), config().memory_bytes - free_of(usage.used_bytes)};
    });
}
WL_SOFTGPU_NVML int nvmlDeviceGetMemoryInfo_v2(void* device, abi::MemoryV2* out) {
    if (out != nullptr && out->version != abi::version_tag<abi::MemoryV2>(2)) return abi::k_argument_version_mismatch;
    return give(device, out, [out](const auto& usage) {
        return abi::MemoryV2{out->version, config().memory_bytes, 0, free_of(usage.used_bytes),
                             config().memory_bytes - free_of(usage.used_bytes)};
    });
}
WL_SOFTGPU_NVML int nvmlDeviceGetComputeRunningProcesses_v3(void* device, uint32_t* count, abi::ProcessInfo* infos) {
    driver::UsageBoard::Reading usage;
    if (const int result = read_usage(device, usage); result != abi::k_success) return result;
    if (count == nullptr) return abi::k_invalid_argument;
    const uint32_t room = *count;
    *count = static_cast<uint32_t>(usage.processes.size());
    if (*count > room || (*count > 0 && infos == nullptr)) return abi::k_insufficient_size;
    for (uint32_t i = 0; i < *count; ++i)
        infos[i] = {usage.processes[i].pid, usage.processes[i].used_bytes, abi::k_no_instance, abi::k_no_instance};
    return abi::k_success;
}

WL_SOFTGPU_NVML int nvmlDeviceGetTemperature(void* device, uint32_t sensor, uint32_t* out) {
    if (sensor != 0) return abi::k_invalid_argument;
    return give(device, out, [](const auto& usage) { return between(k_idle_degrees, k_full_degrees, load_of(usage)); });
}
WL_SOFTGPU_NVML int nvmlDeviceGetTemperatureThreshold(void* device, uint32_t which, uint32_t* out) {
    constexpr uint32_t k_shutdown = 0, k_slowdown = 1;
    if (which > k_slowdown) return abi::k_not_supported;
    return give_fixed(device, out, which == k_shutdown ? k_shutdown_degrees : k_slowdown_degrees);
}
WL_SOFTGPU_NVML int nvmlDeviceGetPowerUsage(void* device, uint32_t* out) {
    return give(device, out, [](const auto& usage) { return between(k_idle_power_mw, k_full_power_mw, load_of(usage)); });
}
WL_SOFTGPU_NVML int nvmlDeviceGetPowerManagementMode(void* device, uint32_t* out) { return give_fixed(device, out, 1u); }
WL_SOFTGPU_NVML int nvmlDeviceGetPowerManagementLimit(void* device, uint32_t* out) {
    return give_fixed(device, out, k_full_power_mw);
}
WL_SOFTGPU_NVML int nvmlDeviceGetPowerManagementDefaultLimit(void* device, uint32_t* out) {
    return give_fixed(device, out, k_full_power_mw);
}
WL_SOFTGPU_NVML int nvmlDeviceGetEnforcedPowerLimit(void* device, uint32_t* out) {
    return give_fixed(device, out, k_full_power_mw);
}
WL_SOFTGPU_NVML int nvmlDeviceGetPowerManagementLimitConstraints(void* device, uint32_t* least, uint32_t* most) {
    const int result = give_fixed(device, least, k_full_power_mw);
    return result == abi::k_success ? give_fixed(device, most, k_full_power_mw) : result;
}
WL_SOFTGPU_NVML int nvmlDeviceGetPerformanceState(void* device, uint32_t* out) {
    return give(device, out, [](const auto& usage) { return load_of(usage) > 0 ? k_full_state : k_idle_state; });
}
WL_SOFTGPU_NVML int nvmlDeviceGetCurrentClocksEventReasons(void* device, uint64_t* out) {
    return give(device, out, [](const auto& usage) { return load_of(usage) > 0 ? k_reason_none : k_reason_idle; });
}
WL_SOFTGPU_NVML int nvmlDeviceGetSupportedClocksEventReasons(void* device, uint64_t* out) {
    return give_fixed(device, out, k_reason_idle);
}

/// Of graphics, multiprocessors, memory; there is no video.
WL_SOFTGPU_NVML int nvmlDeviceGetClockInfo(void* device, uint32_t which, uint32_t* out) {
    constexpr uint32_t k_memory_clock = 2;
    if (which > k_memory_clock) return abi::k_not_supported;
    return give(device, out, [which](const auto& usage) {
        if (which == k_memory_clock) return load_of(usage) > 0 ? k_full_memory_mhz : k_idle_memory_mhz;
        return load_of(usage) > 0 ? k_full_clock_mhz : k_idle_clock_mhz;
    });
}
WL_SOFTGPU_NVML int nvmlDeviceGetMaxClockInfo(void* device, uint32_t which, uint32_t* out) {
    constexpr uint32_t k_memory_clock = 2;
    if (which > k_memory_clock) return abi::k_not_supported;
    return give_fixed(device, out, which == k_memory_clock ? k_full_memory_mhz : k_full_clock_mhz);
}

/// There is one clock: what it is, and what it was asked to be, which nobody can ask for.
WL_SOFTGPU_NVML int nvmlDeviceGetClock(void* device, uint32_t which, uint32_t id, uint32_t* out) {
    constexpr uint32_t k_current = 0;
    return id == k_current ? nvmlDeviceGetClockInfo(device, which, out) : static_cast<int>(abi::k_not_supported);
}

/// No brand of NVIDIA's; no fans; no video; and programs find it as it is, through no hypervisor.
WL_SOFTGPU_NVML int nvmlDeviceGetBrand(void* device, uint32_t* out) { return give_fixed(device, out, 0u); }
WL_SOFTGPU_NVML int nvmlDeviceGetNumFans(void* device, uint32_t* out) { return give_fixed(device, out, 0u); }
WL_SOFTGPU_NVML int nvmlDeviceGetVirtualizationMode(void* device, uint32_t* out) { return give_fixed(device, out, 0u); }
WL_SOFTGPU_NVML int nvmlDeviceGetPowerSource(void* device, uint32_t* out) { return give_fixed(device, out, 0u); }
WL_SOFTGPU_NVML int nvmlDeviceGetEncoderUtilization(void* device, uint32_t* percent, uint32_t* period_us) {
    const int result = give_fixed(device, percent, 0u);
    return result == abi::k_success ? give_fixed(device, period_us, k_window_us) : result;
}
WL_SOFTGPU_NVML int nvmlDeviceGetDecoderUtilization(void* device, uint32_t* percent, uint32_t* period_us) {
    return nvmlDeviceGetEncoderUtilization(device, percent, period_us);
}
WL_SOFTGPU_NVML int nvmlDeviceGetEncoderStats(void* device, uint32_t* sessions, uint32_t* frames, uint32_t* latency_us) {
    for (uint32_t* out : {sessions, frames, latency_us}) {
        if (const int result = give_fixed(device, out, 0u); result != abi::k_success) return result;
    }
    return abi::k_success;
}
WL_SOFTGPU_NVML int nvmlDeviceGetFBCStats(void* device, std::array<uint32_t, 3>* out) {
    return give_fixed(device, out, std::array<uint32_t, 3>{});
}

/// What these functions say, once more, for who asks by number.
WL_SOFTGPU_NVML int nvmlDeviceGetFieldValues(void* device, int count, abi::FieldValue* values) {
    constexpr uint32_t k_links = 91, k_average = 185, k_instant = 186, k_least = 187, k_requested = 192, k_degrees = 308;
    uint32_t slot = 0;
    if (const int result = slot_of(device, slot); result != abi::k_success) return result;
    if (count < 0 || (count > 0 && values == nullptr)) return abi::k_invalid_argument;
    for (int i = 0; i < count; ++i) {
        uint32_t value = 0;
        const uint32_t field = values[i].field;
        values[i].result = abi::k_not_supported;
        if (field == k_average || field == k_instant) values[i].result = nvmlDeviceGetPowerUsage(device, &value);
        if (field == k_degrees) values[i].result = nvmlDeviceGetTemperature(device, 0, &value);
        constexpr uint32_t k_energy = 191;
        if (field >= k_least && field <= k_requested && field != k_energy)
            values[i].result = give_fixed(device, &value, k_full_power_mw);
        if (field == k_links) values[i].result = abi::k_success;
        values[i].type = abi::k_unsigned_int;
        values[i].value = value;
    }
    return abi::k_success;
}

/// The driver is there as long as the machine.
WL_SOFTGPU_NVML int nvmlDeviceGetPersistenceMode(void* device, uint32_t* out) { return give_fixed(device, out, 1u); }
WL_SOFTGPU_NVML int nvmlDeviceGetComputeMode(void* device, uint32_t* out) {
    constexpr uint32_t k_prohibited = 2, k_exclusive_process = 3;
    using Mode = driver::Profile::ComputeMode;
    const Mode mode = config().profile.compute_mode;
    return give_fixed(device, out, mode == Mode::shared ? 0u : mode == Mode::exclusive ? k_exclusive_process : k_prohibited);
}
/// NVML's number for the generation of GPUs with this compute capability.
WL_SOFTGPU_NVML int nvmlDeviceGetArchitecture(void* device, uint32_t* out) {
    constexpr uint32_t k_turing = 6, k_ampere = 7, k_ada = 8, k_hopper = 9, k_blackwell = 10;
    const uint32_t capability = config().compute_capability;
    uint32_t architecture = k_blackwell;
    if (capability < 100) architecture = k_hopper;
    if (capability < 90) architecture = k_ada;
    if (capability < 89) architecture = k_ampere;
    if (capability < 80) architecture = k_turing;
    return give_fixed(device, out, architecture);
}
WL_SOFTGPU_NVML int nvmlDeviceGetMultiGpuBoard(void* device, uint32_t* out) { return give_fixed(device, out, 0u); }
WL_SOFTGPU_NVML int nvmlDeviceGetBoardId(void* device, uint32_t* out) {
    uint32_t slot = 0;
    slot_of(device, slot);
    return give_fixed(device, out, (slot + 1) << 8);  // as NVIDIA's, made of the bus
}

/// Whether devices reach each other's memory; there is no NVLink.
WL_SOFTGPU_NVML int nvmlDeviceGetP2PStatus(void* device, void* other, uint32_t which, uint32_t* out) {
    constexpr uint32_t k_ok = 0, k_gpu_not_supported = 2, k_not_supported = 5;
    constexpr uint32_t k_read = 0, k_write = 1, k_nvlink = 2, k_pci = 4;
    uint32_t slot = 0;
    if (const int result = slot_of(other, slot); result != abi::k_success) return result;
    if (which > k_pci) return abi::k_invalid_argument;
    if (!config().profile.peers) return give_fixed(device, out, k_gpu_not_supported);
    if (which == k_nvlink) return give_fixed(device, out, k_not_supported);
    return give_fixed(device, out, which == k_read || which == k_write || which == k_pci ? k_ok : k_not_supported);
}
/// All are in the memory of one machine, which is as near as the same board.
WL_SOFTGPU_NVML int nvmlDeviceGetTopologyCommonAncestor(void* device, void* other, uint32_t* out) {
    constexpr uint32_t k_internal = 0, k_single_switch = 10;
    uint32_t slot = 0;
    if (const int result = slot_of(other, slot); result != abi::k_success) return result;
    return give_fixed(device, out, device == other ? k_internal : k_single_switch);
}
