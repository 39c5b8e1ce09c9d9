// Whether it is worth looking again for a while before a thread sleeps.
#pragma once

#include <algorithm>

namespace warpline {

/// Learns from whether looking found anything: each time that it did not, twice as many waits pass without it, up to 63. So a
/// thread that waits for something slow spends little on looking for it.
class LookAgain {
public:
    /// To be asked once for each wait; followed by found() or missed() if true.
    bool worth_it() {
        if (m_left_out == 0) return true;
        --m_left_out;
        return false;
    }
    void found() { m_pause = 0; }
    void missed() {
        m_pause = std::min(2 * m_pause + 1, k_longest_pause);
        m_left_out = m_pause;
    }

private:
    static constexpr unsigned k_longest_pause = 63;
    unsigned m_pause = 0;  // waits
    unsigned m_left_out = 0;
};

}  // namespace warpline
