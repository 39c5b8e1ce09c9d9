// Turns variables of an environment into bits, and back.
#include "cuda/abi/driver_settings.h"

#include <charconv>
#include <cstring>
#include <span>

namespace warpline::cuda::abi {

namespace {

/// A variable and the values that change something, with the bits that stand for each.
struct Value {
    const char* text;
    DriverSettings bits;
};
struct Variable {
    const char* name;
    DriverSettings mask;
    std::span<const Value> values;
};

constexpr Value k_eager[] = {{"EAGER", k_eager_loading}};
constexpr Value k_disable_ptx_jit[] = {{"1", k_no_ptx_jit}};
constexpr Value k_disable_jit[] = {{"1", k_no_jit}};
constexpr Value k_force_ptx[] = {{"1", k_force_ptx_jit}};
constexpr Value k_force[] = {{"1", k_force_jit}};
constexpr Value k_no_cache[] = {{"1", 1u << 5}};
constexpr Value k_managed_on_device[] = {{"1", 1u << 6}};
constexpr Value k_by_bus[] = {{"PCI_BUS_ID", k_order_by_bus}};
constexpr Value k_queue_sizes[] = {{"0.25x", 1u << 16}, {"0.5x", 2u << 16}, {"2x", 3u << 16}, {"4x", 4u << 16}};
constexpr Variable k_variables[] = {
    {"CUDA_MODULE_LOADING", k_eager_loading, k_eager},
    {"CUDA_DISABLE_PTX_JIT", k_no_ptx_jit, k_disable_ptx_jit},
    {"CUDA_DISABLE_JIT", k_no_jit, k_disable_jit},
    {"CUDA_FORCE_PTX_JIT", k_force_ptx_jit, k_force_ptx},
    {"CUDA_FORCE_JIT", k_force_jit, k_force},
    {"CUDA_CACHE_DISABLE", 1u << 5, k_no_cache},
    {"CUDA_MANAGED_FORCE_DEVICE_ALLOC", 1u << 6, k_managed_on_device},
    {"CUDA_DEVICE_ORDER", k_order_by_bus, k_by_bus},
    {"CUDA_SCALE_LAUNCH_QUEUES", 7u << 16, k_queue_sizes},
};

constexpr const char* k_connections = "CUDA_DEVICE_MAX_CONNECTIONS";
constexpr unsigned k_connections_shift = 8;
constexpr DriverSettings k_connections_mask = 63u << k_connections_shift;
constexpr unsigned k_most_connections = 32;

}  // namespace

DriverSettings read_driver_settings(const std::function<const char*(const char*)>& variable) {
    DriverSettings settings = 0;
    for (const Variable& known : k_variables) {
        const char* text = variable(known.name);
        if (text == nullptr) continue;
        for (const Value& value : known.values) {
            if (std::strcmp(text, value.text) == 0) settings |= value.bits;
        }
    }
    if (const char* text = variable(k_connections)) {
        unsigned count = 0;
        const char* end = text + std::strlen(text);
        if (std::from_chars(text, end, count).ptr == end && count >= 1 && count <= k_most_connections)
            settings |= DriverSettings{count} << k_connections_shift;
    }
    return settings;
}

bool are_driver_settings(DriverSettings settings) {
    for (const Variable& known : k_variables) {
        const DriverSettings bits = settings & known.mask;
        bool found = bits == 0;
        for (const Value& value : known.values) found |= bits == value.bits;
        if (!found) return false;
        settings &= ~known.mask;
    }
    return (settings & ~k_connections_mask) == 0 && settings >> k_connections_shift <= k_most_connections;
}

std::vector<std::pair<std::string, std::string>> variables_of(DriverSettings settings) {
    std::vector<std::pair<std::string, std::string>> variables;
    for (const Variable& known : k_variables) {
        for (const Value& value : known.values) {
            if ((settings & known.mask) == value.bits) variables.emplace_back(known.name, value.text);
        }
    }
    if (const DriverSettings count = (settings & k_connections_mask) >> k_connections_shift; count != 0)
        variables.emplace_back(k_connections, std::to_string(count));
    return variables;
}

}  // namespace warpline::cuda::abi
