// What is known of a connection's quality: measured round trips, and bytes per second.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

namespace warpline::protocol {

using Clock = std::chrono::steady_clock;

/// How a connection stands (docs/wire-format.md#heartbeat). Each level is worse than the one before it.
enum class LinkLevel : uint8_t { up, slow, suspect, lost };
const char* to_string(LinkLevel level);

/// What the kernel knows of its own connection, which may end at a relay: as far as there.
struct KernelPath {
    uint64_t capacity_bytes = 0;  ///< what was under way at the best rate with nothing waiting in a queue; 0: not known
    uint64_t round_trip_us = 0;   ///< smoothed; 0: not known
    uint64_t congestion_window_bytes = 0;
    uint64_t sent_segments = 0, repeated_segments = 0;
    uint64_t received_segments = 0, disordered_segments = 0;
    bool outlasts_losses = false;

    /// True if it is losses that bound how fast this connection is, one way or the other: several of them do more together. Not
    /// known of what the peer sends over a connection of its own control; what comes out of order tells of it.
    bool suffers_from_losses() const;
};

/// A connection as its heartbeat sees it: a copy, taken at one moment.
struct LinkQuality {
    LinkLevel level = LinkLevel::up;
    Clock::time_point level_since;
    uint32_t level_changes = 0;

    // Of Pings and their Pongs, the peer's receiving thread included. 0 before the first one.
    uint64_t round_trips = 0;
    uint64_t round_trip_us = 0;            ///< the last one
    uint64_t smoothed_round_trip_us = 0;   ///< RFC 6298, SRTT
    uint64_t round_trip_variation_us = 0;  ///< RFC 6298, RTTVAR
    uint64_t minimum_round_trip_us = 0;
    uint64_t jitter_us = 0;  ///< smoothed difference of successive round trips (RFC 3550, 6.4.1)

    uint64_t pings = 0;
    uint64_t missed_pings = 0;  ///< in whose time for an answer nothing at all came
    double loss() const { return pings == 0 ? 0 : static_cast<double>(missed_pings) / static_cast<double>(pings); }

    uint64_t part_bytes = 0;  ///< of long payloads that are sent, as it suits the link
    KernelPath kernel;
    uint64_t window_bytes = 0;      ///< of them, that are sent and not acknowledged
    uint64_t sent_bytes_per_s = 0;  ///< of the last two seconds, as both below; frames, without TLS and TCP
    uint64_t received_bytes_per_s = 0;
};

/// The round trip and its variation, as TCP computes them (RFC 6298, section 2). Pure.
class RoundTrips {
public:
    void add(uint64_t sample_us);
    /// How long an answer may take: SRTT + max(granularity, 4 × RTTVAR); one second before the first sample.
    uint64_t timeout_us(uint64_t granularity_us) const;

    uint64_t count() const { return m_count; }
    uint64_t last_us() const { return m_last_us; }
    uint64_t smoothed_us() const { return m_smoothed_us; }
    uint64_t variation_us() const { return m_variation_us; }
    uint64_t minimum_us() const { return m_minimum_us; }
    uint64_t jitter_us() const { return m_jitter_us; }

private:
    uint64_t m_count = 0;
    uint64_t m_last_us = 0;
    uint64_t m_smoothed_us = 0;
    uint64_t m_variation_us = 0;
    uint64_t m_minimum_us = 0;
    uint64_t m_jitter_us = 0;
};

/// Bytes per second, over the time between the oldest total that is kept and the newest. Pure.
class RateWindow {
public:
    struct Totals {
        uint64_t sent_bytes = 0;
        uint64_t received_bytes = 0;
    };

    explicit RateWindow(Clock::time_point now) { m_points.push_back({now, {}}); }
    /// The totals at this moment; those of more than two seconds ago are forgotten, but for the newest of them.
    void add(Clock::time_point now, Totals totals);
    /// Per second, if the totals are these now. Zeros within the first millisecond.
    Totals rate(Clock::time_point now, Totals totals) const;

private:
    struct Point {
        Clock::time_point at;
        Totals totals;
    };
    std::deque<Point> m_points;  // never empty
};

}  // namespace warpline::protocol
