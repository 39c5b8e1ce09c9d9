// What reports of wrong addresses say about memory nearby.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "common/base/mutex.h"

namespace warpline::softgpu::check {

/// The memory that kernels may touch, and what was freed lately: to say what a wrong address is close to.
class Allocations {
public:
    void add(uint64_t address, uint64_t size_bytes);
    void remove(uint64_t address);
    /// "12 bytes past the end of a 400-byte allocation at 0x7f…", of the first byte that is not valid.
    std::string describe(uint64_t address, uint64_t access_bytes) const;

private:
    struct Piece {
        uint64_t address = 0, size_bytes = 0;
        bool holds(uint64_t at) const { return at >= address && at - address < size_bytes; }
    };
    static constexpr size_t k_remembered = 4096;  ///< freed ones

    mutable Mutex m_mutex;
    std::map<uint64_t, uint64_t> m_live WL_GUARDED_BY(m_mutex);  // address -> bytes
    std::deque<Piece> m_freed WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::softgpu::check
