// What it takes a lane's peer to have bytes, plain and encoded.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace warpline::protocol {

/// What a frame tells about its lane when it is acknowledged.
inline constexpr uint8_t k_tells_nothing = 0xff;
inline constexpr size_t k_ways = 4;  ///< plain, 0, and one for each kind of codec
/// Of shorter frames, acknowledgements come with others.
inline constexpr size_t k_telling_bytes = 64 * 1024;

/// What a lane's connection takes for a byte, in nanoseconds, whatever the reason: the network, or a processor at either end.
/// By the way in which it travels: a byte before encoding. 0: not known.
using DeliveryCosts = std::array<double, k_ways>;

/// Measures that, by the time between the acknowledgements of frames that waited for nothing but those before them. When there
/// is little to send, nothing is learnt, and what is known stays. Pure.
class DeliveryMeter {
public:
    using Clock = std::chrono::steady_clock;
    /// A frame of k_telling_bytes or more is acknowledged, with others: acknowledged() follows.
    /// @param way  k_tells_nothing: of one before which the lane had nothing to do, too
    void frame(uint8_t way, uint64_t bytes);
    void acknowledged(Clock::time_point now);
    /// Another connection: what is known says nothing about it.
    void restart() { *this = DeliveryMeter(); }

    DeliveryCosts costs() const;

private:
    /// Sums in which what is older counts for less.
    struct Cost {
        double nanoseconds = 0, bytes = 0;
        unsigned samples = 0;
    };

    std::array<Cost, k_ways> m_costs;
    Clock::time_point m_last_at{};
    uint8_t m_way = k_tells_nothing;  // of what is being acknowledged
    bool m_mixed = false;
    uint64_t m_bytes = 0;
};

}  // namespace warpline::protocol
