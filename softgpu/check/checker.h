// The state of all checkers of a process.
#pragma once

#include "softgpu/check/allocations.h"
#include "softgpu/check/options.h"
#include "softgpu/check/report.h"
#include "softgpu/check/written.h"

namespace warpline::softgpu::check {

/// What all devices of a process share of the checkers.
struct Checker {
    explicit Checker(uint32_t enabled, Reporter::Sink sink = {}) : checks(enabled), reporter(std::move(sink)) {}
    bool has(Check check) const { return (checks & check) != 0; }

    const uint32_t checks;
    Reporter reporter;
    Allocations allocations;
    WrittenMap written;
};

}  // namespace warpline::softgpu::check
