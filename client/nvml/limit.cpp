// Finding the limit, and fitting NVML's figures into it.
#include "client/nvml/limit.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "common/base/scope_guard.h"
#include "common/config/settings.h"

namespace warpline::client::nvml {

namespace {

/// Of nvmlDeviceGetMemoryInfo and its second version (cuda/nvml/calls.yaml).
constexpr uint16_t k_memory_info = 101, k_memory_info_v2 = 102;

struct MemoryInfo {
    uint64_t total, free, used;
};
struct MemoryInfoV2 {
    uint32_t version;
    uint32_t padding;
    uint64_t total, reserved, free, used;
};

/// What the program's session says that the device has, which is the smaller of its limit and the server's; 0: there is no
/// session. Our libcuda.so.1 begins none for being asked.
uint64_t total_of_session(const Known& device) {
    constexpr int k_most_devices = 64;
    using Uuid = std::array<uint8_t, 16>;
    void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return 0;
    const ScopeGuard closed([library] { ::dlclose(library); });
    const auto uuid_of = reinterpret_cast<int (*)(Uuid*, int)>(::dlsym(library, "cuDeviceGetUuid_v2"));
    const auto total_of = reinterpret_cast<int (*)(size_t*, int)>(::dlsym(library, "cuDeviceTotalMem_v2"));
    const bool is_ours = ::dlsym(library, "warpline_client_marker") != nullptr;
    if (!is_ours || uuid_of == nullptr || total_of == nullptr) return 0;
    Uuid uuid{};
    for (int i = 0; i < k_most_devices && uuid_of(&uuid, i) == 0; ++i) {
        size_t total = 0;
        if (uuid == device.sheet().uuid && total_of(&total, i) == 0) return total;
    }
    return 0;
}

/// What a session of this program would be held to, as far as that is known here.
uint64_t limit_of_settings() {
    static const uint64_t limit = [] {
        std::string problem;
        return config::load_client(problem).bytes("memory");
    }();
    return limit;
}

/// 0 also where NVML does not say: taken as a number, that would be all of the device.
uint64_t bytes_of_this_process(const Known& device) noexcept {
    char name[256] = {};
    if (::gethostname(name, sizeof name - 1) != 0) return 0;
    const auto pid = static_cast<uint32_t>(::getpid());
    for (const auto& process : device.sheet().processes)
        if (process.pid == pid && process.host == std::string_view(name))
            return process.bytes != cuda::nvml::k_memory_not_known ? process.bytes : 0;
    return 0;
}

/// 0: as much as there is.
uint64_t limit_of(const Known& device) {
    const uint64_t total = total_of_session(device);
    if (total != 0) return total < device.sheet().total_bytes ? total : 0;
    return limit_of_settings();
}

}  // namespace

int show_limit(const Known& device, uint16_t question, void* output) noexcept {
    if (question != k_memory_info && question != k_memory_info_v2) return cuda::nvml::k_success;
    uint64_t limit = 0;
    try {
        limit = limit_of(device);
    } catch (...) {
        return cuda::nvml::k_memory;
    }
    if (limit == 0) return cuda::nvml::k_success;
    const uint64_t own = bytes_of_this_process(device);
    const auto fit = [&](auto& info) {
        info.total = std::min(info.total, limit);
        info.used = std::min(own, info.total);
        info.free = std::min(info.free, info.total - info.used);
    };
    if (question == k_memory_info) {
        MemoryInfo info;
        std::memcpy(&info, output, sizeof info);
        fit(info);
        info.used = info.total - info.free;  // what nobody can have is used, in this version
        std::memcpy(output, &info, sizeof info);
        return cuda::nvml::k_success;
    }
    MemoryInfoV2 info;
    std::memcpy(&info, output, sizeof info);
    fit(info);
    info.reserved = info.total - info.free - info.used;
    std::memcpy(output, &info, sizeof info);
    return cuda::nvml::k_success;
}

}  // namespace warpline::client::nvml
