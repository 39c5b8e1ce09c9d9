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

/// The peer acknowledges when it has this much, at the latest. What is less waits for whatever it sends next.
inline constexpr uint64_t k_acknowledged_bytes = 512 * 1024;

/// What is known of a lane's connection.
struct Deliveries {
    DeliveryCosts costs{};
    std::array<uint64_t, k_ways> samples{};  ///< that were taken of each way, in all
};

/// A lane's, for its writer.
class LaneMeter {
public:
    virtual ~LaneMeter() = default;
    virtual Deliveries deliveries() const = 0;
    virtual void renew(uint8_t way) = 0;
};

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
    /// What is known of a way gives place to what is measured from now on, as soon as that is enough.
    void renew(uint8_t way);

    DeliveryCosts costs() const;
    Deliveries deliveries() const;
    static constexpr unsigned k_least_samples = 3;

private:
    /// Sums in which what is older counts for less.
    struct Cost {
        double nanoseconds = 0, bytes = 0;
        unsigned samples = 0;
        double before = 0;    // it was renewed
        uint64_t in_all = 0;  // samples
    };

    bool came_late(uint64_t bytes, double nanoseconds);

    std::array<Cost, k_ways> m_costs;
    Clock::time_point m_last_at{};
    uint8_t m_way = k_tells_nothing;  // of what is being acknowledged
    bool m_mixed = false;
    unsigned m_late = 0;  // acknowledgements, one after the other
    uint64_t m_bytes = 0;
};

}  // namespace warpline::protocol
