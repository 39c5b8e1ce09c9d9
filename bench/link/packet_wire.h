// What a network path does to the packets on it, computed: rate, delay, loss, and a queue that drops what it has no room for.
// No socket, no thread, and no clock of its own; above it, TCP is the kernel's.
#pragma once

#include <optional>
#include <random>

#include "bench/link/link_model.h"

namespace warpline::bench {

/// One direction of the path.
class PacketWire {
public:
    /// @param number  makes the chances of the two directions different
    PacketWire(const LinkProperties& link, uint64_t number)
        : m_delay(link.round_trip / 2),
          m_queue(link.queue),
          m_ns_per_byte(link.bits_per_s > 0 ? 8e9 / link.bits_per_s : 0),
          m_loss(link.loss),
          m_random(link.seed * 2 + number) {}

    /// A packet comes to the queue. @return when it arrives; nothing: it is lost, or there was no room
    std::optional<LinkTime> send(LinkTime now, size_t bytes) {
        const LinkTime begins = std::max(now, m_free_at);
        if (begins - now > m_queue) {
            ++m_dropped;
            return std::nullopt;
        }
        m_free_at = begins + LinkTime(static_cast<int64_t>(static_cast<double>(bytes) * m_ns_per_byte));
        if (m_loss > 0 && std::bernoulli_distribution(m_loss)(m_random)) {
            ++m_lost;
            return std::nullopt;
        }
        ++m_passed;
        return m_free_at + m_delay;
    }

    uint64_t passed() const { return m_passed; }
    uint64_t lost() const { return m_lost; }        ///< by chance
    uint64_t dropped() const { return m_dropped; }  ///< for want of room

private:
    LinkTime m_delay, m_queue;
    double m_ns_per_byte, m_loss;
    std::mt19937_64 m_random;
    LinkTime m_free_at{0};
    uint64_t m_passed = 0, m_lost = 0, m_dropped = 0;
};

}  // namespace warpline::bench
