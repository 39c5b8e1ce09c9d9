// Pieces of memory with what was said of each.
#include "client/state/advice.h"

namespace warpline::client {

void Advice::split(uint64_t at) {
    auto after = m_pieces.upper_bound(at);
    if (after == m_pieces.begin()) return;
    const auto before = std::prev(after);
    if (before->first == at || before->second.end <= at) return;
    Entry second{before->second.end, before->second.piece};
    before->second.end = at;
    m_pieces.emplace(at, std::move(second));
}

std::vector<Advice::Piece> Advice::read(uint64_t address, uint64_t size_bytes) const {
    std::vector<Piece> out;
    const uint64_t end = address + size_bytes;
    MutexLock lock(m_mutex);
    auto it = m_pieces.upper_bound(address);
    if (it != m_pieces.begin() && std::prev(it)->second.end > address) --it;
    uint64_t at = address;
    for (; it != m_pieces.end() && it->first < end; ++it) {
        if (it->first > at) out.emplace_back();
        out.push_back(it->second.piece);
        at = it->second.end;
    }
    if (at < end) out.emplace_back();
    return out;
}

void Advice::forget(uint64_t address, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    const uint64_t end = address + size_bytes;
    split(address);
    split(end);
    m_pieces.erase(m_pieces.lower_bound(address), m_pieces.lower_bound(end));
}

}  // namespace warpline::client
