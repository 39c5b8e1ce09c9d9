// Log lines about connections that are dropped, of which there can be thousands.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

namespace warpline::server {

/// Lets one line a second pass.
class DropNotice {
public:
    using Clock = std::chrono::steady_clock;

    /// @return  how many events this line is about, this one included; 0: no line now
    uint64_t count() {
        ++m_untold;
        const auto now = Clock::now();
        if (now - m_told < k_pause) return 0;
        m_told = now;
        return std::exchange(m_untold, 0);
    }

private:
    static constexpr std::chrono::seconds k_pause{1};
    uint64_t m_untold = 0;
    Clock::time_point m_told;
};

}  // namespace warpline::server
