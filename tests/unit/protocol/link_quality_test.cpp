// Round trips as RFC 6298 computes them, and rates over a window.
#include "protocol/codec/link_quality.h"

#include <gtest/gtest.h>

#include <vector>

namespace warpline::protocol {
namespace {

using namespace std::chrono_literals;

TEST(RoundTrips, FollowRfc6298_C1) {
    // Worked out by hand from sections 2.2 and 2.3, with a granularity of 10.
    struct Row {
        uint64_t sample, smoothed, variation, timeout, minimum, jitter;
    };
    const Row rows[] = {
        {800, 800, 400, 2400, 800, 0},
        {800, 800, 300, 2000, 800, 0},
        {1600, 900, 425, 2600, 800, 50},  // variation: (3 × 300 + |800 - 1600|) / 4, before the mean moves
        {100, 800, 518, 2872, 100, 140},
    };
    RoundTrips trips;
    EXPECT_EQ(trips.timeout_us(10), 1'000'000u);  // section 2.1
    for (const Row& row : rows) {
        trips.add(row.sample);
        EXPECT_EQ(trips.last_us(), row.sample);
        EXPECT_EQ(trips.smoothed_us(), row.smoothed) << row.sample;
        EXPECT_EQ(trips.variation_us(), row.variation) << row.sample;
        EXPECT_EQ(trips.timeout_us(10), row.timeout) << row.sample;
        EXPECT_EQ(trips.minimum_us(), row.minimum) << row.sample;
        EXPECT_EQ(trips.jitter_us(), row.jitter) << row.sample;
    }
    EXPECT_EQ(trips.count(), 4u);
    for (int i = 0; i < 200; ++i) trips.add(500);
    EXPECT_EQ(trips.timeout_us(10000), trips.smoothed_us() + 10000) << "the granularity is the least variation";
}

TEST(RateWindow, CountsTheLastTwoSeconds_C1) {
    const Clock::time_point start = Clock::time_point{} + 1h;
    RateWindow window(start);
    EXPECT_EQ(window.rate(start, {5, 5}).sent_bytes, 0u) << "no time has passed";
    EXPECT_EQ(window.rate(start + 500ms, {1000, 3000}).sent_bytes, 2000u);
    EXPECT_EQ(window.rate(start + 500ms, {1000, 3000}).received_bytes, 6000u);
    // A megabyte per second for ten seconds, then nothing for three.
    RateWindow::Totals totals;
    auto now = start;
    for (int i = 0; i < 40; ++i) {
        now += 250ms;
        totals.sent_bytes += 250'000;
        window.add(now, totals);
    }
    EXPECT_NEAR(static_cast<double>(window.rate(now, totals).sent_bytes), 1e6, 1e3);
    for (int i = 0; i < 4; ++i) window.add(now += 250ms, totals);
    EXPECT_NEAR(static_cast<double>(window.rate(now, totals).sent_bytes), 0.5e6, 1e3);
    for (int i = 0; i < 8; ++i) window.add(now += 250ms, totals);
    EXPECT_EQ(window.rate(now, totals).sent_bytes, 0u);
    // Looks that are closer than anybody needs shorten the window, and cost no more memory.
    for (int i = 0; i < 10000; ++i) window.add(now += 1us, {totals.sent_bytes += 10, 0});
    EXPECT_NEAR(static_cast<double>(window.rate(now + 1ms, totals).sent_bytes), 0.63e6, 0.1e6);
}

TEST(LinkQuality, LossIsAPartOfThePings_C1) {
    LinkQuality quality;
    EXPECT_EQ(quality.loss(), 0);
    quality.pings = 8;
    quality.missed_pings = 2;
    EXPECT_EQ(quality.loss(), 0.25);
    for (auto [level, name] : {std::pair{LinkLevel::up, "up"},
                               {LinkLevel::slow, "slow"},
                               {LinkLevel::suspect, "suspect"},
                               {LinkLevel::lost, "lost"}})
        EXPECT_STREQ(to_string(level), name);
}

TEST(KernelPath, SuffersFromLossesWhereTheyBoundIt_B6) {
    KernelPath path;
    path.round_trip_us = 30'000;
    path.sent_segments = 10'000;
    path.repeated_segments = 10;
    EXPECT_TRUE(path.suffers_from_losses());
    path.outlasts_losses = true;
    EXPECT_FALSE(path.suffers_from_losses()) << "its control does not mind";
    path.received_segments = 10'000;
    path.disordered_segments = 10;
    EXPECT_TRUE(path.suffers_from_losses()) << "what the peer sends";
    path.disordered_segments = 4;
    EXPECT_FALSE(path.suffers_from_losses()) << "a few";
    path.disordered_segments = 10;
    path.received_segments = 100'000;
    EXPECT_FALSE(path.suffers_from_losses()) << "one of ten thousand";
    path.received_segments = 10'000;
    path.round_trip_us = 1'000;
    EXPECT_FALSE(path.suffers_from_losses()) << "near";
}

}  // namespace
}  // namespace warpline::protocol
