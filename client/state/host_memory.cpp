// Allocating host memory, and finding the range that an address lies in.
#include "client/state/host_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <iterator>

namespace warpline::client {

namespace {
constexpr uint64_t k_page_bytes = 4096;
constexpr uint64_t k_block_bytes = 2ull << 20;  // what a server maps
uint64_t whole_pages(uint64_t size_bytes) { return (size_bytes + k_page_bytes - 1) & ~(k_page_bytes - 1); }
}  // namespace

void HostMemory::set_window(uint64_t base, uint64_t size_bytes) {
    m_window_base = base;
    m_window_bytes = size_bytes;
    MutexLock lock(m_mutex);
    if (size_bytes != 0) m_window.add(base, size_bytes);
}

void* HostMemory::allocate(uint64_t size_bytes, uint64_t context, int device, unsigned flags) {
    if (size_bytes > UINT64_MAX - k_block_bytes) return nullptr;
    HostRange range;
    range.size_bytes = size_bytes;
    range.context = context;
    range.flags = flags;
    range.device = device;
    const uint64_t block_bytes = (size_bytes + k_block_bytes - 1) / k_block_bytes * k_block_bytes;
    std::optional<uint64_t> block;
    {
        MutexLock lock(m_mutex);
        if (m_window_bytes != 0) block = m_window.take(block_bytes, k_block_bytes);
    }
    const int fixed = block ? MAP_FIXED : 0;
    void* address = ::mmap(block ? reinterpret_cast<void*>(*block) : nullptr, whole_pages(size_bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    MutexLock lock(m_mutex);
    if (address == MAP_FAILED) {
        if (block) m_window.give(*block, block_bytes);
        return nullptr;
    }
    range.base = reinterpret_cast<uint64_t>(address);
    range.block_bytes = block ? block_bytes : 0;
    range.buffer_id = m_next_buffer_id++;
    m_ranges.emplace(range.base, range);
    if (!block) return address;
    m_unmapped.fetch_add(1, std::memory_order_relaxed);
    const auto once = m_once_mapped.lower_bound(range.base);
    if (once == m_once_mapped.end() || *once - range.base >= block_bytes) return address;
    m_named[range.base] = ++m_times_named;
    m_named_count.store(m_named.size(), std::memory_order_release);
    return address;
}

bool HostMemory::free(void* address) {
    MutexLock lock(m_mutex);
    auto it = m_ranges.find(reinterpret_cast<uint64_t>(address));
    if (it == m_ranges.end() || it->second.origin != HostOrigin::allocated || it->second.device_base != 0) return false;
    const HostRange range = it->second;
    m_ranges.erase(it);
    if (range.block_bytes == 0) {
        ::munmap(address, whole_pages(range.size_bytes));
        return true;
    }
    m_unmapped.fetch_sub(1, std::memory_order_relaxed);
    ::mmap(address, whole_pages(range.size_bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    m_window.give(range.base, range.block_bytes);
    return true;
}

std::optional<uint64_t> HostMemory::begin_use(uint64_t address) {
    MutexLock lock(m_mutex);
    for (;;) {
        const auto it = m_ranges.find(base_of(address));
        if (it == m_ranges.end() || it->second.device_base != 0) return std::nullopt;
        if (!it->second.changes_hands) {
            ++it->second.uses;
            return it->first;
        }
        m_change.wait(m_mutex);
    }
}

void HostMemory::end_use(uint64_t base) {
    MutexLock lock(m_mutex);
    const auto it = m_ranges.find(base);
    // Memory that the program frees while it is copied may be other memory by now.
    if (it != m_ranges.end() && it->second.uses != 0 && --it->second.uses == 0) m_change.notify_all();
}

bool HostMemory::begin_change(uint64_t base) {
    MutexLock lock(m_mutex);
    for (;;) {
        const auto it = m_ranges.find(base);
        if (it == m_ranges.end()) return false;
        if (it->second.uses == 0) return it->second.changes_hands = true;
        m_change.wait(m_mutex);
    }
}

void HostMemory::end_change(uint64_t base) {
    MutexLock lock(m_mutex);
    const auto it = m_ranges.find(base);
    if (it != m_ranges.end()) it->second.changes_hands = false;
    m_change.notify_all();
}

void HostMemory::set_device_base(uint64_t base, uint64_t device_base) {
    MutexLock lock(m_mutex);
    const auto it = m_ranges.find(base);
    if (it == m_ranges.end()) return;
    const HostRange& range = it->second;
    if (range.block_bytes != 0) m_unmapped.fetch_sub(1, std::memory_order_relaxed);
    for (uint64_t offset = 0; offset < range.block_bytes; offset += k_block_bytes) m_once_mapped.insert(range.base + offset);
    it->second.device_base = device_base;
}

void HostMemory::note_named(BytesView bytes) {
    constexpr size_t k_word = sizeof(uint64_t), k_block = 8 * k_word;
    const auto word_at = [bytes](size_t offset) {
        uint64_t word = 0;
        std::memcpy(&word, bytes.data() + offset, sizeof word);
        return word;
    };
    for (size_t offset = 0; offset + k_word <= bytes.size();) {
        // Hardly any: several are looked at together, without a jump for each.
        if (offset + k_block <= bytes.size()) {
            bool any = false;
            for (size_t i = 0; i < k_block; i += k_word) any |= in_window(word_at(offset + i));
            if (!any) [[likely]] {
                offset += k_block;
                continue;
            }
        }
        for (const size_t end = offset + k_block; offset < end && offset + k_word <= bytes.size(); offset += k_word) {
            const uint64_t word = word_at(offset);
            if (!in_window(word)) continue;
            MutexLock lock(m_mutex);
            const auto found = containing(word);
            if (found == m_ranges.end() || found->second.device_base != 0) continue;
            m_named[found->first] = ++m_times_named;
            m_named_count.store(m_named.size(), std::memory_order_release);
        }
    }
}

std::vector<HostMemory::Named> HostMemory::named() const {
    MutexLock lock(m_mutex);
    std::vector<Named> all;
    for (const auto& [base, times] : m_named) all.push_back({base, times});
    return all;
}

void HostMemory::forget_named(Named named) {
    MutexLock lock(m_mutex);
    const auto found = m_named.find(named.base);
    if (found != m_named.end() && found->second == named.times) m_named.erase(found);
    m_named_count.store(m_named.size(), std::memory_order_release);
}

std::optional<HostRange> HostMemory::forget_mapped(uint64_t base, HostOrigin origin) {
    MutexLock lock(m_mutex);
    const auto it = m_ranges.find(base);
    if (it == m_ranges.end() || it->second.origin != origin || it->second.device_base == 0) return std::nullopt;
    const HostRange range = it->second;
    m_ranges.erase(it);
    if (origin == HostOrigin::registered) m_registered.fetch_sub(1, std::memory_order_relaxed);
    return range;
}

void HostMemory::return_block(RangeHeap::Range block) {
    MutexLock lock(m_mutex);
    m_window.give(block.base, block.size_bytes);
}

std::optional<HostRange> HostMemory::find_mapped(uint64_t device_address) const {
    MutexLock lock(m_mutex);
    for (const auto& [base, range] : m_ranges) {
        if (range.device_base != 0 && device_address - range.device_base < range.size_bytes) return range;
    }
    return std::nullopt;
}

HostMemory::Registered HostMemory::register_range(HostRange range) {
    MutexLock lock(m_mutex);
    auto next = m_ranges.upper_bound(range.base);
    if (next != m_ranges.end() && next->first - range.base < range.size_bytes) return Registered::overlaps;
    if (containing(range.base) != m_ranges.end()) return Registered::overlaps;
    range.origin = HostOrigin::registered;
    range.buffer_id = m_next_buffer_id++;
    m_ranges.emplace(range.base, range);
    m_registered.fetch_add(1, std::memory_order_relaxed);
    return Registered::ok;
}

bool HostMemory::unregister(void* address) {
    MutexLock lock(m_mutex);
    auto it = m_ranges.find(reinterpret_cast<uint64_t>(address));
    if (it == m_ranges.end() || it->second.origin != HostOrigin::registered) return false;
    m_ranges.erase(it);
    m_registered.fetch_sub(1, std::memory_order_relaxed);
    return true;
}

std::vector<HostRange> HostMemory::of_context(uint64_t context) const {
    std::vector<HostRange> found;
    MutexLock lock(m_mutex);
    for (const auto& [base, range] : m_ranges)
        if (range.context == context) found.push_back(range);
    return found;
}

std::map<uint64_t, HostRange>::const_iterator HostMemory::containing(uint64_t address) const {
    auto it = m_ranges.upper_bound(address);
    if (it == m_ranges.begin()) return m_ranges.end();
    --it;
    return address - it->first < it->second.size_bytes ? it : m_ranges.end();
}

uint64_t HostMemory::base_of(uint64_t address) const {
    const auto it = containing(address);
    return it == m_ranges.end() ? 0 : it->first;
}

std::optional<HostRange> HostMemory::find(uint64_t address) const {
    MutexLock lock(m_mutex);
    auto it = containing(address);
    if (it == m_ranges.end()) return std::nullopt;
    return it->second;
}

}  // namespace warpline::client
