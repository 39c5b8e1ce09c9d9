// Cases that a program would feel: calls of the driver interface, through whichever libcuda.so.1 the loader finds. Under
// `warpline run --local` that is the whole path to a server's worker; with SOFTGPU_EXECUTE=0 the software GPU's arithmetic is
// left out.

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <string>

#include "bench/case.h"
#include "bench/driver_error.h"

namespace warpline::bench {

namespace {

constexpr const char* k_ptx = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    ret;
}
)";

/// The driver, initialised once, with a context and a kernel of four parameters.
class Driver {
public:
    static Result<Driver*> instance() {
        static Driver driver;
        if (!driver.m_tried) {
            driver.m_tried = true;
            driver.m_ready = driver.start();
        }
        if (!driver.m_ready.ok()) return driver.m_ready.error();
        return &driver;
    }

    decltype(&::cuLaunchKernel) launch = nullptr;
    CUresult (*synchronize)() = nullptr;
    CUresult (*mem_alloc)(CUdeviceptr*, size_t) = nullptr;
    CUresult (*mem_free)(CUdeviceptr) = nullptr;
    CUresult (*to_device)(CUdeviceptr, const void*, size_t) = nullptr;
    CUresult (*to_host)(void*, CUdeviceptr, size_t) = nullptr;
    CUfunction kernel = nullptr;

private:
    template <typename F>
    bool find(F& function, const char* name) {
        function = reinterpret_cast<F>(dlsym(m_library, name));
        return function != nullptr;
    }

