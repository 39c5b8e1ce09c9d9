// Random numbers for launches whose order is to be a random one.
#pragma once

#include <cstdint>

namespace warpline::softgpu::exec {

/// The order of a launch that is run in a random one: xorshift64*.
class Random {
public:
    explicit Random(uint64_t seed) : m_state(seed * 0x9e3779b97f4a7c15 + 0x2545f4914f6cdd1d) {
        if (m_state == 0) m_state = 1;
    }
    /// Below `limit`.
    uint32_t below(uint32_t limit) {
        m_state ^= m_state >> 12;
        m_state ^= m_state << 25;
        m_state ^= m_state >> 27;
        return uint32_t((m_state * 0x2545f4914f6cdd1d >> 32) % limit);
    }

private:
    uint64_t m_state;
};

}  // namespace warpline::softgpu::exec
