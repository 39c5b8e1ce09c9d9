// How many bytes the way to the peer holds, by what comes back from there.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace warpline::protocol {

/// The capacity of the whole way to the peer: what is delivered in the round trip of an idle session. The kernel knows that of
/// its own connection; where TCP ends on the way, only as far as there. What is delivered is never more than the way takes, so
/// a window made of it grows until more of it delivers no more. Pure.
class PathMeter {
public:
    using Clock = std::chrono::steady_clock;

    /// To be called some times per second.
    /// @param delivered_bytes  that the peer has acknowledged, in all
    /// @param round_trip_us    the shortest that was seen; 0: not known yet
    void look(Clock::time_point now, uint64_t delivered_bytes, uint64_t round_trip_us) {
        const double seconds = std::chrono::duration<double>(now - m_at).count();
        if (m_at != Clock::time_point() && seconds < k_shortest_look) return;
        const uint64_t delivered = delivered_bytes - std::min(delivered_bytes, m_delivered_bytes);
        const bool first = m_at == Clock::time_point();
        m_at = now;
        m_delivered_bytes = delivered_bytes;
        if (first) return;
        const auto held =
            static_cast<uint64_t>(static_cast<double>(delivered) / seconds * static_cast<double>(round_trip_us) * 1e-6);
        if (held < m_capacity_bytes && now - m_most_at < k_remembered) return;
        m_capacity_bytes = held;
        m_most_at = now;
    }
    /// The most that was seen within the last ten seconds.
    uint64_t capacity_bytes() const { return m_capacity_bytes; }

private:
    static constexpr double k_shortest_look = 0.05;  // in shorter times, what comes together says nothing
    static constexpr std::chrono::seconds k_remembered{10};

    Clock::time_point m_at{}, m_most_at{};
    uint64_t m_delivered_bytes = 0;
    uint64_t m_capacity_bytes = 0;
};

}  // namespace warpline::protocol
