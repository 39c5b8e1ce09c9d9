// How many multiprocessors the device says that it has.
#pragma once

#include <algorithm>
#include <cstdint>

namespace warpline::softgpu::exec {

/// As many as a small GPU of the reported kind has. Programs divide the blocks that can be resident at once, and do not
/// expect to get nothing.
constexpr uint32_t k_least_multiprocessors = 20;

/// How many multiprocessors a device shows whose blocks are executed by `workers` threads.
inline uint32_t multiprocessors(uint32_t workers) { return std::max(workers, k_least_multiprocessors); }

}  // namespace warpline::softgpu::exec
