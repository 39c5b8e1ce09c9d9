// Large copies through the driver interface, beside the best that plain TLS does in the same run.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <thread>

#include "bench/case.h"
#include "bench/connections.h"
#include "bench/driver.h"

namespace warpline::bench {

namespace {

constexpr size_t k_bytes = size_t{256} << 20;
constexpr size_t k_step = size_t{1} << 20;
/// The connections of plain TLS; there are as many tries of ours. The best of each counts.
constexpr std::array<size_t, 3> k_tries = {1, 2, 4};

double gigabytes_per_second(uint64_t nanoseconds) { return static_cast<double>(k_bytes) / static_cast<double>(nanoseconds); }

std::vector<uint32_t> random_words() {
    std::vector<uint32_t> words(k_bytes / 4);
    uint32_t state = 1;
    for (uint32_t& word : words) word = state = state * 1664525u + 1013904223u;
    return words;
}

/// What comes is copied once, to where it belongs.
bool receive_into(net::TlsChannel& channel, std::byte* target, size_t bytes) {
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(k_step);
    for (size_t at = 0; at < bytes;) {
        const auto got = channel.read({buffer.get(), std::min(k_step, bytes - at)});
        if (!got.ok()) return false;
        std::memcpy(target + at, buffer.get(), *got);
        at += *got;
    }
    return true;
}

bool send_all(net::TlsChannel& channel, const std::byte* source, size_t bytes) {
    for (size_t at = 0; at < bytes; at += k_step) {
        const BytesView piece{source + at, std::min(k_step, bytes - at)};
        if (!channel.write({&piece, 1}).ok()) return false;
    }
    return true;
}

/// Memory that no cache has, from one thread per connection to one thread per connection. @return bytes per nanosecond
Result<double> tls_rate(size_t connections, const std::vector<uint32_t>& source, std::vector<uint32_t>& target) {
    std::vector<TlsPair> pairs;
    for (size_t i = 0; i < connections; ++i) pairs.push_back(WL_TRY(tls_pair()));
    const size_t share = k_bytes / connections;
    const auto* from = reinterpret_cast<const std::byte*>(source.data());
    auto* to = reinterpret_cast<std::byte*>(target.data());
    std::vector<char> good(connections * 2);
    std::vector<std::thread> threads;
    const uint64_t began = now_ns();
    for (size_t i = 0; i < connections; ++i) {
        threads.emplace_back([&, i] { good[i] = send_all(*pairs[i].client, from + i * share, share); });
        threads.emplace_back([&, i] { good[connections + i] = receive_into(*pairs[i].server, to + i * share, share); });
    }
    for (std::thread& thread : threads) thread.join();
    const double rate = gigabytes_per_second(now_ns() - began);
    if (std::find(good.begin(), good.end(), 0) != good.end()) return Error{Code::connection_lost, "the connection broke"};
    if (source != target) return Error{Code::internal, "what arrived is not what was sent"};
    return rate;
}

/// The best of one, two and four connections.
Result<double> best_tls_rate(const std::vector<uint32_t>& source) {
    std::vector<uint32_t> target(source.size());
    double best = 0;
    for (const size_t connections : k_tries) best = std::max(best, WL_TRY(tls_rate(connections, source, target)));
    return best;
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

Metrics copy(Direction direction, bool page_locked) {
    Driver& driver = *WL_TRY(Driver::instance());
    const std::vector<uint32_t> source = random_words();
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
    for (size_t i = 0; i < k_tries.size() && r == CUDA_SUCCESS; ++i) {
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
