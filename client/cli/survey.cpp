// What a program would see of a server, found out by being one.
#include "client/cli/survey.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "client/cli/paths.h"
#include "common/config/settings.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::cli {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point began, double per_second) {
    return std::chrono::duration<double>(Clock::now() - began).count() * per_second;
}

template <typename F>
bool find(void* library, F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(library, name));
    return function != nullptr;
}

/// The few calls of the driver that a survey needs.
struct Driver {
    CUresult (*init)(unsigned) = nullptr;
    CUresult (*version)(int*) = nullptr;
    CUresult (*count)(int*) = nullptr;
    CUresult (*name)(char*, int, CUdevice) = nullptr;
    CUresult (*attribute)(int*, CUdevice_attribute, CUdevice) = nullptr;
    CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
    CUresult (*set_current)(CUcontext) = nullptr;
    CUresult (*memory)(size_t*, size_t*) = nullptr;
    CUresult (*synchronize)() = nullptr;

    bool load() {
        void* library = ::dlopen((client_library_folder() + "/libcuda.so.1").c_str(), RTLD_NOW);
        return library && find(library, init, "cuInit") && find(library, version, "cuDriverGetVersion") &&
               find(library, count, "cuDeviceGetCount") && find(library, name, "cuDeviceGetName") &&
               find(library, attribute, "cuDeviceGetAttribute") && find(library, retain, "cuDevicePrimaryCtxRetain") &&
               find(library, set_current, "cuCtxSetCurrent") && find(library, memory, "cuMemGetInfo_v2") &&
               find(library, synchronize, "cuCtxSynchronize");
    }
};

nlohmann::json visit_device(const Driver& driver, int ordinal) {
    char name[256] = "";
    int major = 0, minor = 0, processors = 0;
    size_t free_bytes = 0, total_bytes = 0;
    CUcontext context = nullptr;
    driver.name(name, sizeof(name), ordinal);
    driver.attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal);
    driver.attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal);
    driver.attribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal);
    if (driver.retain(&context, ordinal) == CUDA_SUCCESS && driver.set_current(context) == CUDA_SUCCESS)
        driver.memory(&free_bytes, &total_bytes);
    return {{"name", name},       {"major", major},      {"minor", minor}, {"processors", processors},
            {"free", free_bytes}, {"total", total_bytes}};
}

/// In the child: visits, and says what it found.
nlohmann::json visit(int round_trips) {
    Driver driver;
    if (!driver.load()) return {{"error", static_cast<int>(CUDA_ERROR_NOT_FOUND)}};
    auto began = Clock::now();
    if (CUresult r = driver.init(0); r != CUDA_SUCCESS) return {{"error", static_cast<int>(r)}};
    nlohmann::json found = {{"error", 0}, {"connect_ms", since(began, 1e3)}, {"devices", nlohmann::json::array()}};
    int version = 0, count = 0;
    driver.version(&version);
    driver.count(&count);
    found["driver_version"] = version;
    for (int i = 0; i < count; ++i) found["devices"].push_back(visit_device(driver, i));
    auto trips = nlohmann::json::array();
    for (int i = -1; i < round_trips; ++i) {  // the first one is not counted: it wakes the worker's thread
        began = Clock::now();
        if (CUresult r = driver.synchronize(); r != CUDA_SUCCESS) return {{"error", static_cast<int>(r)}};
        if (i >= 0) trips.push_back(since(began, 1e6));
    }
    found["round_trips_us"] = trips;
    return found;
}

std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    for (;;) {
        ssize_t n = ::read(fd, buffer, sizeof(buffer));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return text;
        text.append(buffer, static_cast<size_t>(n));
    }
}

}  // namespace

Survey survey(const std::string& server, int round_trips) {
    Survey result;
    result.server = server;
    int pipe_ends[2];
    if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return result;
    std::fflush(nullptr);
    pid_t child = ::fork();
    if (child == 0) {
        ::setenv("WARPLINE_SERVERS", server.c_str(), 1);
        ::unsetenv("WARPLINE_STATS");
        std::string text = visit(round_trips).dump();
        bool written = ::write(pipe_ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
        ::close(pipe_ends[1]);
        std::exit(written ? 0 : 1);
    }
    ::close(pipe_ends[1]);
    auto found = nlohmann::json::parse(read_all(pipe_ends[0]), nullptr, false);
    ::close(pipe_ends[0]);
    if (child > 0) ::waitpid(child, nullptr, 0);
    if (found.is_discarded()) return result;
    result.cuda_error = found["error"];
    if (result.cuda_error != 0) return result;
    result.reached = true;
    result.driver_version = found["driver_version"];
    result.connect_ms = found["connect_ms"];
    for (const auto& d : found["devices"])
        result.devices.push_back({d["name"], d["total"], d["free"], d["major"], d["minor"], d["processors"]});
    result.round_trips_us = found["round_trips_us"].get<std::vector<double>>();
    return result;
}

std::vector<std::string> servers_to_visit(const std::vector<std::string>& given) {
    if (!given.empty()) return given;
    std::string problem;
    auto servers = config::load_client(problem).text_list("servers");
    if (!problem.empty()) std::fprintf(stderr, "warpline: %s\n", problem.c_str());
    if (servers.empty())
        std::fprintf(stderr, "warpline: no server is named: set WARPLINE_SERVERS=HOST:PORT, or give one with --server\n");
    return servers;
}

}  // namespace warpline::cli
