// How registers are given out. Source: CUDA Occupancy Calculator, 8.x and 9.0.
#pragma once

#include <algorithm>
#include <cstdint>

namespace warpline::softgpu::driver {

/// Registers that a block takes.
constexpr uint64_t registers_of_block(uint64_t per_thread, uint64_t threads) {
    constexpr uint64_t k_warp = 32, k_granule = 256;
    const uint64_t warps = (threads + k_warp - 1) / k_warp;
    return (per_thread * k_warp + k_granule - 1) / k_granule * k_granule * warps;
}

/// The largest block for which so many registers are enough.
constexpr uint64_t threads_that_fit(uint64_t per_thread, uint64_t registers) {
    constexpr uint64_t k_warp = 32, k_warp_granule = 4;
    const uint64_t warps = registers / std::max<uint64_t>(registers_of_block(per_thread, 1), 1);
    return warps / k_warp_granule * k_warp_granule * k_warp;
}

}  // namespace warpline::softgpu::driver
