// How much the program uses of each piece of memory before it goes to another one.
#pragma once

#include <algorithm>
#include <cstdint>

namespace warpline::client {

/// Learns from regions of which the program has used one part only, and the same one of each: a word of every array, say. Not
/// thread-safe.
class PartsUsed {
public:
    static constexpr uint64_t k_part_bytes = 64ull << 10;

    /// The program has come to an address. @param region  where it is @param offset  in that
    /// @param misses_rest  whether the program does not have all of the region that it came from
    void came_to(uint64_t region, uint64_t offset, bool misses_rest) {
        const uint64_t part = offset / k_part_bytes;
        if (region == m_region) {
            ++m_accesses;
            return;
        }
        if (!misses_rest || m_accesses > 1) m_run = 0;
        if (misses_rest && m_accesses == 1) {
            m_most = m_run == 0 ? m_brought : std::min(m_most, m_brought);
            ++m_run;
        }
        if (part != m_part) m_run = 0;
        m_region = region;
        m_part = part;
        m_accesses = 1;
        m_brought = 0;
    }
    /// So many bytes were brought for that, or were here.
    void brought(uint64_t bytes) { m_brought += bytes; }

    /// True if it has come to the region just now.
    bool is_first() const { return m_accesses == 1; }
    /// True if the program probably uses one part of each region that it comes to: no more than part_bytes() from offset() on.
    bool is_regular() const { return m_run >= k_run; }
    /// @unit bytes
    uint64_t part_bytes() const { return std::max(m_most, k_part_bytes); }
    uint64_t offset() const { return m_part * k_part_bytes; }

private:
    static constexpr unsigned k_run = 2;

    uint64_t m_region = 0;
    uint64_t m_part = 0;      // of the access that came to it
    unsigned m_accesses = 0;  // that found nothing there
    uint64_t m_brought = 0;   // for them
    unsigned m_run = 0;       // regions of which one access was enough, at the same place of each
    uint64_t m_most = 0;      // that was brought for one of those
};

}  // namespace warpline::client
