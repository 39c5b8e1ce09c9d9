// The link emulator's arithmetic, with a clock that the tests move (E8).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/link/link_model.h"

namespace warpline::bench {
namespace {

using namespace std::chrono_literals;

double seconds(LinkTime time) { return static_cast<double>(time.count()) * 1e-9; }

/// Senders that have always something to send and receivers that take what arrives, on one wire, by a virtual clock.
class Senders {
public:
    Senders(const LinkProperties& link, size_t count, size_t piece) : m_wire(link), m_piece(piece), received(count) {
        for (size_t i = 0; i < count; ++i) m_streams.emplace_back(m_wire, link, i);
    }

    void run_until(LinkTime end) {
        for (;;) {
            deliver();
            send();
            LinkTime next = end;
            for (Stream& stream : m_streams) {
                if (const auto at = stream.next_arrival()) next = std::min(next, std::max(*at, m_now));
                if (const auto at = stream.may_send_at(m_now)) next = std::min(next, std::max(*at, m_now + 1ns));
            }
            if (next >= end) return;
            m_now = next;
        }
    }

    const Stream& stream(size_t i) const { return m_streams[i]; }
    uint64_t sent_packets = 0;

private:
    void deliver() {
        for (size_t i = 0; i < m_streams.size(); ++i)
            for (auto at = m_streams[i].next_arrival(); at && *at <= m_now; at = m_streams[i].next_arrival()) {
                m_streams[i].take();
                received[i] += m_sizes[i].front();
                m_sizes[i].pop_front();
            }
    }
    /// In turn, as the relay's gate has it.
    void send() {
        for (size_t idle = 0; idle < m_streams.size();) {
            const size_t i = m_turn++ % m_streams.size();
            const auto may = m_streams[i].may_send_at(m_now);
            if (!may || *may > m_now) {
                ++idle;
                continue;
            }
            idle = 0;
            const size_t bytes = std::min(m_piece, m_streams[i].room(m_now));
            m_streams[i].send(m_now, bytes);
            m_sizes[i].push_back(bytes);
            sent_packets += (bytes + k_packet_bytes - 1) / k_packet_bytes;
        }
    }

