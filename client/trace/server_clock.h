// The server's clock by this machine's.
#pragma once

#include <cstdint>
#include <optional>

namespace warpline::client::trace {

/// How far another machine's steady clock is ahead of this one's, from what is known of causes: what it says was sent before it
/// came here, and its answer after the question left. The best of all that was seen counts; as clocks drift, what is old counts
/// for less. Pure. Not for several threads at a time.
class ServerClock {
public:
    /// Clocks that are kept by a time service differ by less than this, in parts per million.
    static constexpr int64_t k_drift_ppm = 20;

    /// Something that left there at `there` came here at `here`. Nanoseconds, as everywhere.
    void came(int64_t there_ns, int64_t here_ns);
    /// Something that left here at `here` had come there at `there`.
    void left(int64_t here_ns, int64_t there_ns);

    struct Estimate {
        int64_t ahead_ns = 0;
        int64_t error_ns = 0;  ///< either way
    };
    /// Nothing before something has gone each way.
    std::optional<Estimate> at(int64_t here_ns) const;

private:
    struct Bound {
        int64_t ahead_ns;
        int64_t at_ns;
        int64_t drift(int64_t now_ns) const { return (now_ns - at_ns) / 1'000'000 * k_drift_ppm; }
    };

    std::optional<Bound> m_least;  // it is at least so much ahead
    std::optional<Bound> m_most;
};

}  // namespace warpline::client::trace
