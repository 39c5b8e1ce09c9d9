// The highest value that a counter has had.
#pragma once

#include <atomic>
#include <cstdint>

namespace warpline::softgpu::driver {

/// Keeps the highest value that a counter has had. Any thread may call; never blocks.
inline void raise(std::atomic<uint64_t>& high, uint64_t value) {
    uint64_t seen = high.load();
    while (seen < value && !high.compare_exchange_weak(seen, value)) {
    }
}

}  // namespace warpline::softgpu::driver