    Wire m_wire;
    std::vector<Stream> m_streams;
    std::deque<size_t> m_sizes[4];
    size_t m_piece;
    size_t m_turn = 0;
    LinkTime m_now{0};

public:
    std::vector<uint64_t> received;
};

TEST(LinkModelTest, e8_a_byte_takes_half_the_round_trip) {
    const LinkProperties link{.round_trip = 10ms, .bits_per_s = 1e9};
    Wire wire(link);
    Stream stream(wire, link, 0);
    EXPECT_LE(stream.may_send_at(1s).value(), 1s);
    stream.send(1s, 1);
    EXPECT_EQ(stream.next_arrival().value(), 1s + 5ms + 8ns);
    stream.take();
    EXPECT_FALSE(stream.next_arrival());
}

TEST(LinkModelTest, e8_the_rate_is_exact) {
    for (const double rate : {1e8, 1e9, 25e9}) {
        for (const LinkTime round_trip : {LinkTime(50us), LinkTime(10ms), LinkTime(150ms)}) {
            Senders senders({.round_trip = round_trip, .bits_per_s = rate}, 1, static_cast<size_t>(rate / 8 * 0.0005));
            const LinkTime end = 1s;
            senders.run_until(end);
            const double expected = rate / 8 * seconds(end - round_trip / 2);
            EXPECT_NEAR(static_cast<double>(senders.received[0]) / expected, 1, 0.01) << rate << " " << seconds(round_trip);
        }
    }
}

TEST(LinkModelTest, e8_connections_share_the_rate) {
    Senders senders({.round_trip = 20ms, .bits_per_s = 1e9}, 3, 60000);
    senders.run_until(1s);
    const double all = 1e9 / 8 * 0.99;
    for (const uint64_t received : senders.received) EXPECT_NEAR(static_cast<double>(received), all / 3, all * 0.01);
}

TEST(LinkModelTest, e8_what_waits_for_the_link_is_bounded) {
    const LinkProperties link{.round_trip = 10ms, .bits_per_s = 1e8, .queue = 5ms};
    Wire wire(link);
    Stream busy(wire, link, 0), other(wire, link, 1);
    constexpr size_t k_piece = 6250;  // half a millisecond
    int pieces = 0;
    for (; busy.may_send_at(0ns).value() <= 0ns; ++pieces) busy.send(0ns, k_piece);
    EXPECT_EQ(pieces, 11);  // 5 ms, and the one for which there was room
    // Another connection waits for what is in the queue, and no longer.
    const LinkTime may = other.may_send_at(0ns).value();
    EXPECT_EQ(may, 500us);
    other.send(may, 1);
    EXPECT_NEAR(seconds(other.next_arrival().value() - may), 0.010, 1e-6);
}

TEST(LinkModelTest, e8_who_does_not_read_stops_the_sender) {
    const LinkProperties link{.round_trip = 10ms, .bits_per_s = 1e9};
    Wire wire(link);
    Stream stream(wire, link, 0);
    LinkTime now{0};
    uint64_t sent = 0;
    for (auto may = stream.may_send_at(now); may; may = stream.may_send_at(now)) {
        now = std::max(now, *may);
        if (*may < now || stream.may_send_at(now).value_or(now + 1ns) <= now) {
            stream.send(now, 60000);
            sent += 60000;
        }
        ASSERT_LT(sent, uint64_t{100} << 20) << "nobody takes it, and it is sent";
    }
    EXPECT_GE(sent, 2u * 1875000);  // twice what the link and its queue hold
    stream.take();
    EXPECT_TRUE(stream.may_send_at(now));
}

TEST(LinkModelTest, e8_jitter_is_even_and_keeps_the_mean) {
    const LinkProperties link{.round_trip = 20ms, .jitter = 8ms};
    Wire wire(link);
    Stream stream(wire, link, 0);
    double sum = 0, least = 1, most = 0;
    constexpr int k_pieces = 20000;
    for (int i = 0; i < k_pieces; ++i) {
        const LinkTime now = i * 100ms;
        stream.send(now, 100);
        const double took = seconds(stream.next_arrival().value() - now);
        stream.take();
        sum += took, least = std::min(least, took), most = std::max(most, took);
    }
    EXPECT_NEAR(sum / k_pieces, 0.010, 0.0001);
    EXPECT_NEAR(least, 0.006, 0.0001);
    EXPECT_NEAR(most, 0.014, 0.0001);
}

TEST(LinkModelTest, e8_a_lost_packet_that_others_follow_comes_a_round_trip_late) {
    const LinkProperties link{.round_trip = 10ms, .loss = 0.01};
    Wire wire(link);
    Stream stream(wire, link, 0);
    constexpr size_t k_piece = 10 * k_packet_bytes;
    int late = 0, on_time = 0, by_probe = 0;
    constexpr int k_pieces = 5000;
    for (int i = 0; i < k_pieces; ++i) {
        const LinkTime now = i * 100ms;
        stream.send(now, k_piece);
        stream.send(now + 1ms, k_piece);  // follows
        const LinkTime took = stream.next_arrival().value() - now;
        stream.take();
        stream.take();
        // Noticed by a packet of the same piece, or by the next one, which comes a millisecond later.
        if (took == 15ms || took == 16ms)
            ++late;
        else if (took == 5ms)
            ++on_time;
        else if (took >= 25ms)
            ++by_probe;  // what was sent again was lost, too
    }
    EXPECT_EQ(late + on_time + by_probe, k_pieces);
    EXPECT_NEAR(static_cast<double>(late) / k_pieces, 1 - std::pow(0.99, 10), 0.015);
    EXPECT_LT(by_probe, 50);
}

TEST(LinkModelTest, e8_a_lost_packet_that_nothing_follows_waits_for_the_probe) {
    const LinkProperties link{.round_trip = 10ms, .loss = 0.5, .seed = 7};
    Wire wire(link);
    Stream stream(wire, link, 0);
    int least_late = 0, on_time = 0;
    constexpr int k_pieces = 4000;
    for (int i = 0; i < k_pieces; ++i) {
        const LinkTime now = i * 1s;
        stream.send(now, 1);
        const LinkTime took = stream.next_arrival().value() - now;
        stream.take();
        if (took == 5ms) ++on_time;
        if (took == 25ms) ++least_late;
        EXPECT_NE(took, 15ms);
    }
    EXPECT_NEAR(on_time, k_pieces / 2, 130);
    EXPECT_NEAR(least_late, k_pieces / 4, 110);  // and the probe's packet was not lost
}

TEST(LinkModelTest, e8_losses_are_as_many_as_asked_for) {
    Senders senders({.round_trip = 10ms, .bits_per_s = 1e9, .loss = 0.001}, 1, 62500);
    senders.run_until(20s);
    const double expected = static_cast<double>(senders.sent_packets) * 0.001;
    EXPECT_NEAR(static_cast<double>(senders.stream(0).lost_packets()), expected, 4 * std::sqrt(expected));
}

TEST(LinkModelTest, e8_loss_makes_the_window_small_as_tcp_does) {
    // RFC 9438, 5.1: the average window of Reno-friendly CUBIC is sqrt(3/2/p) packets; that of CUBIC, 1.054 (RTT^3/p^3)^(1/4).
    const double loss = 0.001, trip = 0.02;
    Senders senders({.round_trip = 20ms, .bits_per_s = 1e10, .loss = loss}, 1, 62500);
    senders.run_until(10s);  // by then it has come down from the link's
    const uint64_t before = senders.received[0];
    senders.run_until(70s);
    const double window = static_cast<double>(senders.received[0] - before) / 60 * trip / k_packet_bytes;
    const double reno = std::sqrt(1.5 / loss), cubic = 1.054 * std::pow(trip / loss, 0.75);
    EXPECT_NEAR(window / std::max(reno, cubic), 1, 0.2) << window << " packets, expected " << reno << " or " << cubic;
    EXPECT_LT(window, 1e10 / 8 * trip / k_packet_bytes / 20);  // far less than the link
}

TEST(LinkModelTest, e8_the_window_grows_again_after_a_loss) {
    const LinkProperties link{.round_trip = 20ms, .bits_per_s = 1e8, .loss = 0.02};
    Wire wire(link);
    Stream stream(wire, link, 0);
    const double full = stream.window(0ns);
    for (int i = 0; stream.lost_packets() == 0; ++i) stream.send(1s, k_packet_bytes);
    EXPECT_NEAR(stream.window(1s) / full, 0.7, 0.01);
    EXPECT_LT(stream.window(2s), full + 1);
    EXPECT_GT(stream.window(2s), stream.window(1s));
    EXPECT_EQ(stream.window(20s), full);
}

}  // namespace
}  // namespace warpline::bench
