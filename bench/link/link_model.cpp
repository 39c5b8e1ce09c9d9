// The link's arithmetic.
#include "bench/link/link_model.h"

#include <algorithm>
#include <cmath>

namespace warpline::bench {

namespace {

constexpr size_t k_noticing_followers = 3;     // acknowledgements behind a gap that tell the sender of it (RFC 8985)
constexpr double k_beta = 0.7, k_cubic = 0.4;  // RFC 9438, section 4
constexpr double k_reno_growth = 3 * (1 - k_beta) / (1 + k_beta);  // packets in a round trip, section 4.3
constexpr double k_least_window = 2;                               // packets
constexpr double k_unlimited_window = 256e6;                       // bytes under way on a link without a rate
constexpr double k_least_capacity = 256 << 10;                     // bytes: what any receiver has room for

double seconds(LinkTime time) { return static_cast<double>(time.count()) * 1e-9; }

}  // namespace

LinkTime Wire::transmit(LinkTime now, size_t bytes) {
    m_free_at = std::max(m_free_at, now) + LinkTime(std::llround(static_cast<double>(bytes) * m_ns_per_byte));
    return m_free_at;
}

Stream::Stream(Wire& wire, const LinkProperties& link, uint64_t number)
    : m_wire(wire),
      m_link(link),
      m_random(link.seed * 0x9e3779b97f4a7c15u + number),
      m_capacity(k_unlimited_window),
      m_until_loss(packets_before_loss()) {
    if (link.bits_per_s > 0) {
        const double held = link.bits_per_s / 8 * seconds(link.round_trip + link.jitter + link.queue);
        m_capacity = std::max(held, k_least_capacity);
    }
}

std::optional<LinkTime> Stream::may_send_at(LinkTime now) {
    while (!m_acknowledgements.empty() && m_acknowledgements.front().comes <= now) {
        m_under_way -= m_acknowledgements.front().bytes;
        m_acknowledgements.pop_front();
    }
    // Behind a lost packet the receiver holds as much again as is under way.
    if (static_cast<double>(m_arriving) >= 2 * m_capacity) return std::nullopt;
    if (static_cast<double>(m_under_way) >= window(now)) return std::max(m_acknowledgements.front().comes, m_wire.room_at());
    return m_wire.room_at();
}

size_t Stream::room(LinkTime now) const {
    return static_cast<size_t>(std::max(window(now) - static_cast<double>(m_under_way), double{k_packet_bytes}));
}

void Stream::send(LinkTime now, size_t bytes) {
    const LinkTime half = m_link.round_trip / 2;
    const LinkTime arrives = m_wire.transmit(now, bytes) + half + jitter();
    if (bytes > 0) {
        m_acknowledgements.push_back({arrives + half, bytes});
        m_under_way += bytes;
        m_arriving += bytes;
    }
    const size_t packets = (bytes + k_packet_bytes - 1) / k_packet_bytes;
    followed_by(packets, arrives);
    m_pieces.push_back({arrives + losses(now, packets), bytes});
}

std::optional<LinkTime> Stream::next_arrival() const {
    if (m_pieces.empty()) return std::nullopt;
    return m_pieces.front().arrives;
}

void Stream::take() {
    m_arriving -= m_pieces.front().bytes;
    m_pieces.pop_front();
    ++m_taken;
}

/// What the losses among the next packets cost the piece that consists of them, which has not joined m_pieces yet.
LinkTime Stream::losses(LinkTime now, size_t packets) {
    LinkTime late{0};
    size_t looked_at = 0;
    while (m_until_loss < packets - looked_at) {
        looked_at += m_until_loss + 1;
        ++m_lost;
        LinkTime cost = m_link.round_trip;
        // What is sent again may be lost again.
        while (std::bernoulli_distribution(m_link.loss)(m_random)) {
            ++m_lost;
            cost += m_link.round_trip;
        }
        const size_t followers = packets - looked_at;
        if (followers < k_noticing_followers) {
            cost += m_link.round_trip;
            m_unnoticed = Unnoticed{m_taken + m_pieces.size(), followers};
        }
        late = std::max(late, cost);
        shrink_window(now);
        m_until_loss = packets_before_loss();
    }
    m_until_loss -= packets - looked_at;
    return late;
}

/// Packets that follow a loss tell the sender of it, before its probe does.
void Stream::followed_by(size_t packets, LinkTime arrives) {
    if (!m_unnoticed) return;
    if (m_unnoticed->piece < m_taken) {
        m_unnoticed.reset();
        return;
    }
    m_unnoticed->followers += packets;
    if (m_unnoticed->followers < k_noticing_followers) return;
    LinkTime& late = m_pieces[m_unnoticed->piece - m_taken].arrives;
    late = std::min(late, arrives + m_link.round_trip);
    m_unnoticed.reset();
}

double Stream::window(LinkTime now) const {
    if (!m_shrunk_at) return m_capacity;
    const double since = seconds(now - *m_shrunk_at), trip = std::max(seconds(m_link.round_trip), 1e-6);
    const double until_as_before = std::cbrt(m_window_before * (1 - k_beta) / k_cubic);
    const double cubic = k_cubic * std::pow(since - until_as_before, 3) + m_window_before;
    const double reno = k_beta * m_window_before + k_reno_growth * since / trip;
    return std::min(std::max({cubic, reno, k_least_window}) * k_packet_bytes, m_capacity);
}

/// At most once in a round trip: what else is lost in it belongs to the same event.
void Stream::shrink_window(LinkTime now) {
    if (m_shrunk_at && now < *m_shrunk_at + m_link.round_trip) return;
    m_window_before = window(now) / k_packet_bytes;
    m_shrunk_at = now;
}

LinkTime Stream::jitter() {
    const int64_t most = m_link.jitter.count() / 2;  // this direction's part of it
    return LinkTime(std::uniform_int_distribution<int64_t>(-most, most)(m_random));
}

uint64_t Stream::packets_before_loss() {
    if (m_link.loss <= 0) return std::numeric_limits<uint64_t>::max();
    return std::geometric_distribution<uint64_t>(m_link.loss)(m_random);
}

}  // namespace warpline::bench
