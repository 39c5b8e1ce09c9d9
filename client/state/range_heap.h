// Free addresses, without the memory behind them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace warpline::client {

/// Free ranges of an address space, best fit, joined with their neighbours when given back. No memory is behind it.
/// Not thread-safe: the owner locks.
class RangeHeap {
public:
    /// Free ranges are not joined across multiples of `boundary` (0: joined everywhere).
    explicit RangeHeap(uint64_t boundary = 0) : m_boundary(boundary) {}

    /// Makes a range available. It must not overlap what is free already.
    void add(uint64_t base, uint64_t size_bytes);

    /// A range of this size (a multiple of nothing in particular) at a multiple of `alignment`, a power of two.
    std::optional<uint64_t> take(uint64_t size_bytes, uint64_t alignment);

    /// Takes exactly this range. False if some of it is in use.
    bool take_at(uint64_t base, uint64_t size_bytes);

    /// Gives a range back. Returns the whole free range that it is now part of.
    struct Range {
        uint64_t base = 0;
        uint64_t size_bytes = 0;
    };
    Range give(uint64_t base, uint64_t size_bytes);

    /// The free range that contains the address, if any.
    std::optional<Range> free_range_at(uint64_t address) const;

    uint64_t free_bytes() const { return m_free_bytes; }

private:
    void insert(uint64_t base, uint64_t size_bytes);
    void erase(std::map<uint64_t, uint64_t>::iterator range);

    bool is_boundary(uint64_t address) const { return m_boundary != 0 && address % m_boundary == 0; }

    uint64_t m_boundary = 0;
    std::map<uint64_t, uint64_t> m_by_base;       // base → size
    std::multimap<uint64_t, uint64_t> m_by_size;  // size → base
    uint64_t m_free_bytes = 0;
};

}  // namespace warpline::client
