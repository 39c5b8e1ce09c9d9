// Loading NVML, and the few functions of it that are called.
#include "server/driver/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/log/log.h"
#include "cuda/abi/visible_devices.h"

namespace warpline::server {

namespace {

constexpr const char* k_library = "libnvidia-ml.so.1";

constexpr int k_nvml_success = 0;

template <typename F>
bool find_symbol(void* library, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
}

/// Where it is looked for, in that order.
std::vector<std::string> nvml_places(const std::string& choice, const std::string& driver_path) {
    if (choice != "auto") return {choice};
    std::vector<std::string> places;
    const auto folder = std::filesystem::path(driver_path).parent_path();
    if (!folder.empty()) places.push_back((folder / k_library).string());
    places.emplace_back(k_library);
    return places;
}

}  // namespace

/// With the types of nvml.h, which toolkits have in a package of its own.
struct Nvml::Functions {
    using Return = int;
    using Device = struct nvmlDevice_st*;
    struct Utilization {
        unsigned gpu, memory;  ///< percent of the time in which a kernel ran, or memory was accessed
    };
    struct Memory {
        unsigned long long total, free, used;  ///< bytes
    };

    Return (*init)() = nullptr;
    Return (*shutdown)() = nullptr;
    const char* (*error_text)(Return) = nullptr;
    Return (*by_uuid)(const char*, Device*) = nullptr;
    Return (*by_bus)(const char*, Device*) = nullptr;
    Return (*utilization)(Device, Utilization*) = nullptr;
    Return (*memory)(Device, Memory*) = nullptr;

    bool resolve(void* library) {
        return find_symbol(library, init, "nvmlInit_v2") && find_symbol(library, shutdown, "nvmlShutdown") &&
               find_symbol(library, error_text, "nvmlErrorString") &&
               find_symbol(library, by_uuid, "nvmlDeviceGetHandleByUUID") &&
               find_symbol(library, by_bus, "nvmlDeviceGetHandleByPciBusId_v2") &&
               find_symbol(library, utilization, "nvmlDeviceGetUtilizationRates") &&
               find_symbol(library, memory, "nvmlDeviceGetMemoryInfo");
    }
};

Nvml::Nvml(std::unique_ptr<Functions> functions) : m_functions(std::move(functions)) {}

Nvml::~Nvml() { m_functions->shutdown(); }

std::unique_ptr<Nvml> Nvml::load(const std::string& choice, const std::string& driver_path, std::string& problem) {
    void* library = nullptr;
    for (const std::string& place : nvml_places(choice, driver_path)) {
        library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library != nullptr) break;
        const char* why = dlerror();
        problem = log::format("NVML cannot be loaded: {}", why != nullptr ? why : place.c_str());
    }
    if (library == nullptr) return nullptr;
    auto functions = std::make_unique<Functions>();
    int result = k_nvml_success;
    if (!functions->resolve(library)) {
        problem = "what is loaded as NVML lacks its functions";
    } else if (result = functions->init(); result != k_nvml_success) {
        problem = log::format("NVML cannot be initialised: {}", functions->error_text(result));
    } else {
        return std::unique_ptr<Nvml>(new Nvml(std::move(functions)));
    }
    dlclose(library);
    return nullptr;
}

DeviceFigures Nvml::read(const DeviceRow& device) const {
    DeviceFigures figures{};
    figures.utilisation_percent = -1;
    CUuuid uuid;
    std::memcpy(uuid.bytes, device.uuid, sizeof uuid.bytes);
    const std::string name = cuda::abi::device_name_of(uuid, get_text(device.name));
    Functions::Device found = nullptr;
    // A part of a GPU has the bus of the whole, whose figures are others.
    const bool is_part = name.starts_with("MIG-");
    if (m_functions->by_uuid(name.c_str(), &found) != k_nvml_success &&
        (is_part || m_functions->by_bus(get_text(device.pci_bus_id).c_str(), &found) != k_nvml_success)) {
        return figures;
    }
    Functions::Utilization utilization{};
    if (m_functions->utilization(found, &utilization) == k_nvml_success)
        figures.utilisation_percent = static_cast<int32_t>(std::min(utilization.gpu, 100u));
    Functions::Memory memory{};
    if (m_functions->memory(found, &memory) == k_nvml_success) {
        figures.total_bytes = memory.total;
        figures.free_bytes = memory.free;
    }
    return figures;
}

}  // namespace warpline::server
