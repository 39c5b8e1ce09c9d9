// Which driver to take where the administrator leaves the choice.
#include "server/driver/find_driver.h"

#include <filesystem>
#include <system_error>

#include "common/log/log.h"

namespace warpline::server {

namespace {

constexpr const char* k_nvidia = "libcuda.so.1";

int device_count(const Driver& driver) {
    int count = 0;
    return driver->cuDeviceGetCount(&count) == CUDA_SUCCESS ? count : 0;
}

}  // namespace

std::string software_driver_path() {
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) return "libsoftgpu.so";
    return (program.parent_path().parent_path() / "lib" / "libsoftgpu.so").lexically_normal().string();
}

std::unique_ptr<Driver> find_driver(const std::string& choice, std::string& problem) {
    if (choice == "nvidia") return Driver::load(k_nvidia, problem);
    if (choice == "software") return Driver::load(software_driver_path(), problem);
    if (choice != "auto") return Driver::load(choice, problem);
    std::string nvidia_problem;
    auto nvidia = Driver::load(k_nvidia, nvidia_problem);
    if (nvidia != nullptr && device_count(*nvidia) > 0) return nvidia;
    WL_LOG(debug, "driver", "no NVIDIA GPU: {}", nvidia != nullptr ? "its driver finds no device" : nvidia_problem);
    std::string software_problem;
    auto software = Driver::load(software_driver_path(), software_problem);
    if (software == nullptr) {
        problem = log::format("no CUDA driver: {}; {}", nvidia != nullptr ? "NVIDIA's finds no device" : nvidia_problem,
                              software_problem);
    }
    return software;
}

}  // namespace warpline::server
