// Cases that a program would feel: calls of the driver interface, through whichever libcuda.so.1 the loader finds. Under
// `warpline run --local` that is the whole path to a server's worker; with SOFTGPU_EXECUTE=0 the software GPU's arithmetic is
// left out.

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bench/case.h"
#include "bench/driver.h"
#include "bench/transport.h"

namespace warpline::bench {

namespace {

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

/// What a call costs on average while many are made in a row, and until the device has all of them.
template <typename Call>
Result<std::array<double, 2>> storm(Driver& driver, int calls, const char* name, const Call& call) {
    const uint64_t began = now_ns();
    for (int i = 0; i < calls; ++i)
        if (CUresult r = call(i); r != CUDA_SUCCESS) return refused(name, r);
    const uint64_t made = now_ns();
    if (CUresult r = driver.synchronize(); r != CUDA_SUCCESS) return refused("cuCtxSynchronize", r);
    const uint64_t ended = now_ns();
    return std::array<double, 2>{static_cast<double>(made - began) / calls, static_cast<double>(ended - began) / calls};
}

/// With a parameter that is another one each time.
Metrics launch_storm() {
    Driver* driver = WL_TRY(Driver::instance());
    uint64_t a = 1, b = 2, c = 3;
    uint32_t n = 4;
    void* arguments[] = {&a, &b, &c, &n};
    const auto call = [&](int i) {
        n = static_cast<uint32_t>(i);
        return driver->launch(driver->kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
    };
    std::vector<Metric> metrics;
    for (const auto& [calls, title] : {std::pair{20'000, "20k"}, std::pair{1'000'000, "1m"}}) {
        const auto costs = WL_TRY(storm(*driver, calls, "cuLaunchKernel", call));
        metrics.push_back({std::string(title) + "_mean", costs[0], "ns"});
        metrics.push_back({std::string(title) + "_executed", costs[1], "ns"});
    }
    return metrics;
}

Metrics copy_storm() {
    Driver* driver = WL_TRY(Driver::instance());
    constexpr int k_words = 1024, k_calls = 20 * k_words;
    CUdeviceptr memory = 0;
    if (CUresult r = driver->mem_alloc(&memory, k_words * sizeof(int)); r != CUDA_SUCCESS) return refused("cuMemAlloc", r);
    const auto costs = WL_TRY(storm(*driver, k_calls, "cuMemcpyHtoD", [&](int i) {
        return driver->to_device(memory + static_cast<size_t>(i % k_words) * sizeof i, &i, sizeof i);
    }));
    std::vector<int> words(k_words);
    if (CUresult r = driver->to_host(words.data(), memory, k_words * sizeof(int)); r != CUDA_SUCCESS)
        return refused("cuMemcpyDtoH", r);
    for (int i = 0; i < k_words; ++i)
        if (words[static_cast<size_t>(i)] != k_calls - k_words + i)
            return Error{Code::internal, "what came back is not what was sent", static_cast<uint32_t>(i)};
    (void)driver->mem_free(memory);
    return std::vector<Metric>{{"mean", costs[0], "ns"}, {"executed", costs[1], "ns"}};
}

Metrics synchronize() {
    Driver* driver = WL_TRY(Driver::instance());
    CUdeviceptr memory = 0;
    if (CUresult r = driver->mem_alloc(&memory, 256); r != CUDA_SUCCESS) return refused("cuMemAlloc", r);
    std::vector<uint64_t> samples;
    for (uint32_t i = 0; i < 2000; ++i) {
        // Where nothing was asked of the device, nothing is waited for.
        if (CUresult r = driver->to_device(memory, &i, sizeof i); r != CUDA_SUCCESS) return refused("cuMemcpyHtoD", r);
        uint64_t began = now_ns();
        CUresult r = driver->synchronize();
        samples.push_back(now_ns() - began);
        if (r != CUDA_SUCCESS) return refused("cuCtxSynchronize", r);
    }
    (void)driver->mem_free(memory);
    auto metrics = distribution(samples, "us", 1e3);
    // What two threads need at least, where a round trip leaves this process at all and stays on this machine.
    auto pings = WL_TRY(round_trips(Wiring::unix_socket, 2000));
    const double ping_us = quantile(pings, 0.5) / 1e3;
    metrics.push_back({"unix_pingpong", ping_us, "us"});
    metrics.push_back({"of_unix", metrics.front().value / ping_us, "ratio"});
    return metrics;
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

}  // namespace

std::vector<Case> driver_cases() {
    return {
        {"launch", "kernel launch of four parameters, as the program sees it", true, launch},
        {"launch_rate", "20,000 launches and one synchronisation", true, launch_rate},
        {"sync", "cuCtxSynchronize behind a copy of four bytes: one round trip, beside a ping-pong over a Unix socket", true,
         synchronize},
        {"launch_storm", "20,000 and 1,000,000 launches in a row: the mean of a call, and until all are executed", true,
         launch_storm},
        {"h2d_storm", "copies of 4 bytes to the device in a row, to 1,024 places", true, copy_storm},
        {"h2d_4b", "copy of 4 bytes from pageable memory to the device", true, [] { return small_copies(true); }},
        {"d2h_4b", "copy of 4 bytes from the device", true, [] { return small_copies(false); }},
        {"alloc_1m", "cuMemAlloc and cuMemFree of one mebibyte", true, allocate},
    };
}

}  // namespace warpline::bench
