// What a few bytes of a chunk tell about all of it.
#pragma once

#include <array>

#include "common/base/bytes.h"

namespace warpline::compress {

/// A few KiB from several places of a chunk, and how small codecs would make them. Some 30 µs.
class Sample {
public:
    static constexpr size_t k_most_bytes = 16 * 1024;

    explicit Sample(BytesView chunk);

    /// By how often each byte occurs where elements of so many bytes (1, 2, 4, 8) have it: what byte grouping packs to; with 1,
    /// what coding single bytes does. Packed size by size.
    double grouped_ratio(unsigned element_bytes) const;
    /// What LZ4 makes of it.
    double repeated_ratio() const;
    size_t size() const { return m_size; }

private:
    size_t m_size = 0;
    std::array<std::byte, k_most_bytes> m_bytes;
    std::array<std::array<uint32_t, 256>, 8> m_counts{};  // of each byte, by its place in a word of 8
};

/// True if all 8-byte words are the same: every byte is looked at, but of other data only the first ones.
bool is_constant(BytesView chunk);

}  // namespace warpline::compress
