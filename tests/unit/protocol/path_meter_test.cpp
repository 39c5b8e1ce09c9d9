// What a path holds, by what comes back from it.
#include "protocol/codec/path_meter.h"

#include <gtest/gtest.h>

namespace warpline::protocol {
namespace {

using std::chrono::milliseconds;

/// A path of a rate and a round trip, into which a sender with a window puts all it may.
struct Path {
    double bytes_per_s, round_trip_s;
    PathMeter meter;
    PathMeter::Clock::time_point now{milliseconds(1000)};
    double delivered = 0;

    void pass(milliseconds time, double window_bytes) {
        now += time;
        delivered += std::min(window_bytes / round_trip_s, bytes_per_s) * std::chrono::duration<double>(time).count();
        meter.look(now, static_cast<uint64_t>(delivered), static_cast<uint64_t>(round_trip_s * 1e6));
    }
};

TEST(PathMeter, B6_a_window_made_of_it_opens_until_the_path_is_full_and_no_further) {
    Path path{1.25e9, 0.03, {}};
    const double holds = path.bytes_per_s * path.round_trip_s;
    double window = 4 << 20;
    path.pass(milliseconds(250), window);
    for (int i = 0; i < 8; ++i) {
        path.pass(milliseconds(250), window);
        window = (3 << 20) + 2.0 * static_cast<double>(path.meter.capacity_bytes());
    }
    EXPECT_NEAR(static_cast<double>(path.meter.capacity_bytes()), holds, holds * 0.01);
}

TEST(PathMeter, B6_a_pause_does_not_close_it_and_a_slower_path_does_in_time) {
    Path path{125e6, 0.01, {}};
    path.pass(milliseconds(250), 1e9);
    path.pass(milliseconds(250), 1e9);
    const uint64_t full = path.meter.capacity_bytes();
    EXPECT_NEAR(static_cast<double>(full), 1.25e6, 1.25e4);
    for (int i = 0; i < 20; ++i) path.pass(milliseconds(250), 0);
    EXPECT_EQ(path.meter.capacity_bytes(), full);
    path.bytes_per_s = 12.5e6;
    for (int i = 0; i < 24; ++i) path.pass(milliseconds(250), 1e9);
    EXPECT_NEAR(static_cast<double>(path.meter.capacity_bytes()), 1.25e5, 1.25e3);
}

TEST(PathMeter, B6_looks_that_come_together_and_unknown_round_trips_say_nothing) {
    PathMeter meter;
    PathMeter::Clock::time_point now{milliseconds(1000)};
    meter.look(now, 0, 1000);
    meter.look(now + milliseconds(1), 1 << 30, 1000);
    EXPECT_EQ(meter.capacity_bytes(), 0u);
    meter.look(now + milliseconds(250), 1 << 30, 0);
    EXPECT_EQ(meter.capacity_bytes(), 0u);
}

}  // namespace
}  // namespace warpline::protocol
