// The cost model: what is known without a link says what to expect on one.
#include <algorithm>

#include "bench/report/sweep.h"

namespace warpline::bench {

namespace {

constexpr double k_step_bytes = 64 << 10;  // that a training-like step uploads
/// Until the first kernel's result is there: TCP, TLS, Open, TLS, and what cuInit asks of the device
/// (docs/session.md#start); the module; the result.
constexpr int k_start_waits = 7;

}  // namespace

LinkCosts LinkCosts::on(double round_trip_ms, double bits_per_s, double bytes) const {
    const double ms_per_byte = bits_per_s > 0 ? 8e3 / bits_per_s : 0;
    const auto copy = [&](double rate) {
        const double own_ms = bytes / rate / 1e6;
        return bytes / (std::max(own_ms, bytes * ms_per_byte) + round_trip_ms) / 1e6;
    };
    return {.wait_ms = wait_ms + round_trip_ms,
            .step_ms = std::max(step_ms, k_step_bytes * ms_per_byte) + round_trip_ms,
            .start_ms = start_ms + k_start_waits * round_trip_ms,
            .to_device_gb_s = copy(to_device_gb_s),
            .from_device_gb_s = copy(from_device_gb_s),
            .copy_bytes = bytes};
}

}  // namespace warpline::bench
