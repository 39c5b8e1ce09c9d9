// A queue of freed memory, of bounded size.
#include "softgpu/driver/space/quarantine.h"

namespace warpline::softgpu::driver {

std::vector<uint64_t> Quarantine::add(uint64_t address, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    m_pieces.push_back({address, size_bytes});
    m_bytes += size_bytes;
    std::vector<uint64_t> leaving;
    while (m_bytes > m_most_bytes) {
        leaving.push_back(m_pieces.front().address);
        m_bytes -= m_pieces.front().size_bytes;
        m_pieces.pop_front();
    }
    return leaving;
}

std::vector<uint64_t> Quarantine::take_all() {
    MutexLock lock(m_mutex);
    std::vector<uint64_t> leaving;
    for (const Piece& piece : m_pieces) leaving.push_back(piece.address);
    m_pieces.clear();
    m_bytes = 0;
    return leaving;
}

}  // namespace warpline::softgpu::driver
