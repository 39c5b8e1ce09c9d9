// Free pieces by offset; neighbours are joined.
#include "softgpu/driver/space/pieces.h"

#include <iterator>

namespace warpline::softgpu::driver {

bool Pieces::take(uint64_t size_bytes, uint64_t* offset) {
    for (auto piece = m_free.begin(); piece != m_free.end(); ++piece) {
        if (piece->second < size_bytes) continue;
        *offset = piece->first;
        uint64_t left = piece->second - size_bytes;
        m_free.erase(piece);
        if (left != 0) m_free.emplace(*offset + size_bytes, left);
        return true;
    }
    return false;
}

void Pieces::put(uint64_t offset, uint64_t size_bytes) {
    auto piece = m_free.emplace(offset, size_bytes).first;
    auto next = std::next(piece);
    if (next != m_free.end() && offset + size_bytes == next->first) {
        piece->second += next->second;
        m_free.erase(next);
    }
    if (piece == m_free.begin()) return;
    auto before = std::prev(piece);
    if (before->first + before->second != offset) return;
    before->second += piece->second;
    m_free.erase(piece);
}

}  // namespace warpline::softgpu::driver
