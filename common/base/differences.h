// Where bytes differ from others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace warpline {

/// Calls visit(begin, end) for each run of bytes that differ between two memories of the same size, in order, with offsets.
/// @param gap  as many equal bytes as this between two differences make no end of a run
template <typename Visit>
void for_each_difference(const std::byte* a, const std::byte* b, uint64_t size_bytes, uint64_t gap, Visit visit) {
    constexpr uint64_t k_step = 64;  // what is the same is passed over at the pace of the memory
    uint64_t first = size_bytes, last = size_bytes;
    for (uint64_t step = 0; step < size_bytes; step += k_step) {
        const uint64_t bytes = std::min(k_step, size_bytes - step);
        if (std::memcmp(a + step, b + step, bytes) == 0) continue;
        for (uint64_t i = step; i < step + bytes; ++i) {
            if (a[i] == b[i]) continue;
            if (first != size_bytes && i - last > gap) {
                visit(first, last);
                first = size_bytes;
            }
            if (first == size_bytes) first = i;
            last = i + 1;
        }
    }
    if (first != size_bytes) visit(first, last);
}

}  // namespace warpline
