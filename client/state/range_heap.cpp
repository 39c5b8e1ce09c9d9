// Best fit among free ranges.
#include "client/state/range_heap.h"

#include <iterator>

namespace warpline::client {

void RangeHeap::insert(uint64_t base, uint64_t size_bytes) {
    m_by_base.emplace(base, size_bytes);
    m_by_size.emplace(size_bytes, base);
    m_free_bytes += size_bytes;
}

void RangeHeap::erase(std::map<uint64_t, uint64_t>::iterator range) {
    auto [first, last] = m_by_size.equal_range(range->second);
    for (auto it = first; it != last; ++it) {
        if (it->second != range->first) continue;
        m_by_size.erase(it);
        break;
    }
    m_free_bytes -= range->second;
    m_by_base.erase(range);
}

void RangeHeap::add(uint64_t base, uint64_t size_bytes) { give(base, size_bytes); }

std::optional<uint64_t> RangeHeap::take(uint64_t size_bytes, uint64_t alignment) {
    if (size_bytes == 0) return std::nullopt;
    for (auto it = m_by_size.lower_bound(size_bytes); it != m_by_size.end(); ++it) {
        uint64_t base = it->second;
        uint64_t aligned = (base + alignment - 1) & ~(alignment - 1);
        if (aligned - base > it->first - size_bytes) continue;
        take_at(aligned, size_bytes);
        return aligned;
    }
    return std::nullopt;
}

bool RangeHeap::take_at(uint64_t base, uint64_t size_bytes) {
    auto it = m_by_base.upper_bound(base);
    if (it == m_by_base.begin()) return false;
    --it;
    uint64_t range_base = it->first;
    uint64_t range_end = range_base + it->second;
    if (size_bytes > range_end - range_base || base - range_base > it->second - size_bytes) return false;
    erase(it);
    if (base > range_base) insert(range_base, base - range_base);
    if (base + size_bytes < range_end) insert(base + size_bytes, range_end - base - size_bytes);
    return true;
}

RangeHeap::Range RangeHeap::give(uint64_t base, uint64_t size_bytes) {
    uint64_t begin = base;
    uint64_t end = base + size_bytes;
    auto next = m_by_base.lower_bound(base);
    if (next != m_by_base.end() && next->first == end && !is_boundary(end)) {
        end += next->second;
        auto dead = next++;
        erase(dead);
    }
    if (next != m_by_base.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == begin && !is_boundary(begin)) {
            begin = before->first;
            erase(before);
        }
    }
    insert(begin, end - begin);
    return {begin, end - begin};
}

std::optional<RangeHeap::Range> RangeHeap::free_range_at(uint64_t address) const {
    auto it = m_by_base.upper_bound(address);
    if (it == m_by_base.begin()) return std::nullopt;
    --it;
    if (address - it->first >= it->second) return std::nullopt;
    return Range{it->first, it->second};
}

}  // namespace warpline::client
