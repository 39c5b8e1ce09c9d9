// Giving out addresses in pieces and blocks, and telling what an address belongs to.
#include "client/state/device_memory.h"

#include <iterator>

#include "client/state/token.h"

namespace warpline::client {

void DeviceMemory::set_window(uint64_t base, uint64_t size_bytes) {
    m_window_base = base;
    m_window_bytes = size_bytes;
    uint64_t first = rounded_to_blocks(base);
    uint64_t end = (base + size_bytes) & ~(k_block_bytes - 1);
    MutexLock lock(m_mutex);
    if (end > first) m_window.add(first, end - first);
}

std::optional<uint64_t> DeviceMemory::try_allocate(int device, uint64_t size_bytes) {
    if (size_bytes > k_small_bytes) return std::nullopt;
    MutexLock lock(m_mutex);
    Device& state = m_devices[device];
    std::optional<uint64_t> address = state.pieces.take(rounded(size_bytes), k_alignment);
    if (!address) return std::nullopt;
    // A piece at the start of a block, with all the rest of the block free behind it, came out of a wholly free block.
    std::optional<RangeHeap::Range> rest = state.pieces.free_range_at(*address + rounded(size_bytes));
    bool was_whole = *address % k_block_bytes == 0 && rest && rest->size_bytes == k_block_bytes - rounded(size_bytes);
    if (was_whole) --state.free_blocks;
    return address;
}

std::optional<RangeHeap::Range> DeviceMemory::take_block(uint64_t size_bytes) {
    if (size_bytes == 0 || size_bytes > m_window_bytes) return std::nullopt;
    uint64_t block_bytes = rounded_to_blocks(size_bytes);
    MutexLock lock(m_mutex);
    std::optional<uint64_t> base = m_window.take(block_bytes, k_block_bytes);
    if (!base) return std::nullopt;
    return RangeHeap::Range{*base, block_bytes};
}

void DeviceMemory::add_block(int device, RangeHeap::Range block) {
    MutexLock lock(m_mutex);
    m_devices[device].pieces.add(block.base, block.size_bytes);
    ++m_devices[device].free_blocks;
}

void DeviceMemory::return_block(RangeHeap::Range block) {
    MutexLock lock(m_mutex);
    m_window.give(block.base, block.size_bytes);
}

std::optional<uint64_t> DeviceMemory::reserve(uint64_t size_bytes, uint64_t alignment, uint64_t hint) {
    MutexLock lock(m_mutex);
    std::optional<uint64_t> base;
    if (hint != 0 && m_window.take_at(hint, size_bytes)) {
        base = hint;
    } else {
        base = m_window.take(size_bytes, alignment < k_block_bytes ? k_block_bytes : alignment);
    }
    if (base) m_reserved.emplace(*base, size_bytes);
    return base;
}

bool DeviceMemory::unreserve(uint64_t base, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    auto it = m_reserved.find(base);
    if (it == m_reserved.end() || it->second != size_bytes) return false;
    auto mapped = m_ranges.lower_bound(base);
    if (mapped != m_ranges.end() && mapped->first - base < size_bytes) return false;
    m_reserved.erase(it);
    m_window.give(base, size_bytes);
    return true;
}

std::optional<RangeHeap::Range> DeviceMemory::reservation_of(uint64_t address) const {
    MutexLock lock(m_mutex);
    auto it = m_reserved.upper_bound(address);
    if (it == m_reserved.begin()) return std::nullopt;
    --it;
    if (address - it->first >= it->second) return std::nullopt;
    return RangeHeap::Range{it->first, it->second};
}

bool DeviceMemory::is_reserved(uint64_t base, uint64_t size_bytes) const {
    const auto reserved = reservation_of(base);
    return reserved && size_bytes <= reserved->size_bytes - (base - reserved->base);
}

bool DeviceMemory::is_vacant(uint64_t base, uint64_t size_bytes) const {
    MutexLock lock(m_mutex);
    if (containing(base) != m_ranges.end()) return false;
    const auto next = m_ranges.lower_bound(base);
    return next == m_ranges.end() || next->first - base >= size_bytes;
}

std::pair<DeviceMemory::Ranges::const_iterator, DeviceMemory::Ranges::const_iterator> DeviceMemory::find_mapped(
    uint64_t base, uint64_t size_bytes) const {
    auto first = m_ranges.find(base);
    auto last = first;
    uint64_t end = base;
    while (last != m_ranges.end() && last->first == end && last->second.kind == MemoryKind::mapped && end - base < size_bytes) {
        end += last->second.size_bytes;
        ++last;
    }
    return end - base == size_bytes ? std::pair{first, last} : std::pair{last, last};
}

std::vector<DeviceRange> DeviceMemory::mapped_in(uint64_t base, uint64_t size_bytes) const {
    MutexLock lock(m_mutex);
    std::vector<DeviceRange> found;
    const auto [first, last] = find_mapped(base, size_bytes);
    for (auto range = first; range != last; ++range) found.push_back(range->second);
    return found;
}

std::vector<DeviceRange> DeviceMemory::forget_mapped(uint64_t base, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    std::vector<DeviceRange> gone;
    const auto [first, last] = find_mapped(base, size_bytes);
    for (auto range = first; range != last; ++range) gone.push_back(range->second);
    m_ranges.erase(first, last);
    return gone;
}

uint64_t DeviceMemory::register_range(DeviceRange range) {
    MutexLock lock(m_mutex);
    range.buffer_id = m_next_buffer_id++;
    if (range.kind == MemoryKind::global) {
        auto first = containing(range.base);
        if (first == m_ranges.end()) first = m_ranges.lower_bound(range.base);
        while (first != m_ranges.end() && first->first < range.base + range.size_bytes) {
            const bool is_old = first->second.kind == range.kind && first->second.owner == range.owner;
            first = is_old ? m_ranges.erase(first) : std::next(first);
        }
    }
    m_ranges.insert_or_assign(range.base, range);
    return range.buffer_id;
}

DeviceMemory::Ranges::const_iterator DeviceMemory::containing(uint64_t address) const {
    auto it = m_ranges.upper_bound(address);
    if (it == m_ranges.begin()) return m_ranges.end();
    --it;
    return address - it->first < it->second.size_bytes ? it : m_ranges.end();
}

std::optional<DeviceRange> DeviceMemory::find(uint64_t address) const {
    MutexLock lock(m_mutex);
    auto it = containing(address);
    if (it == m_ranges.end()) return std::nullopt;
    return it->second;
}

bool DeviceMemory::contains(uint64_t address, uint64_t size_bytes) const {
    MutexLock lock(m_mutex);
    auto it = containing(address);
    if (it == m_ranges.end()) return false;
    // One allocation holds all of it, or several mapped ranges follow each other without a gap.
    uint64_t end = address + size_bytes;
    if (end < address) return false;
    uint64_t known_end = it->second.base + it->second.size_bytes;
    while (known_end < end) {
        if (it->second.kind != MemoryKind::mapped) return false;
        ++it;
        if (it == m_ranges.end() || it->first != known_end || it->second.kind != MemoryKind::mapped) return false;
        known_end = it->second.base + it->second.size_bytes;
    }
    return true;
}

std::optional<DeviceRange> DeviceMemory::forget(uint64_t base, MemoryKind kind) {
    MutexLock lock(m_mutex);
    auto it = m_ranges.find(base);
    if (it == m_ranges.end() || it->second.kind != kind) return std::nullopt;
    DeviceRange range = it->second;
    m_ranges.erase(it);
    return range;
}

void DeviceMemory::forget_buffer(const DeviceRange& range) {
    MutexLock lock(m_mutex);
    const auto it = m_ranges.find(range.base);
    if (it != m_ranges.end() && it->second.buffer_id == range.buffer_id) m_ranges.erase(it);
}

template <typename Predicate>
std::vector<DeviceRange> DeviceMemory::forget_if(Predicate predicate) {
    std::vector<DeviceRange> gone;
    MutexLock lock(m_mutex);
    for (auto it = m_ranges.begin(); it != m_ranges.end();) {
        if (!predicate(it->second)) {
            ++it;
            continue;
        }
        gone.push_back(it->second);
        it = m_ranges.erase(it);
    }
    return gone;
}

std::vector<DeviceRange> DeviceMemory::forget_owner(uint64_t owner) {
    return forget_if([owner](const DeviceRange& range) { return range.owner == owner; });
}

std::vector<DeviceRange> DeviceMemory::forget_context(uint64_t context) {
    // What is a pool's belongs to no context, nor does what the program has mapped itself.
    return forget_if([context](const DeviceRange& range) {
        return range.context == context && range.kind != MemoryKind::mapped && !token_is(HandleKind::mem_pool, range.owner);
    });
}

void DeviceMemory::set_sync_memops(uint64_t base, bool on) {
    MutexLock lock(m_mutex);
    auto it = m_ranges.find(base);
    if (it != m_ranges.end()) it->second.sync_memops = on;
}

std::optional<RangeHeap::Range> DeviceMemory::release(int device, uint64_t base, uint64_t size_bytes) {
    if (size_bytes > k_small_bytes) return RangeHeap::Range{base, rounded_to_blocks(size_bytes)};
    MutexLock lock(m_mutex);
    Device& state = m_devices[device];
    RangeHeap::Range free = state.pieces.give(base, rounded(size_bytes));
    if (free.size_bytes != k_block_bytes) return std::nullopt;
    // One free block is kept: programs that allocate and free in turn would otherwise map and unmap each time.
    if (state.free_blocks == 0) {
        ++state.free_blocks;
        return std::nullopt;
    }
    state.pieces.take_at(free.base, free.size_bytes);
    return free;
}

}  // namespace warpline::client
