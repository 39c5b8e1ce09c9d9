// Loading NVML, and how busy the devices are.
#include "server/driver/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/log/log.h"
#include "cuda/abi/visible_devices.h"
#include "cuda/nvml/questions.h"
#include "cuda/nvml/types.h"

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
std::vector<std::string> nvml_places(const std::string& choice, const ReadyMessage& offer) {
    if (choice != "auto") return {choice};
    std::vector<std::string> places;
    const auto folder = std::filesystem::path(get_text(offer.driver_path)).parent_path();
    if (!folder.empty()) places.push_back((folder / k_library).string());
    // NVIDIA's knows nothing of a software GPU, but perhaps of a GPU on the same bus.
    if (offer.software == 0) places.emplace_back(k_library);
    return places;
}

std::string name_of(const DeviceRow& device) {
    CUuuid uuid;
    std::memcpy(uuid.bytes, device.uuid, sizeof uuid.bytes);
    return cuda::abi::device_name_of(uuid, get_text(device.name));
}

/// As old libraries say of the names of parts, too.
bool is_unknown(int result) { return result == cuda::nvml::k_not_found || result == cuda::nvml::k_invalid_argument; }

}  // namespace

/// With the types of nvml.h, which toolkits have in a package of its own.
struct Nvml::Functions {
    using Return = int;
    using Device = struct nvmlDevice_st*;
    using Utilization = cuda::nvml::Utilization;
    using Memory = cuda::nvml::Memory;

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

Nvml::Nvml(void* library, std::unique_ptr<Functions> functions) : m_library(library), m_functions(std::move(functions)) {
    for (const auto& question : cuda::nvml::questions()) m_questions.push_back(dlsym(library, question.function));
}

Nvml::~Nvml() { m_functions->shutdown(); }

std::unique_ptr<Nvml> Nvml::load(const std::string& choice, const ReadyMessage& offer, std::string& problem) {
    void* library = nullptr;
    for (const std::string& place : nvml_places(choice, offer)) {
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
        return std::unique_ptr<Nvml>(new Nvml(library, std::move(functions)));
    }
    dlclose(library);
    return nullptr;
}

Nvml::Found Nvml::find(const DeviceRow& device) const {
    const std::string name = name_of(device);
    Functions::Device found = nullptr;
    const int by_uuid = m_functions->by_uuid(name.c_str(), &found);
    if (by_uuid == k_nvml_success) return {found, by_uuid};
    // A part of a GPU has the bus of the whole, whose figures are others.
    if (name.starts_with("MIG-")) return {nullptr, by_uuid};
    // Also where a GPU is lost: looking for a UUID says so of whichever one is.
    const int by_bus = m_functions->by_bus(get_text(device.pci_bus_id).c_str(), &found);
    if (by_bus == k_nvml_success) return {found, by_bus};
    return {nullptr, is_unknown(by_bus) ? by_uuid : by_bus};
}

SheetMessage Nvml::sheet(const ReadyMessage& offer, uint32_t index) {
    SheetMessage message{};
    message.device = index;
    const auto [device, found] = find(offer.devices[index]);
    if (device == nullptr && is_unknown(found)) return message;
    cuda::nvml::SheetWriter sheet;
    Kept& kept = m_kept[name_of(offer.devices[index])];
    const auto questions = cuda::nvml::questions();
    for (size_t i = 0; i < questions.size(); ++i) {
        const bool of_system = questions[i].kind == cuda::nvml::QuestionKind::system;
        if (questions[i].kind == cuda::nvml::QuestionKind::pair || (of_system && index != 0)) continue;
        const bool can_be_asked = device != nullptr || of_system;
        const auto [result, value] = can_be_asked ? ask_once(i, device, kept) : std::pair(found, Bytes{});
        sheet.add(questions[i].id, result, value);
    }
    if (device != nullptr) {
        add_fields(device, sheet);
        add_pairs(offer, device, sheet);
        add_processes(device, message);
    } else {
        add_refusals(offer, found, sheet);
    }
    message.bytes = sheet.bytes().size();
    std::memcpy(message.answers, sheet.bytes().data(), sheet.bytes().size());
    return message;
}

DeviceFigures Nvml::read(const DeviceRow& device) const {
    DeviceFigures figures{};
    figures.utilisation_percent = -1;
    auto* found = static_cast<Functions::Device>(find(device).device);
    if (found == nullptr) return figures;
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
