#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace warpline::bench {

/// One figure of one run of a case.
struct Metric {
    std::string name;  ///< "median", "p99", "throughput": says what is measured
    double value = 0;
    const char* unit = "";
};

/// What a case yields in one run, or why its result was wrong or it could not run.
using Metrics = Result<std::vector<Metric>>;

/// A named measurement. Each checks its own result: a wrong one is an error and no figure.
struct Case {
    const char* name;
    const char* what;   ///< one line for the menu
    bool needs_driver;  ///< calls libcuda.so.1: run under `warpline run`
    std::function<Metrics()> run;
};

/// Nanoseconds of the steady clock.
inline uint64_t now_ns() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// The value below which `fraction` of the samples lie. Reorders them.
double quantile(std::vector<uint64_t>& samples, double fraction);

/// median and p99 of samples in nanoseconds, as metrics in `unit` (ns per unit: `scale`).
std::vector<Metric> distribution(std::vector<uint64_t>& samples, const char* unit, double scale);

std::vector<Case> driver_cases();
std::vector<Case> bulk_cases();
std::vector<Case> beside_cases();
std::vector<Case> transport_cases();
std::vector<Case> softgpu_kernel_cases();
std::vector<Case> softgpu_text_cases();

}  // namespace warpline::bench
