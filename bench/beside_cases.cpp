// What one thread's calls cost while another thread copies much.
#include <atomic>
#include <thread>

#include "bench/case.h"
#include "bench/driver.h"
#include "protocol/codec/outbox.h"

namespace warpline::bench {

namespace {

constexpr size_t k_copy_bytes = size_t{64} << 20;
constexpr int k_steps = 2000;
constexpr int k_copies_at_once = 2;  // under way, so that one follows the other without a gap

/// The thread that copies, until it is told to end.
class Copier {
public:
    explicit Copier(Driver& driver) : m_driver(driver) {}
    ~Copier() {
        if (m_memory != 0) static_cast<void>(m_driver.mem_free(m_memory));
        if (m_host != nullptr) static_cast<void>(m_driver.host_free(m_host));
    }

    Result<void> prepare() {
        if (CUresult r = m_driver.host_alloc(&m_host, k_copy_bytes); r != CUDA_SUCCESS) return refused("cuMemAllocHost", r);
        if (CUresult r = m_driver.mem_alloc(&m_memory, k_copy_bytes); r != CUDA_SUCCESS) return refused("cuMemAlloc", r);
        auto* words = static_cast<uint32_t*>(m_host);
        for (size_t i = 0; i < k_copy_bytes / 4; ++i) words[i] = static_cast<uint32_t>(i * 2654435761u);
        if (CUresult r = m_driver.stream_create(&m_stream, CU_STREAM_NON_BLOCKING); r != CUDA_SUCCESS)
            return refused("cuStreamCreate", r);
        // Connections for large copies are opened, and the software GPU's memory is made page by page, the first time.
        for (int i = 0; i < k_copies_at_once; ++i) WL_TRY(copy());
        return wait();
    }

    Result<void> run() {
        if (CUresult r = m_driver.make_current(); r != CUDA_SUCCESS) return refused("cuCtxSetCurrent", r);
        while (!stop.load(std::memory_order_relaxed)) {
            for (int i = 0; i < k_copies_at_once; ++i) WL_TRY(copy());
            WL_TRY(wait());
        }
        return {};
    }

    std::atomic<bool> stop{false};
    std::vector<uint64_t> calls;  ///< nanoseconds of each copy's call
    uint64_t copying_ns = 0;      ///< for all of them

private:
    Result<void> copy() {
        const uint64_t began = now_ns();
        const CUresult r = m_driver.to_device_async(m_memory, m_host, k_copy_bytes, m_stream);
        calls.push_back(now_ns() - began);
        if (calls.size() % k_copies_at_once == 1) m_began = began;
        return r == CUDA_SUCCESS ? Result<void>() : refused("cuMemcpyHtoDAsync", r);
    }
    Result<void> wait() {
        const CUresult r = m_driver.stream_synchronize(m_stream);
        copying_ns += now_ns() - m_began;
        return r == CUDA_SUCCESS ? Result<void>() : refused("cuStreamSynchronize", r);
    }

    Driver& m_driver;
    void* m_host = nullptr;
    CUdeviceptr m_memory = 0;
    CUstream m_stream = nullptr;
    uint64_t m_began = 0;
};

/// A launch, and the wait for it, many times. @return nanoseconds of each
Result<std::vector<uint64_t>> launches_and_waits(Driver& driver, CUstream stream) {
    uint64_t a = 1, b = 2, c = 3;
    uint32_t n = 4;
    void* arguments[] = {&a, &b, &c, &n};
    std::vector<uint64_t> samples;
    for (int i = 0; i < k_steps; ++i) {
        const uint64_t began = now_ns();
        CUresult r = driver.launch(driver.kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr);
        if (r == CUDA_SUCCESS) r = driver.stream_synchronize(stream);
        samples.push_back(now_ns() - began);
        if (r != CUDA_SUCCESS) return refused("a launch and its wait", r);
    }
    return samples;
}

Metrics launches_beside_copies() {
    Driver& driver = *WL_TRY(Driver::instance());
    CUstream stream = nullptr;
    if (CUresult r = driver.stream_create(&stream, CU_STREAM_NON_BLOCKING); r != CUDA_SUCCESS)
        return refused("cuStreamCreate", r);
    Copier copier(driver);
    WL_TRY(copier.prepare());
    copier.calls.clear();
    copier.copying_ns = 0;
    std::vector<uint64_t> alone = WL_TRY(launches_and_waits(driver, stream));
    Result<void> copied;
    std::thread thread([&] { copied = copier.run(); });
    auto beside = launches_and_waits(driver, stream);
    copier.stop.store(true, std::memory_order_relaxed);
    thread.join();
    WL_TRY(copied);
    if (!beside.ok()) return beside.error();
    constexpr double k_ms = 1e6;
    const double bytes_per_ns =
        static_cast<double>(copier.calls.size() * k_copy_bytes) / static_cast<double>(copier.copying_ns);
    const double chunk_ms = protocol::OutboxOptions{}.bulk_part_bytes / bytes_per_ns / k_ms;
    const double alone_p99 = quantile(alone, 0.99) / k_ms, beside_p99 = quantile(*beside, 0.99) / k_ms;
    return std::vector<Metric>{{"alone", quantile(alone, 0.5) / k_ms, "ms"},
                               {"alone_p99", alone_p99, "ms"},
                               {"beside", quantile(*beside, 0.5) / k_ms, "ms"},
                               {"beside_p99", beside_p99, "ms"},
                               {"of_bound", beside_p99 / (3 * alone_p99 + chunk_ms), "ratio"},
                               {"copies", bytes_per_ns, "GB/s"},
                               {"copy_call", quantile(copier.calls, 0.5) / k_ms, "ms"},
                               {"copy_call_max", quantile(copier.calls, 1) / k_ms, "ms"}};
}

}  // namespace

std::vector<Case> beside_cases() {
    return {{"beside_copies", "a launch and its wait, alone and beside asynchronous copies of 64 MiB in another thread", true,
             launches_beside_copies}};
}

}  // namespace warpline::bench
