// The subcommand `warpline-bench sweep`: the same few figures over links of several round trips and rates.
#pragma once

#include <string>
#include <vector>

#include "bench/report/target.h"

namespace warpline::bench {

struct SweepOptions {
    Target target;
    std::vector<double> round_trips_ms = {1, 10, 30, 150};
    std::vector<double> rates_mbit = {100, 1000, 10000};
    double loss_percent = 0;
    double jitter_ms = 0;
    size_t copy_bytes = 0;  ///< 0: what the link takes some tenths of a second for
    std::string csv;        ///< a file; empty: none
};

/// What a program waits for on a link: the cost model (docs/performance.md#the-cost-model).
struct LinkCosts {
    double wait_ms = 0, step_ms = 0, start_ms = 0;    ///< a wait for the device, a training-like step, a start
    double to_device_gb_s = 0, from_device_gb_s = 0;  ///< a copy of copy_bytes
    double copy_bytes = 0;

    /// These on a link, when they are measured without one. @param bits_per_s  0: any
    LinkCosts on(double round_trip_ms, double bits_per_s, double bytes) const;
};

/// Prints a table in Markdown, a row for each link as it is measured, each figure with the cost model's.
/// @return the exit code: 0; 1 if a figure could not be taken; 2 if there is no server to measure
int sweep(const SweepOptions& options);

}  // namespace warpline::bench
