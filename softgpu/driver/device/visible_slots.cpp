// Which of the machine's devices a process sees.
#include "softgpu/driver/device/visible_slots.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "cuda/abi/visible_devices.h"

namespace warpline::softgpu::driver {

namespace {

/// A number for this machine, so that devices of two machines have different UUIDs.
uint64_t machine_number() {
    std::ifstream file("/etc/machine-id");
    std::string text;
    std::getline(file, text);
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (char letter : text) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001b3;
    return hash;
}

}  // namespace

CUuuid uuid_of_slot(uint32_t slot, bool mig) {
    CUuuid uuid{};
    std::memcpy(uuid.bytes, mig ? "WLMI" : "WLSG", 4);
    uint64_t machine = machine_number();
    std::memcpy(uuid.bytes + 4, &machine, sizeof(machine));
    uuid.bytes[15] = static_cast<char>(slot);
    return uuid;
}

std::string pci_bus_id_of_slot(uint32_t slot) {
    char text[32];
    std::snprintf(text, sizeof(text), "%04x:%02x:%02x.0", 0, slot + 1, 0);
    return text;
}

namespace {

std::vector<uint32_t> read_visible_slots(const Config& config) {
    std::vector<uint32_t> slots;
    std::vector<std::string> names;
    for (uint32_t slot = 0; slot < config.devices; ++slot) {
        slots.push_back(slot);
        names.push_back(cuda::abi::device_name_of(uuid_of_slot(slot, config.profile.mig), config.profile.mig ? " MIG " : ""));
    }
    const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
    if (text == nullptr) return slots;
    std::vector<uint32_t> visible;
    for (const size_t index : cuda::abi::visible_devices(text, names)) visible.push_back(slots[index]);
    return visible;
}

}  // namespace

const std::vector<uint32_t>& visible_slots(const Config& config) {
    static const std::vector<uint32_t> slots = read_visible_slots(config);
    return slots;
}

}  // namespace warpline::softgpu::driver
