// Single calls of the driver: latency, launches, allocation, events.
#include <cstring>

#include "bench/case.h"
#include "bench/report/measure.h"
#include "bench/transport.h"

namespace warpline::bench {

namespace {

constexpr int k_burst = 500;  // calls that return at once, before the device is waited for

/// Client and worker have a core each, if there are two.
const char* round_trip_limit() {
    return usable_cores() < 2 ? "limits/tls-round-trip-one-core" : "limits/tls-round-trip-two-cores";
}

double microseconds(uint64_t ns) { return static_cast<double>(ns) / 1e3; }

/// What a measure has to work with.
struct Device {
    Driver& driver;
    Kernels& kernels;

    static Result<Device> ready() {
        Driver* driver = WL_TRY(Driver::instance());
        Kernels* kernels = WL_TRY(Kernels::instance(*driver));
        if (CUresult r = driver->set_words(kernels->counter, 0, 1); r != CUDA_SUCCESS) return refused("cuMemsetD32", r);
        if (CUresult r = driver->synchronize(); r != CUDA_SUCCESS) return refused("cuCtxSynchronize", r);
        return Device{*driver, *kernels};
    }
    /// @return in words, what was compared
    Result<std::string> counted(uint32_t wanted) {
        uint32_t got = 0;
        if (CUresult r = driver.to_host(&got, kernels.counter, sizeof got); r != CUDA_SUCCESS)
            return refused("cuMemcpyDtoH", r);
        if (got != wanted) return Error{Code::internal, "not every launch was executed", got};
        return std::to_string(wanted) + " launches counted on the device";
    }
};

/// Times one call after the other; now and then, `between` is called, untimed. What it returns says what failed.
template <typename Call, typename Between>
Result<std::vector<double>> timed(int calls, double per_unit, const char* name, const Call& call, int every,
                                  const Between& between) {
    std::vector<double> values;
    for (int i = 0; i < calls; ++i) {
        const uint64_t began = now_ns();
        const CUresult r = call();
        values.push_back(static_cast<double>(now_ns() - began) / per_unit);
        if (r != CUDA_SUCCESS) return refused(name, r);
        if ((i + 1) % every == 0)
            if (const CUresult waited = between(); waited != CUDA_SUCCESS) return refused(name, waited);
    }
    return values;
}

template <typename Call>
Result<std::vector<double>> timed(int calls, double per_unit, const char* name, const Call& call) {
    return timed(calls, per_unit, name, call, calls + 1, [] { return CUDA_SUCCESS; });
}

Result<Samples> waits(int calls) {
    Device device = WL_TRY(Device::ready());
    // Where nothing was asked of the device, nothing is waited for.
    const uint32_t word = 0;
    const auto give = [&] { return device.driver.to_device(device.kernels.counter, &word, sizeof word); };
    if (const CUresult r = give(); r != CUDA_SUCCESS) return refused("cuMemcpyHtoD", r);
    return Samples{WL_TRY(timed(
                       calls, 1e3, "cuCtxSynchronize", [&] { return device.driver.synchronize(); }, 1, give)),
                   "each returned 0"};
}

Result<Samples> launches_and_waits(int calls) {
    Device device = WL_TRY(Device::ready());
    auto values = WL_TRY(timed(calls, 1e3, "a launch and its wait", [&] {
        const CUresult r = device.kernels.add_one(device.driver, nullptr);
        return r == CUDA_SUCCESS ? device.driver.synchronize() : r;
    }));
    return Samples{std::move(values), WL_TRY(device.counted(static_cast<uint32_t>(calls)))};
}

/// Of a word there and back, one direction's times.
Result<Samples> words(int calls, bool to_device) {
    Device device = WL_TRY(Device::ready());
    Samples samples;
    for (int i = 0; i < calls; ++i) {
        const uint32_t sent = static_cast<uint32_t>(i) * 2654435761u;
        uint32_t got = ~sent;
        const uint64_t began = now_ns();
        CUresult r = device.driver.to_device(device.kernels.counter, &sent, sizeof sent);
        const uint64_t between = now_ns();
        if (r == CUDA_SUCCESS) r = device.driver.to_host(&got, device.kernels.counter, sizeof got);
        const uint64_t ended = now_ns();
        if (r != CUDA_SUCCESS) return refused("cuMemcpy", r);
        if (got != sent) return Error{Code::internal, "what came back is not what was sent", got};
        samples.values.push_back(microseconds(to_device ? between - began : ended - between));
    }
    samples.verified = "each word came back";
    return samples;
}

Result<Samples> launch_calls(int calls) {
    Device device = WL_TRY(Device::ready());
    auto values = WL_TRY(timed(
        calls, 1, "cuLaunchKernel", [&] { return device.kernels.add_one(device.driver, nullptr); }, k_burst,
        [&] { return device.driver.synchronize(); }));
    return Samples{std::move(values), WL_TRY(device.counted(static_cast<uint32_t>(calls)))};
}

Result<Samples> launch_rates(int calls, int runs) {
    Device device = WL_TRY(Device::ready());
    Samples samples;
    for (int run = 0; run < runs; ++run) {
        const uint64_t began = now_ns();
        for (int i = 0; i < calls; ++i)
            if (CUresult r = device.kernels.add_one(device.driver, nullptr); r != CUDA_SUCCESS)
                return refused("cuLaunchKernel", r);
        if (CUresult r = device.driver.synchronize(); r != CUDA_SUCCESS) return refused("cuCtxSynchronize", r);
        samples.values.push_back(calls * 1e6 / static_cast<double>(now_ns() - began));
    }
    samples.verified = WL_TRY(device.counted(static_cast<uint32_t>(calls * runs)));
    return samples;
}

enum class Kind : uint8_t { device, ordered, host };

Result<Samples> allocations(int calls, Kind kind) {
    constexpr size_t k_bytes = 1 << 20;
    Device device = WL_TRY(Device::ready());
    Driver& driver = device.driver;
    bool addresses = true;
    auto values = WL_TRY(timed(
        calls, 1e3, "allocating and freeing",
        [&] {
            CUdeviceptr memory = 0;
            void* host = nullptr;
            CUresult r = kind == Kind::host     ? driver.host_alloc(&host, k_bytes)
                         : kind == Kind::device ? driver.mem_alloc(&memory, k_bytes)
                                                : driver.alloc_async(&memory, k_bytes, nullptr);
            if (r != CUDA_SUCCESS) return r;
            addresses &= kind == Kind::host ? host != nullptr : memory != 0;
            return kind == Kind::host     ? driver.host_free(host)
                   : kind == Kind::device ? driver.mem_free(memory)
                                          : driver.free_async(memory, nullptr);
        },
        100, [&] { return driver.synchronize(); }));
    if (!addresses) return Error{Code::internal, "memory without an address"};
    return Samples{std::move(values), "each had an address, and no call failed until the device was waited for"};
}

/// A pair of events, gone at the end.
struct Events {
    explicit Events(Driver& driver) : m_driver(driver) {}
    ~Events() {
        for (CUevent event : {first, second})
            if (event != nullptr) static_cast<void>(m_driver.event_destroy(event));
    }
    Result<void> create() {
        for (CUevent* event : {&first, &second})
            if (CUresult r = m_driver.event_create(event, CU_EVENT_DEFAULT); r != CUDA_SUCCESS)
                return refused("cuEventCreate", r);
        return {};
    }
    CUevent first = nullptr, second = nullptr;

private:
    Driver& m_driver;
};

enum class EventCall : uint8_t { record, query, synchronize };

Result<Samples> event_calls(int calls, EventCall what) {
    Device device = WL_TRY(Device::ready());
    Driver& driver = device.driver;
    Events events(driver);
    WL_TRY(events.create());
    if (CUresult r = driver.event_record(events.first, nullptr); r != CUDA_SUCCESS) return refused("cuEventRecord", r);
    if (CUresult r = driver.event_synchronize(events.first); r != CUDA_SUCCESS) return refused("cuEventSynchronize", r);
    Samples samples;
    const auto call = [&] {
        if (what == EventCall::query) return driver.event_query(events.first);
        const CUresult r = driver.event_record(events.second, nullptr);
        return what == EventCall::record || r != CUDA_SUCCESS ? r : driver.event_synchronize(events.second);
    };
    samples.values = WL_TRY(timed(calls, what == EventCall::synchronize ? 1e3 : 1, "an event's call", call, k_burst,
                                  [&] { return driver.synchronize(); }));
    samples.verified = "each returned 0";
    if (what == EventCall::query) return samples;
    float ms = -1;
    if (CUresult r = driver.event_synchronize(events.second); r != CUDA_SUCCESS) return refused("cuEventSynchronize", r);
    if (CUresult r = driver.event_elapsed(&ms, events.first, events.second); r != CUDA_SUCCESS)
        return refused("cuEventElapsedTime", r);
    if (ms < 0) return Error{Code::internal, "the later event is the earlier one"};
    samples.verified += ", and the last came after the first";
    return samples;
}

Measure measure(const char* section, const char* name, const char* title, const char* unit, const char* limit,
                std::function<Result<Samples>()> take) {
    return {{.id = std::string(section) + "/" + name, .section = section, .title = title, .unit = unit, .limit = limit},
            std::move(take)};
}

}  // namespace

std::vector<Measure> call_measures(const Effort& effort) {
    const int calls = effort.calls, runs = effort.copies;
    const char* const round_trip = round_trip_limit();
    Measure executed = measure("launches", "executed", "launches executed, a thousand a second", "k/s", "",
                               [=] { return launch_rates(10 * calls, runs); });
    executed.figure.higher_is_better = true;
    return {
        measure("latency", "synchronize", "cuCtxSynchronize behind 4 bytes to the device", "us", round_trip,
                [=] { return waits(calls); }),
        measure("latency", "launch-and-wait", "a launch and the wait for it", "us", round_trip,
                [=] { return launches_and_waits(calls); }),
        measure("latency", "from-device-4B", "4 bytes from the device", "us", round_trip, [=] { return words(calls, false); }),
        measure("latency", "to-device-4B", "4 bytes to the device", "us", "", [=] { return words(calls, true); }),
        measure("launches", "issue", "a launch, as the program sees it", "ns", "", [=] { return launch_calls(10 * calls); }),
        std::move(executed),
        measure("allocation", "device-1MiB", "cuMemAlloc and cuMemFree, 1 MiB", "us", "",
                [=] { return allocations(calls, Kind::device); }),
        measure("allocation", "ordered-1MiB", "cuMemAllocAsync and cuMemFreeAsync", "us", "",
                [=] { return allocations(calls, Kind::ordered); }),
        measure("allocation", "host-1MiB", "cuMemAllocHost and cuMemFreeHost", "us", "",
                [=] { return allocations(calls / 10, Kind::host); }),
        measure("events", "record", "cuEventRecord", "ns", "", [=] { return event_calls(calls, EventCall::record); }),
        measure("events", "query", "cuEventQuery of one that is over", "ns", "",
                [=] { return event_calls(calls, EventCall::query); }),
        measure("events", "synchronize", "a record and the wait for it", "us", round_trip,
                [=] { return event_calls(calls, EventCall::synchronize); }),
    };
}

}  // namespace warpline::bench
