// Large copies through the driver interface, beside the best that plain TLS does in the same run.
#include <algorithm>
#include <cstring>
#include <memory>

#include "bench/case.h"
#include "bench/driver.h"
#include "bench/transport.h"

namespace warpline::bench {

namespace {

constexpr size_t k_bytes = size_t{256} << 20;
constexpr int k_copies = 3;  // as many as of plain TLS. The best of each counts

double gigabytes_per_second(uint64_t nanoseconds) { return static_cast<double>(k_bytes) / static_cast<double>(nanoseconds); }

/// The program's memory, of either kind.
class HostMemory {
public:
    static Result<std::unique_ptr<HostMemory>> create(Driver& driver, bool page_locked) {
        auto memory = std::unique_ptr<HostMemory>(new HostMemory(driver));
        void* data = nullptr;
        if (page_locked) {
            if (CUresult r = driver.host_alloc(&data, k_bytes); r != CUDA_SUCCESS) return refused("cuMemAllocHost", r);
            memory->m_page_locked = data;
        } else {
            memory->m_pageable.resize(k_bytes / 4);
            data = memory->m_pageable.data();
        }
        memory->words = static_cast<uint32_t*>(data);
        return memory;
    }
    ~HostMemory() {
        if (m_page_locked != nullptr) static_cast<void>(m_driver.host_free(m_page_locked));
    }
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;

    uint32_t* words = nullptr;

private:
    explicit HostMemory(Driver& driver) : m_driver(driver) {}
    Driver& m_driver;
    void* m_page_locked = nullptr;
    std::vector<uint32_t> m_pageable;
};

enum class Direction { to_device, from_device };

Metrics copy(Direction direction, bool page_locked) {
    Driver& driver = *WL_TRY(Driver::instance());
    const std::vector<uint32_t> source = random_words(k_bytes);
    const double best = WL_TRY(best_tls_rate(source));
    const auto out = WL_TRY(HostMemory::create(driver, page_locked));
    const auto back = WL_TRY(HostMemory::create(driver, page_locked));
    std::memcpy(out->words, source.data(), k_bytes);
    std::memset(back->words, 1, k_bytes);
    CUdeviceptr memory = 0;
    if (CUresult r = driver.mem_alloc(&memory, k_bytes); r != CUDA_SUCCESS) return refused("cuMemAlloc", r);
    // The first time, the software GPU's memory is made page by page, which goes on when the copy has returned: no GPU's is.
    CUresult r = driver.to_device(memory, out->words, k_bytes);
    if (r == CUDA_SUCCESS) r = driver.synchronize();
    uint64_t nanoseconds = UINT64_MAX;
    for (int i = 0; i < k_copies && r == CUDA_SUCCESS; ++i) {
        const uint64_t began = now_ns();
        if (direction == Direction::to_device) {
            r = driver.to_device(memory, out->words, k_bytes);
            if (r == CUDA_SUCCESS) r = driver.synchronize();
        } else {
            r = driver.to_host(back->words, memory, k_bytes);
        }
        nanoseconds = std::min(nanoseconds, now_ns() - began);
    }
    if (r == CUDA_SUCCESS && direction == Direction::to_device) r = driver.to_host(back->words, memory, k_bytes);
    static_cast<void>(driver.mem_free(memory));
    if (r != CUDA_SUCCESS) return refused("cuMemcpy", r);
    if (std::memcmp(back->words, source.data(), k_bytes) != 0)
        return Error{Code::internal, "what came back is not what was sent"};
    const double rate = gigabytes_per_second(nanoseconds);
    return std::vector<Metric>{{"throughput", rate, "GB/s"}, {"best_tls", best, "GB/s"}, {"of_tls", rate / best, "ratio"}};
}

}  // namespace

std::vector<Case> bulk_cases() {
    using enum Direction;
    return {
        {"h2d_256m", "256 MiB of random bytes to the device, beside the best rate of plain TLS", true,
         [] { return copy(to_device, false); }},
        {"d2h_256m", "256 MiB of random bytes from the device, beside the best rate of plain TLS", true,
         [] { return copy(from_device, false); }},
        {"h2d_256m_locked", "the same to the device, from page-locked memory", true, [] { return copy(to_device, true); }},
        {"d2h_256m_locked", "the same from the device, to page-locked memory", true, [] { return copy(from_device, true); }},
    };
}

}  // namespace warpline::bench
