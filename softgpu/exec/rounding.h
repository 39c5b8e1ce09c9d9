// Sizes in whole units: host pages, and whatever else memory comes in.
#pragma once

#include <cstdint>

namespace warpline::softgpu {

inline constexpr uint64_t k_page_bytes = 4096;

constexpr uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace warpline::softgpu
