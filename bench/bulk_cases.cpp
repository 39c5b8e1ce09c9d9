// Large copies through the driver interface, beside the best that plain TLS and memcpy do in the same run.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <random>

#include "bench/case.h"
#include "bench/driver.h"
#include "bench/transport.h"

namespace warpline::bench {

namespace {

constexpr size_t k_bytes = size_t{256} << 20;
constexpr int k_copies = 3;  // as many as of plain TLS. The best of each counts

double gigabytes_per_second(uint64_t nanoseconds) { return static_cast<double>(k_bytes) / static_cast<double>(nanoseconds); }

/// What is copied: compression makes a difference for all but the first.
enum class Contents { random, zeros, f32, bf16, f16 };

/// Rounded towards zero; what is too small for a normal number becomes 0.
uint32_t half_of(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127 + 15;
    const uint32_t sign = bits >> 16 & 0x8000;
    return exponent <= 0 ? sign : sign | static_cast<uint32_t>(exponent) << 10 | (bits >> 13 & 0x3ff);
}

/// Like the weights of a network: normally distributed, small. 16 MiB of them, again and again: no codec looks that far back.
std::vector<uint32_t> weights(Contents data) {
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal(0.0, 0.02);
    const auto next = [&] { return static_cast<float>(normal(random)); };
    const auto narrow = [&] { return data == Contents::bf16 ? std::bit_cast<uint32_t>(next()) >> 16 : half_of(next()); };
    std::vector<uint32_t> words(size_t{4} << 20);
    for (uint32_t& word : words) word = data == Contents::f32 ? std::bit_cast<uint32_t>(next()) : narrow() | narrow() << 16;
    return words;
}

std::vector<uint32_t> make_words(Contents data) {
    if (data == Contents::random) return random_words(k_bytes);
    std::vector<uint32_t> words(k_bytes / 4);
    if (data == Contents::zeros) return words;
    const std::vector<uint32_t> some = weights(data);
    for (size_t i = 0; i < words.size(); ++i) words[i] = some[i % some.size()];
    return words;
}

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

/// What this machine's memory does: one thread, from pages that are there to pages that are there.
double memcpy_rate(const uint32_t* from, uint32_t* to) {
    uint64_t nanoseconds = UINT64_MAX;
    for (int i = 0; i < k_copies; ++i) {
        const uint64_t began = now_ns();
        std::memcpy(to, from, k_bytes);
        nanoseconds = std::min(nanoseconds, now_ns() - began);
    }
    return gigabytes_per_second(nanoseconds);
}

Metrics copy(Direction direction, bool page_locked, Contents data = Contents::random) {
    Driver& driver = *WL_TRY(Driver::instance());
    const std::vector<uint32_t> source = make_words(data);
    // To plain TLS all data are the same.
    const double best = data == Contents::random ? WL_TRY(best_tls_rate(source)) : 0;
    const auto out = WL_TRY(HostMemory::create(driver, page_locked));
    const auto back = WL_TRY(HostMemory::create(driver, page_locked));
    std::memcpy(out->words, source.data(), k_bytes);
    std::memset(back->words, 1, k_bytes);
    const double memory_rate = memcpy_rate(out->words, back->words);
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
    if (data != Contents::random) return std::vector<Metric>{{"throughput", rate, "GB/s"}};
    return std::vector<Metric>{{"throughput", rate, "GB/s"},
                               {"best_tls", best, "GB/s"},
                               {"of_tls", rate / best, "ratio"},
                               {"memcpy", memory_rate, "GB/s"},
                               {"of_memcpy", rate / memory_rate, "ratio"}};
}

}  // namespace

std::vector<Case> bulk_cases() {
    using enum Direction;
    using enum Contents;
    return {
        {"h2d_256m", "256 MiB of random bytes to the device, beside the best rate of plain TLS, and memcpy", true,
         [] { return copy(to_device, false); }},
        {"d2h_256m", "256 MiB of random bytes from the device, beside the best rate of plain TLS, and memcpy", true,
         [] { return copy(from_device, false); }},
        {"h2d_256m_locked", "the same to the device, from page-locked memory", true, [] { return copy(to_device, true); }},
        {"d2h_256m_locked", "the same from the device, to page-locked memory", true, [] { return copy(from_device, true); }},
        {"zeros_h2d", "256 MiB of zeros to the device", true, [] { return copy(to_device, false, zeros); }},
        {"zeros_d2h", "the same from the device", true, [] { return copy(from_device, false, zeros); }},
        {"weights_h2d", "256 MiB of normally distributed floats to the device", true,
         [] { return copy(to_device, false, f32); }},
        {"weights_d2h", "the same from the device", true, [] { return copy(from_device, false, f32); }},
        {"weights_bf16_h2d", "the same as bfloat16 to the device", true, [] { return copy(to_device, false, bf16); }},
        {"weights_bf16_d2h", "the same from the device", true, [] { return copy(from_device, false, bf16); }},
        {"weights_f16_h2d", "the same as half to the device", true, [] { return copy(to_device, false, f16); }},
        {"weights_f16_d2h", "the same from the device", true, [] { return copy(from_device, false, f16); }},
    };
}

}  // namespace warpline::bench
