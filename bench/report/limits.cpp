// What the machine does without Warpline, in the same run.
#include <algorithm>
#include <cstring>

#include "bench/case.h"
#include "bench/report/measure.h"
#include "bench/transport.h"

namespace warpline::bench {

namespace {

Result<Samples> pings(Wiring wiring, Placement placement, int count) {
    Samples samples;
    for (const uint64_t ns : WL_TRY(round_trips(wiring, count, placement)))
        samples.values.push_back(static_cast<double>(ns) / 1e3);
    samples.verified = "each byte came back";
    return samples;
}

Result<Samples> tcp_rates(size_t bytes, int runs) {
    Samples samples;
    for (int i = 0; i < runs; ++i) samples.values.push_back(WL_TRY(rate(Wiring::tcp, bytes >> 20)));
    samples.verified = "the ends of each mebibyte";
    return samples;
}

Result<Samples> tls_rates(size_t bytes, int runs) {
    const std::vector<uint32_t> source = random_words(bytes);
    Samples samples;
    for (int i = 0; i < runs; ++i) samples.values.push_back(WL_TRY(best_tls_rate(source)));
    samples.verified = "all bytes; the best of 1, 2 and 4 connections";
    return samples;
}

Result<Samples> memory_rates(size_t bytes, int runs) {
    const std::vector<uint32_t> source = random_words(bytes);
    std::vector<uint32_t> target(source.size());
    Samples samples;
    for (int i = 0; i <= runs; ++i) {
        std::fill(target.begin(), target.end(), 0);
        const uint64_t began = now_ns();
        std::memcpy(target.data(), source.data(), bytes);
        const uint64_t took = now_ns() - began;
        if (target != source) return Error{Code::internal, "memcpy did not copy"};
        if (i > 0) samples.values.push_back(static_cast<double>(bytes) / static_cast<double>(took));
    }
    samples.verified = "all bytes";
    return samples;
}

}  // namespace

std::vector<Measure> limit_measures(const Effort& effort) {
    const int runs = effort.copies, calls = effort.calls;
    const size_t bytes = effort.limit_bytes;
    const std::string size = bytes_in_words(static_cast<double>(bytes));
    const auto limit = [](const std::string& id, const std::string& title, const char* unit, bool higher, auto take) {
        return Measure{{.id = "limits/" + id, .section = "limits", .title = title, .unit = unit, .higher_is_better = higher},
                       take};
    };
    std::vector<Measure> measures;
    for (const Placement placement : {Placement::one_core, Placement::two_cores}) {
        const bool two = placement == Placement::two_cores;
        if (two && usable_cores() < 2) continue;
        for (const Wiring wiring : {Wiring::tcp, Wiring::tls}) {
            const bool tls = wiring == Wiring::tls;
            const std::string id = std::string(tls ? "tls" : "tcp") + "-round-trip-" + (two ? "two-cores" : "one-core");
            const std::string title = std::string(tls ? "TLS" : "TCP") + " round trip, " + (two ? "two cores" : "one core");
            measures.push_back(limit(id, title, "us", false, [=] { return pings(wiring, placement, calls); }));
        }
    }
    measures.push_back(limit("tcp-bulk", "TCP, " + size, "GB/s", true, [=] { return tcp_rates(bytes, runs); }));
    measures.push_back(limit("tls-bulk", "TLS, " + size, "GB/s", true, [=] { return tls_rates(bytes, runs); }));
    measures.push_back(limit("memory", "copy in memory, " + size, "GB/s", true, [=] { return memory_rates(bytes, runs); }));
    return measures;
}

}  // namespace warpline::bench
