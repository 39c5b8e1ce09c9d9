// Reads SOFTGPU_DRIVER_VERSION, and refuses what is newer.
#include "softgpu/driver/config/version.h"

#include <charconv>
#include <cstdlib>

#include "common/log/log.h"
#include "cuda/abi/symbols/symbols.h"

namespace warpline::softgpu::driver {

namespace {

constexpr int k_oldest = 11000;
constexpr int k_newest = cuda::abi::k_newest_version;

std::optional<int> number(std::string_view digits) {
    int value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
    return value;
}

}  // namespace

std::optional<int> parse_driver_version(std::string_view text) {
    std::optional<int> version;
    if (const size_t point = text.find('.'); point != std::string_view::npos) {
        const std::optional<int> major = number(text.substr(0, point));
        const std::optional<int> minor = number(text.substr(point + 1));
        constexpr int k_most = 99;
        if (major && minor && *major <= k_most && *minor <= k_most) version = *major * 1000 + *minor * 10;
    } else {
        version = number(text);
    }
    return version && *version >= k_oldest && *version <= k_newest ? version : std::nullopt;
}

int driver_version() noexcept {
    static const int s_version = [] {
        const char* text = std::getenv("SOFTGPU_DRIVER_VERSION");
        if (text == nullptr || *text == 0) return k_newest;
        const std::optional<int> version = parse_driver_version(text);
        if (version) return *version;
        WL_LOG(warn, "softgpu",
               "SOFTGPU_DRIVER_VERSION={} ignored: a version from {}.{} to {}.{} expected, such as 12.4 or 12040", text,
               k_oldest / 1000, k_oldest % 1000 / 10, k_newest / 1000, k_newest % 1000 / 10);
        return k_newest;
    }();
    return s_version;
}

CUresult refuse_newer(const char* call, int since) noexcept {
    try {
        WL_LOG(warn, "softgpu", "{} is not supported: it came with CUDA {}.{}, and SOFTGPU_DRIVER_VERSION is {}.{}", call,
               since / 1000, since % 1000 / 10, driver_version() / 1000, driver_version() % 1000 / 10);
    } catch (...) {  // out of memory while logging: the result says enough
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace warpline::softgpu::driver
