// Tells the engines which memory comes and goes.
#include "softgpu/driver/space/visible_ranges.h"

#include "common/log/log.h"
#include "softgpu/check/checker.h"
#include "softgpu/exec/api.h"

namespace warpline::softgpu::driver {

bool VisibleRanges::sees(int accessor, int owner) const {
    return owner == k_all_devices || owner == accessor || m_peers.contains({accessor, owner});
}

void VisibleRanges::tell(exec::Memory& memory, uint64_t address, uint64_t size_bytes, bool valid) {
    Result<void> result = valid ? memory.add_range(address, size_bytes) : memory.remove_range(address, size_bytes);
    if (!result) WL_LOG(error, "softgpu", "range {:#x}+{:#x}: {}", address, size_bytes, result.error().what);
}

void VisibleRanges::attach(int device, exec::Memory* memory) {
    MutexLock lock(m_mutex);
    m_memories[device] = memory;
    for (const auto& [address, range] : m_ranges) {
        if (sees(device, range.owner)) tell(*memory, address, range.size_bytes, true);
    }
}

void VisibleRanges::add(int owner, uint64_t address, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    m_ranges[address] = {owner, size_bytes};
    if (m_checker != nullptr) m_checker->allocations.add(address, size_bytes);
    for (auto [device, memory] : m_memories) {
        if (sees(device, owner)) tell(*memory, address, size_bytes, true);
    }
}

void VisibleRanges::remove(uint64_t address) {
    MutexLock lock(m_mutex);
    auto range = m_ranges.find(address);
    if (range == m_ranges.end()) return;
    for (auto [device, memory] : m_memories) {
        if (sees(device, range->second.owner)) tell(*memory, address, range->second.size_bytes, false);
    }
    m_ranges.erase(range);
    if (m_checker != nullptr) m_checker->allocations.remove(address);
}

void VisibleRanges::allow_peer(int accessor, int owner) {
    MutexLock lock(m_mutex);
    if (m_peers[{accessor, owner}]++ != 0 || accessor == owner) return;
    auto memory = m_memories.find(accessor);
    if (memory == m_memories.end()) return;
    for (const auto& [address, range] : m_ranges) {
        if (range.owner == owner) tell(*memory->second, address, range.size_bytes, true);
    }
}

void VisibleRanges::deny_peer(int accessor, int owner) {
    MutexLock lock(m_mutex);
    auto peer = m_peers.find({accessor, owner});
    if (peer == m_peers.end() || --peer->second != 0) return;
    m_peers.erase(peer);
    auto memory = m_memories.find(accessor);
    if (memory == m_memories.end() || accessor == owner) return;
    for (const auto& [address, range] : m_ranges) {
        if (range.owner == owner) tell(*memory->second, address, range.size_bytes, false);
    }
}

}  // namespace warpline::softgpu::driver
