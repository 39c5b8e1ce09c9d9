// Allocations by address, and the ones that were freed last.
#include "softgpu/check/allocations.h"

#include <algorithm>
#include <iterator>

#include "common/log/log.h"

namespace warpline::softgpu::check {

namespace {

std::string count(uint64_t bytes) { return log::format("{} byte{}", bytes, bytes == 1 ? "" : "s"); }

}  // namespace

void Allocations::add(uint64_t address, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    m_live[address] = size_bytes;
    std::erase_if(m_freed, [&](const Piece& piece) {
        return piece.address < address + size_bytes && address < piece.address + piece.size_bytes;
    });
}

void Allocations::remove(uint64_t address) {
    MutexLock lock(m_mutex);
    auto found = m_live.find(address);
    if (found == m_live.end()) return;
    m_freed.push_back({address, found->second});
    if (m_freed.size() > k_remembered) m_freed.pop_front();
    m_live.erase(found);
}

std::string Allocations::describe(uint64_t address, uint64_t access_bytes) const {
    MutexLock lock(m_mutex);
    for (const Piece& piece : m_freed) {
        if (!piece.holds(address)) continue;
        return log::format("{} into a {}-byte allocation at {:#x} that was freed", count(address - piece.address),
                           piece.size_bytes, piece.address);
    }
    auto after = m_live.upper_bound(address);
    uint64_t past = UINT64_MAX, before = UINT64_MAX;
    if (after != m_live.begin()) {
        auto [begin, size] = *std::prev(after);
        if (address - begin < size) {
            return log::format("the last {} of the access are past the end of a {}-byte allocation at {:#x}",
                               count(address + access_bytes - begin - size), size, begin);
        }
        past = address - begin - size;
    }
    if (after != m_live.end()) before = after->first - address;
    if (past == UINT64_MAX && before == UINT64_MAX) return "there is no allocation";
    if (past <= before) {
        auto [begin, size] = *std::prev(after);
        return log::format("{} past the end of a {}-byte allocation at {:#x}", count(past), size, begin);
    }
    return log::format("{} before a {}-byte allocation at {:#x}", count(before), after->second, after->first);
}

}  // namespace warpline::softgpu::check
