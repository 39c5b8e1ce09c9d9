// Freed memory that is not allocated again at once.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "common/base/mutex.h"

namespace warpline::softgpu::driver {

/// Freed memory that is kept from being allocated again, so that late accesses are noticed. Any thread may call.
class Quarantine {
public:
    explicit Quarantine(uint64_t most_bytes) : m_most_bytes(most_bytes) {}
    /// Returns what leaves to make room.
    std::vector<uint64_t> add(uint64_t address, uint64_t size_bytes);
    std::vector<uint64_t> take_all();

private:
    struct Piece {
        uint64_t address, size_bytes;
    };
    const uint64_t m_most_bytes;
    Mutex m_mutex;
    std::deque<Piece> m_pieces WL_GUARDED_BY(m_mutex);
    uint64_t m_bytes WL_GUARDED_BY(m_mutex) = 0;
};

}  // namespace warpline::softgpu::driver
