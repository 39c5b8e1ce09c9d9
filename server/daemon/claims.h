// Places that are kept for clients who have chosen this server and are on their way.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>

namespace warpline::server {

/// A place counts as a session until a connection takes it, or its time is over. Whoever comes takes the oldest: who it was
/// kept for is not known, and need not be, as only the number counts.
class Claims {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::seconds k_lifetime{10};

    void keep(Clock::time_point now) { m_until.push_back(now + k_lifetime); }
    void take() {
        if (!m_until.empty()) m_until.pop_front();
    }
    size_t count(Clock::time_point now) {
        while (!m_until.empty() && m_until.front() <= now) m_until.pop_front();
        return m_until.size();
    }

private:
    std::deque<Clock::time_point> m_until;  // oldest first
};

}  // namespace warpline::server