    Result<void> start() {
        m_library = dlopen("libcuda.so.1", RTLD_NOW);
        if (m_library == nullptr) return Error{Code::not_configured, "no libcuda.so.1: run this under `warpline run`"};
        CUresult (*init)(unsigned) = nullptr;
        CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
        CUresult (*set_current)(CUcontext) = nullptr;
        CUresult (*load)(CUmodule*, const void*) = nullptr;
        CUresult (*get)(CUfunction*, CUmodule, const char*) = nullptr;
        if (!find(init, "cuInit") || !find(retain, "cuDevicePrimaryCtxRetain") || !find(set_current, "cuCtxSetCurrent") ||
            !find(load, "cuModuleLoadData") || !find(get, "cuModuleGetFunction") || !find(launch, "cuLaunchKernel") ||
            !find(synchronize, "cuCtxSynchronize") || !find(mem_alloc, "cuMemAlloc_v2") || !find(mem_free, "cuMemFree_v2") ||
            !find(to_device, "cuMemcpyHtoD_v2") || !find(to_host, "cuMemcpyDtoH_v2"))
            return Error{Code::unsupported, "a function of the driver is missing"};
        CUcontext context;
        CUmodule module;
        if (init(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS || set_current(context) != CUDA_SUCCESS)
            return Error{Code::not_configured, "cuInit failed: is a server running?"};
        if (load(&module, k_ptx) != CUDA_SUCCESS || get(&kernel, module, "nothing") != CUDA_SUCCESS)
            return Error{Code::internal, "the kernel does not load"};
        return {};
    }

    void* m_library = nullptr;
    bool m_tried = false;
    Result<void> m_ready;
};

Metrics launch() {
    Driver* driver = WL_TRY(Driver::instance());
    constexpr int k_bursts = 40, k_burst = 500;
    std::vector<uint64_t> samples;
    samples.reserve(k_bursts * k_burst);
    uint64_t a = 1, b = 2, c = 3;
    uint32_t n = 4;
    void* arguments[] = {&a, &b, &c, &n};
    for (int burst = 0; burst < k_bursts; ++burst) {
        for (int i = 0; i < k_burst; ++i) {
            uint64_t began = now_ns();
            CUresult r = driver->launch(driver->kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
            samples.push_back(now_ns() - began);
            if (r != CUDA_SUCCESS) return refused("cuLaunchKernel", r);
        }
        if (CUresult r = driver->synchronize(); r != CUDA_SUCCESS) return refused("cuCtxSynchronize", r);
    }
    return distribution(samples, "ns", 1);
}

Metrics launch_rate() {
    Driver* driver = WL_TRY(Driver::instance());
    constexpr int k_launches = 20000;
    uint64_t a = 1, b = 2, c = 3;
    uint32_t n = 4;
    void* arguments[] = {&a, &b, &c, &n};
    uint64_t began = now_ns();
    for (int i = 0; i < k_launches; ++i)
        if (CUresult r = driver->launch(driver->kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr); r != CUDA_SUCCESS)
            return refused("cuLaunchKernel", r);
    if (CUresult r = driver->synchronize(); r != CUDA_SUCCESS) return refused("cuCtxSynchronize", r);
    double seconds = static_cast<double>(now_ns() - began) * 1e-9;
    return std::vector<Metric>{{"executed", k_launches / seconds, "launches/s"}};
}

Metrics synchronize() {
    Driver* driver = WL_TRY(Driver::instance());
    std::vector<uint64_t> samples;
    for (int i = 0; i < 2000; ++i) {
        uint64_t began = now_ns();
        CUresult r = driver->synchronize();
        samples.push_back(now_ns() - began);
        if (r != CUDA_SUCCESS) return refused("cuCtxSynchronize", r);
    }
    return distribution(samples, "us", 1e3);
}

Metrics small_copies(bool to_device) {
    Driver* driver = WL_TRY(Driver::instance());
    CUdeviceptr memory = 0;
    if (CUresult r = driver->mem_alloc(&memory, 256); r != CUDA_SUCCESS) return refused("cuMemAlloc", r);
    std::vector<uint64_t> samples;
    uint32_t value = 0;
    for (uint32_t i = 0; i < 2000; ++i) {
        uint32_t sent = i * 7919;
        uint64_t began = now_ns();
        CUresult r = driver->to_device(memory, &sent, sizeof(sent));
        uint64_t between = now_ns();
        CUresult back = driver->to_host(&value, memory, sizeof(value));
        uint64_t ended = now_ns();
        if (r != CUDA_SUCCESS || back != CUDA_SUCCESS) return refused("cuMemcpy", r != CUDA_SUCCESS ? r : back);
        if (value != sent) return Error{Code::internal, "what came back is not what was sent", i};
        samples.push_back(to_device ? between - began : ended - between);
    }
    (void)driver->mem_free(memory);
    return distribution(samples, "us", 1e3);
}

Metrics allocate() {
    Driver* driver = WL_TRY(Driver::instance());
    std::vector<uint64_t> samples;
    for (int i = 0; i < 1000; ++i) {
        CUdeviceptr memory = 0;
        uint64_t began = now_ns();
        CUresult r = driver->mem_alloc(&memory, 1 << 20);
        if (r == CUDA_SUCCESS) r = driver->mem_free(memory);
        samples.push_back(now_ns() - began);
        if (r != CUDA_SUCCESS) return refused("cuMemAlloc and cuMemFree", r);
        if (i % 100 == 99 && driver->synchronize() != CUDA_SUCCESS) return refused("cuCtxSynchronize", r);
    }
    return distribution(samples, "us", 1e3);
}

Metrics bulk(bool to_device) {
    Driver* driver = WL_TRY(Driver::instance());
    constexpr size_t k_bytes = size_t{256} << 20;
    std::vector<uint32_t> host(k_bytes / 4);
    uint32_t state = 1;
    for (auto& word : host) word = state = state * 1664525u + 1013904223u;
    CUdeviceptr memory = 0;
    if (CUresult r = driver->mem_alloc(&memory, k_bytes); r != CUDA_SUCCESS) return refused("cuMemAlloc", r);
    uint64_t began = now_ns();
    CUresult r = driver->to_device(memory, host.data(), k_bytes);
    if (r == CUDA_SUCCESS) r = driver->synchronize();
    uint64_t between = now_ns();
    std::vector<uint32_t> back(k_bytes / 4);
    uint64_t again = now_ns();
    if (r == CUDA_SUCCESS) r = driver->to_host(back.data(), memory, k_bytes);
    uint64_t ended = now_ns();
    (void)driver->mem_free(memory);
    if (r != CUDA_SUCCESS) return refused("cuMemcpy", r);
    if (back != host) return Error{Code::internal, "what came back is not what was sent"};
    double seconds = static_cast<double>(to_device ? between - began : ended - again) * 1e-9;
    return std::vector<Metric>{{"throughput", static_cast<double>(k_bytes) / seconds * 1e-9, "GB/s"}};
}

}  // namespace

std::vector<Case> driver_cases() {
    return {
        {"launch", "kernel launch of four parameters, as the program sees it", true, launch},
        {"launch_rate", "20,000 launches and one synchronisation", true, launch_rate},
        {"sync", "cuCtxSynchronize of an idle context: one round trip", true, synchronize},
        {"h2d_4b", "copy of 4 bytes from pageable memory to the device", true, [] { return small_copies(true); }},
        {"d2h_4b", "copy of 4 bytes from the device", true, [] { return small_copies(false); }},
        {"alloc_1m", "cuMemAlloc and cuMemFree of one mebibyte", true, allocate},
        {"h2d_256m", "copy of 256 MiB of random bytes to the device", true, [] { return bulk(true); }},
        {"d2h_256m", "copy of 256 MiB of random bytes from the device", true, [] { return bulk(false); }},
    };
}

}  // namespace warpline::bench
