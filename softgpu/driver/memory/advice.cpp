// Ranges of managed memory with what was said about them.
#include "softgpu/driver/memory/advice.h"

#include <algorithm>
#include <iterator>

namespace warpline::softgpu::driver {

AdviceMap& AdviceMap::instance() {
    static auto* map = new AdviceMap;  // leaked on purpose: calls come after static destructors
    return *map;
}

void AdviceMap::split(uint64_t at) {
    auto after = m_pieces.upper_bound(at);
    if (after == m_pieces.begin()) return;
    auto piece = std::prev(after);
    if (piece->first == at || piece->second.end <= at) return;
    m_pieces.emplace(at, piece->second);
    piece->second.end = at;
}

std::vector<AdviceMap::Advice*> AdviceMap::pieces(uint64_t begin, uint64_t end) {
    split(begin);
    split(end);
    std::vector<Advice*> found;
    for (uint64_t at = begin; at < end;) {
        auto piece = m_pieces.lower_bound(at);
        if (piece == m_pieces.end() || piece->first > at) {
            uint64_t stop = piece == m_pieces.end() ? end : std::min(end, piece->first);
            piece = m_pieces.emplace(at, Piece{stop, {}}).first;
        }
        found.push_back(&piece->second.advice);
        at = piece->second.end;
    }
    return found;
}

std::vector<AdviceMap::Advice> AdviceMap::read(uint64_t address, uint64_t size_bytes) const {
    std::vector<Advice> found;
    uint64_t at = address, end = address + size_bytes;
    MutexLock lock(m_mutex);
    while (at < end) {
        auto after = m_pieces.upper_bound(at);
        if (after != m_pieces.begin() && std::prev(after)->second.end > at) {
            found.push_back(std::prev(after)->second.advice);
            at = std::prev(after)->second.end;
        } else {
            found.emplace_back();
            at = after == m_pieces.end() ? end : after->first;
        }
    }
    return found;
}

void AdviceMap::forget(uint64_t address, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    split(address);
    split(address + size_bytes);
    m_pieces.erase(m_pieces.lower_bound(address), m_pieces.lower_bound(address + size_bytes));
}

}  // namespace warpline::softgpu::driver
