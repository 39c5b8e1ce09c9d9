// Reads the environment.
#include "softgpu/driver/config/config.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "common/log/log.h"
#include "softgpu/check/options.h"
#include "softgpu/driver/config/words.h"

namespace warpline::softgpu::driver {

namespace {

constexpr uint64_t k_unknown_host_memory_bytes = uint64_t{4} << 30;
constexpr uint64_t k_least_memory_bytes = uint64_t{64} << 20;
constexpr uint32_t k_most_devices = 16;

std::string_view variable(const char* name) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::string_view(text) : std::string_view();
}

void complain(const char* name, std::string_view text, const char* wanted) {
    WL_LOG(warn, "softgpu", "{}={} ignored: {} expected", name, text, wanted);
}

uint64_t number(const char* name, uint64_t fallback, uint64_t least, uint64_t most) {
    std::string_view text = variable(name), rest;
    if (text.empty()) return fallback;
    auto value = parse_number(text, rest);
    if (!value || !rest.empty() || *value < least || *value > most) {
        complain(name, text, "a whole number in its range");
        return fallback;
    }
    return *value;
}

uint64_t bytes(const char* name, uint64_t fallback) {
    std::string_view text = variable(name);
    if (text.empty()) return fallback;
    auto value = parse_size(text);
    if (!value) complain(name, text, "a size such as 512MiB or 2GiB");
    return value.value_or(fallback);
}

uint32_t compute_capability(uint32_t fallback) {
    std::string_view text = variable("SOFTGPU_COMPUTE_CAPABILITY"), rest;
    if (text.empty()) return fallback;
    auto major = parse_number(text, rest);
    uint64_t value = 0;
    if (major && rest.starts_with('.')) {
        std::string_view end;
        auto minor = parse_number(rest.substr(1), end);
        if (minor && end.empty() && *minor < 10) value = *major * 10 + *minor;
    } else if (major && rest.empty()) {
        value = *major;
    }
    if (value < 75 || value > 121) {
        complain("SOFTGPU_COMPUTE_CAPABILITY", text, "7.5 to 12.1");
        return fallback;
    }
    return static_cast<uint32_t>(value);
}

uint64_t host_memory_bytes() {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0) return k_unknown_host_memory_bytes;
    return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
}

}  // namespace

uint32_t host_cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
    return std::max(1, CPU_COUNT(&set));
}

bool read_execute() { return variable("SOFTGPU_EXECUTE") != "0"; }

Config read_config() {
    Config config;
    config.devices = static_cast<uint32_t>(number("SOFTGPU_DEVICES", 1, 1, k_most_devices));
    config.compute_capability = compute_capability(config.compute_capability);
    uint64_t host_bytes = host_memory_bytes();
    uint64_t wanted = bytes("SOFTGPU_MEMORY", host_bytes / 2);
    config.memory_bytes = std::clamp(wanted, k_least_memory_bytes, std::max(k_least_memory_bytes, host_bytes));
    if (config.memory_bytes < wanted) {
        WL_LOG(warn, "softgpu", "SOFTGPU_MEMORY bounded by the machine's memory: {} MiB", config.memory_bytes >> 20);
    }
    config.memory_bytes &= ~((uint64_t{2} << 20) - 1);
    config.workers = static_cast<uint32_t>(number("SOFTGPU_WORKERS", 0, 0, 1024));
    config.watchdog_ms = number("SOFTGPU_WATCHDOG_MS", 0, 0, uint64_t{1} << 40);
    config.execute = read_execute();
    const check::ParsedChecks parsed = check::parse_checks(variable("SOFTGPU_CHECK"));
    config.checks = parsed.checks;
    config.unknown_check = parsed.unknown;
    config.exact_bounds = (config.checks & check::check_memory) != 0;
    if (!parse_profile(variable("SOFTGPU_PROFILE"), config.profile, config.profile_mistake)) config.profile = Profile();
    config.schedule_seed = number("SOFTGPU_SCHEDULE_SEED", 0, 0, UINT64_MAX);
    return config;
}

}  // namespace warpline::softgpu::driver

/// For gpu-server, which tells its clients: whether images that have machine code for the device are taken for it, as by a GPU.
extern "C" __attribute__((visibility("default"), used)) int warpline_softgpu_takes_machine_code() {
    return warpline::softgpu::driver::read_execute() ? 0 : 1;
}
