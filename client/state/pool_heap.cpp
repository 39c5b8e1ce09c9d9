// Which freed memory may be used again, by whom and when.
#include "client/state/pool_heap.h"

#include <algorithm>
#include <iterator>

namespace warpline::client {

namespace {

/// What may be given out for less: half as much again.
uint64_t most_for(uint64_t wanted) { return wanted + wanted / 2 + DeviceMemory::k_alignment; }

}  // namespace

void PoolHeap::give(const StreamKey& key, const DeviceRange& range) {
    MutexLock lock(m_mutex);
    m_freed[key].push_back({range, ++m_sequence});
}

std::optional<DeviceRange> PoolHeap::take(const StreamKey& key, uint64_t pool, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    auto found = m_freed.find(key);
    if (found == m_freed.end()) return std::nullopt;
    const uint64_t wanted = DeviceMemory::rounded(size_bytes);
    const uint64_t most = most_for(wanted);
    std::vector<Freed>& list = found->second;
    auto best = list.end();
    for (auto it = list.begin(); it != list.end(); ++it) {
        uint64_t capacity = it->range.capacity_bytes;
        if (it->range.owner != pool || capacity < wanted || capacity > most) continue;
        if (best == list.end() || capacity < best->range.capacity_bytes) best = it;
    }
    if (best == list.end()) return std::nullopt;
    DeviceRange range = best->range;
    list.erase(best);
    return range;
}

uint64_t PoolHeap::mark() const {
    MutexLock lock(m_mutex);
    return m_sequence;
}

std::vector<DeviceRange> PoolHeap::take_settled(std::vector<Freed>& list, uint64_t mark) {
    std::vector<DeviceRange> free;
    auto later = std::stable_partition(list.begin(), list.end(), [mark](const Freed& freed) { return freed.sequence <= mark; });
    for (auto it = list.begin(); it != later; ++it) free.push_back(it->range);
    list.erase(list.begin(), later);
    return free;
}

std::vector<DeviceRange> PoolHeap::settled(const StreamKey& key, uint64_t mark) {
    MutexLock lock(m_mutex);
    auto found = m_freed.find(key);
    if (found == m_freed.end()) return {};
    std::vector<DeviceRange> free = take_settled(found->second, mark);
    if (found->second.empty()) m_freed.erase(found);
    return free;
}

std::vector<DeviceRange> PoolHeap::context_settled(uint64_t context, uint64_t mark) {
    std::vector<DeviceRange> free;
    MutexLock lock(m_mutex);
    for (auto it = m_freed.begin(); it != m_freed.end();) {
        if (it->first.context == context) {
            std::vector<DeviceRange> some = take_settled(it->second, mark);
            free.insert(free.end(), some.begin(), some.end());
        }
        it = it->second.empty() ? m_freed.erase(it) : std::next(it);
    }
    return free;
}

void PoolHeap::keep(const DeviceRange& range) {
    MutexLock lock(m_mutex);
    m_kept[{range.owner, range.context}].emplace(range.capacity_bytes, range);
    m_keeps.fetch_add(1, std::memory_order_release);
}

std::optional<DeviceRange> PoolHeap::take_kept(uint64_t pool, uint64_t context, uint64_t size_bytes) {
    if (!keeps_any()) return std::nullopt;
    MutexLock lock(m_mutex);
    const auto of_pool = m_kept.find({pool, context});
    if (of_pool == m_kept.end()) return std::nullopt;
    const uint64_t wanted = DeviceMemory::rounded(size_bytes);
    const auto best = of_pool->second.lower_bound(wanted);
    if (best == of_pool->second.end() || best->first > most_for(wanted)) return std::nullopt;
    const DeviceRange range = best->second;
    of_pool->second.erase(best);
    if (of_pool->second.empty()) m_kept.erase(of_pool);
    m_keeps.fetch_sub(1, std::memory_order_release);
    return range;
}

std::vector<DeviceRange> PoolHeap::drop_kept(uint64_t bytes, const std::function<bool(const DeviceRange&)>& which) {
    std::vector<DeviceRange> dropped;
    if (!keeps_any()) return dropped;
    uint64_t sum = 0;
    MutexLock lock(m_mutex);
    for (auto of_pool = m_kept.begin(); of_pool != m_kept.end();) {
        Kept& kept = of_pool->second;
        for (auto it = kept.end(); it != kept.begin() && sum < bytes;) {
            --it;
            if (!which(it->second)) continue;
            sum += it->first;
            dropped.push_back(it->second);
            it = kept.erase(it);
        }
        of_pool = kept.empty() ? m_kept.erase(of_pool) : std::next(of_pool);
    }
    m_keeps.fetch_sub(dropped.size(), std::memory_order_release);
    return dropped;
}

}  // namespace warpline::client
