// The heartbeat against peers and links that are simulated event by event: no clock runs here.
#include "protocol/codec/heartbeat.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <vector>

namespace warpline::protocol {
namespace {

using namespace std::chrono_literals;
using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using Action = Heartbeat::Action;

constexpr HeartbeatOptions k_usual{1000ms, 8000ms, 32000ms, 30000ms};
constexpr milliseconds k_unknown{-1};
const Clock::time_point k_start = Clock::time_point{} + 24h;

int64_t ms(Clock::duration time) { return duration_cast<milliseconds>(time).count(); }
uint64_t us(Clock::time_point at) { return static_cast<uint64_t>(duration_cast<microseconds>(at.time_since_epoch()).count()); }

/// A connection whose peer answers each Ping after a round trip that the test chooses.
struct Simulation {
    explicit Simulation(HeartbeatOptions options = k_usual) : heartbeat(options, k_start), tick_time(options.interval / 4) {}

    /// Runs until `end` (after the start), or until the peer is lost.
    void run_until(milliseconds end) {
        while (!lost && now < k_start + end) {
            const Clock::time_point next_tick = m_last_tick + tick_time;
            const bool answer_first = !m_answers.empty() && m_answers.begin()->first <= next_tick;
            now = answer_first ? m_answers.begin()->first : next_tick;
            if (answer_first) {
                const uint64_t echo_us = m_answers.begin()->second;
                m_answers.erase(m_answers.begin());
                heartbeat.received(now, damaged ? Heartbeat::Came::part : Heartbeat::Came::whole);
                if (!damaged) heartbeat.pong(echo_us, now);
            } else {
                tick();
            }
            note();
        }
    }
    void tick() {
        m_last_tick = now;
        if (traffic) heartbeat.sent(now);
        if (traffic) heartbeat.received(now);
        const Action action =
            heartbeat.tick(now, unacknowledged == k_unknown ? std::nullopt : std::optional<milliseconds>(unacknowledged));
        lost = action == Action::lost;
        if (action != Action::ping) return;
        ++pings;
        heartbeat.sent(now);
        if (round_trip) m_answers.emplace(now + round_trip(pings), us(now));
    }
    /// This process does not run. Answers that come meanwhile are found afterwards.
    void stop_for(milliseconds time) {
        now += time;
        std::multimap<Clock::time_point, uint64_t> waiting;
        for (const auto& [at, echo_us] : m_answers) waiting.emplace(std::max(at, now), echo_us);
        m_answers = waiting;
        m_last_tick = now - tick_time;  // the tick is overdue
    }
    void note() {
        if (worst < heartbeat.level()) worst = heartbeat.level();
        if (auto change = heartbeat.take_change()) changes.push_back(*change);
    }
    LinkQuality quality() const {
        LinkQuality quality;
        heartbeat.describe(quality);
        return quality;
    }

    Heartbeat heartbeat;
    milliseconds tick_time;
    Clock::time_point now = k_start;
    std::function<Clock::duration(int ping)> round_trip;  // none: no answers
    bool traffic = false;                                 // both sides talk
    bool damaged = false;                                 // what comes is taken for the rest of something larger
    milliseconds unacknowledged = k_unknown;
    bool lost = false;
    int pings = 0;
    LinkLevel worst = LinkLevel::up;
    std::vector<LinkLevelChange> changes;

private:
    Clock::time_point m_last_tick = k_start;
    std::multimap<Clock::time_point, uint64_t> m_answers;
};

auto constant(Clock::duration time) {
    return [time](int) { return time; };
}

TEST(Heartbeat, OptionsHaveAnOrder_C1) {
    struct Row {
        milliseconds interval, lost, stopped;
        HeartbeatOptions expected;
    };
    const Row rows[] = {
        {1s, 0s, 30s, {1000ms, 8000ms, 32000ms, 30000ms}},
        {1s, 2s, 30s, {1000ms, 2000ms, 8000ms, 30000ms}},
        {5s, 0s, 30s, {5000ms, 40000ms, 160000ms, 40000ms}},  // stopped is not sooner than lost
        {10s, 4s, 1s, {2000ms, 4000ms, 16000ms, 4000ms}},     // who is asked too late cannot answer
    };
    for (const Row& row : rows) {
        const HeartbeatOptions made = HeartbeatOptions::of(row.interval, row.lost, row.stopped);
        EXPECT_EQ(made.interval, row.expected.interval);
        EXPECT_EQ(made.lost_after, row.expected.lost_after);
        EXPECT_EQ(made.lost_after_at_most, row.expected.lost_after_at_most);
        EXPECT_EQ(made.stopped_after, row.expected.stopped_after);
    }
}

TEST(Heartbeat, LimitsFollowTheRoundTrip_C1) {
    struct Row {
        const char* link;
        std::vector<Clock::duration> trips;  // repeated until they have settled
        int64_t slow_ms, suspect_ms, lost_ms;
    };
    const Row rows[] = {
        {"nothing measured yet: one second for an answer", {}, 2000, 5000, 8000},
        {"a machine room: a look at the clock is the least", {50us}, 1250, 4625, 8000},
        {"a continent", {150ms}, 1400, 4700, 8000},
        {"a satellite", {700ms}, 1950, 4975, 8000},
        {"a modem of old", {3s}, 4250, 9125, 14000},
        {"more than the bounds allow", {60s}, 8750, 20375, 32000},
        {"unsteady: 10 to 900 ms", {10ms, 900ms}, 3334, 6838, 10343},
    };
    for (const Row& row : rows) {
        Simulation link;
        auto now = k_start;
        for (int i = 0; i < 200 && !row.trips.empty(); ++i) {
            link.heartbeat.received(now);  // keeps time
            ASSERT_NE(link.heartbeat.tick(now += 1s, {}), Action::lost) << row.link;
            const Clock::duration trip = row.trips[static_cast<size_t>(i) % row.trips.size()];
            // Bytes come all the time, however long the answer takes.
            const auto asked = now;
            for (auto at = 500ms; at < trip; at += 500ms) link.heartbeat.received(asked + at);
            now = asked + trip;
            link.heartbeat.received(now);
            link.heartbeat.pong(us(asked), now);
        }
        const Heartbeat::Limits limits = link.heartbeat.limits();
        EXPECT_NEAR(static_cast<double>(ms(limits.slow)), static_cast<double>(row.slow_ms), 150) << row.link;
        EXPECT_NEAR(static_cast<double>(ms(limits.suspect)), static_cast<double>(row.suspect_ms), 150) << row.link;
        EXPECT_NEAR(static_cast<double>(ms(limits.lost)), static_cast<double>(row.lost_ms), 300) << row.link;
        EXPECT_LT(limits.slow, limits.suspect) << row.link;
        EXPECT_LT(limits.suspect, limits.lost) << row.link;
    }
}

TEST(Heartbeat, LimitsKeepTheirOrderAndBounds_C1) {
    for (const HeartbeatOptions& options :
         {k_usual, HeartbeatOptions{1000ms, 2000ms, 8000ms, 30000ms}, HeartbeatOptions{20ms, 150ms, 150ms, 300ms},
          HeartbeatOptions{3600s, 8 * 3600s, 32 * 3600s, 32 * 3600s}}) {
        for (uint64_t trip_us = 1; trip_us < 200'000'000; trip_us = trip_us * 3 + 1) {
            Heartbeat heartbeat(options, k_start);
            ASSERT_EQ(heartbeat.tick(k_start, {}), Action::ping);
            const auto answered = k_start + microseconds(trip_us);
            heartbeat.pong(us(k_start), answered);
            const Heartbeat::Limits limits = heartbeat.limits();
            EXPECT_LE(options.interval, limits.slow);
            EXPECT_LE(limits.slow, limits.suspect);
            EXPECT_LE(limits.suspect, limits.lost);
            EXPECT_GE(limits.lost, options.lost_after);
            EXPECT_LE(limits.lost, options.lost_after_at_most);
        }
    }
}

TEST(Heartbeat, LinksThatAnswerStayUp_C1) {
    struct Row {
        const char* link;
        std::function<Clock::duration(int)> round_trip;
        LinkLevel worst;  // while nothing is known yet
        int changes_at_most;
    };
    const Row rows[] = {
        {"fast", constant(50us), LinkLevel::up, 0},
        {"far", constant(300ms), LinkLevel::up, 0},
        {"slow", constant(1500ms), LinkLevel::up, 0},
        {"very slow", constant(4s), LinkLevel::slow, 2},
        {"hardly usable", constant(7s), LinkLevel::suspect, 3},
        {"jitter, unexpected once only", [](int ping) { return ping % 3 == 0 ? 900ms : 10ms; }, LinkLevel::slow, 2},
        {"outliers are late each time", [](int ping) { return ping % 7 == 0 ? 2500ms : 100ms; }, LinkLevel::slow, 60},
        {"slower and slower", [](int ping) { return ping * 20ms; }, LinkLevel::up, 0},
    };
    for (const Row& row : rows) {
        Simulation link;
        link.round_trip = row.round_trip;
        link.run_until(200s);
        EXPECT_FALSE(link.lost) << row.link;
        EXPECT_LE(link.worst, row.worst) << row.link;
        EXPECT_LE(static_cast<int>(link.quality().level_changes), row.changes_at_most) << row.link;
        EXPECT_EQ(link.heartbeat.level(), LinkLevel::up) << row.link;
        EXPECT_GT(link.quality().round_trips, 20u) << row.link;
    }
}

TEST(Heartbeat, MeasuresWhatItSees_C1) {
    Simulation link;
    link.round_trip = [](int ping) { return ping == 5 ? 2ms : ping % 2 == 0 ? 30ms : 10ms; };
    link.run_until(100s);
    const LinkQuality quality = link.quality();
    EXPECT_EQ(quality.minimum_round_trip_us, 2000u);
    EXPECT_NEAR(static_cast<double>(quality.smoothed_round_trip_us), 20000, 2000);
    EXPECT_NEAR(static_cast<double>(quality.jitter_us), 20000, 1500);
    EXPECT_NEAR(static_cast<double>(quality.round_trip_variation_us), 10000, 2000);
    EXPECT_EQ(quality.pings, static_cast<uint64_t>(link.pings));
    EXPECT_EQ(quality.missed_pings, 0u);
    EXPECT_EQ(quality.loss(), 0);
}

TEST(Heartbeat, SilenceHasLevelsAndAnEnd_C1) {
    // From the last answer on; looks are 250 ms apart, and the limits are those of a fast link.
    struct Row {
        milliseconds silence;
        milliseconds unacknowledged;
        LinkLevel level;
        bool lost;
    };
    const Row rows[] = {
        {1000ms, k_unknown, LinkLevel::up, false},      {1250ms, k_unknown, LinkLevel::slow, false},
        {4500ms, k_unknown, LinkLevel::slow, false},    {4750ms, k_unknown, LinkLevel::suspect, false},
        {7750ms, k_unknown, LinkLevel::suspect, false}, {8000ms, k_unknown, LinkLevel::lost, true},
        {8000ms, 8000ms, LinkLevel::lost, true},  // the machine is as silent as the process
        {8000ms, 7999ms, LinkLevel::suspect, false},    {8000ms, 0ms, LinkLevel::suspect, false},
        {29750ms, 40ms, LinkLevel::suspect, false},     {30000ms, 0ms, LinkLevel::lost, true},
    };
    for (const Row& row : rows) {
        Simulation link;
        link.unacknowledged = row.unacknowledged;
        link.round_trip = constant(0us);
        link.run_until(4750ms);
        const auto last = link.now;
        ASSERT_EQ(link.heartbeat.level(), LinkLevel::up);
        // Just now a sign of life, and from here on none.
        link.heartbeat.received(last);
        link.round_trip = nullptr;
        link.run_until(duration_cast<milliseconds>(last - k_start) + row.silence);
        EXPECT_EQ(link.heartbeat.level(), row.level) << ms(row.silence) << " " << ms(row.unacknowledged);
        EXPECT_EQ(link.lost, row.lost) << ms(row.silence) << " " << ms(row.unacknowledged);
    }
}

TEST(Heartbeat, TheDeadAreFoundInTimeWhateverThePhase_C1) {
    for (milliseconds tick : {1ms, 7ms, 100ms, 250ms, 333ms, 999ms}) {
        for (milliseconds alive : {0ms, 1ms, 251ms, 999ms, 1000ms, 12345ms}) {
            Simulation link;
            link.tick_time = tick;
            link.round_trip = constant(0us);
            link.run_until(alive);
            link.round_trip = nullptr;
            const auto silent_since = link.now;
            link.run_until(alive + 60s);
            ASSERT_TRUE(link.lost);
            EXPECT_GE(ms(link.now - silent_since), 6900) << ms(tick) << " " << ms(alive);  // the last answer came later
            EXPECT_LE(ms(link.now - silent_since), 8000 + 2 * ms(tick) + 1000) << ms(tick) << " " << ms(alive);
        }
    }
}

TEST(Heartbeat, TimeInWhichThisProcessWasStoppedDoesNotCount_C1) {
    for (milliseconds stop : {1100ms, 4000ms, 8000ms, 60000ms, 86400000ms}) {
        for (int times : {1, 5}) {
            Simulation link;
            link.round_trip = constant(20ms);
            for (int i = 0; i < times; ++i) {
                link.run_until(duration_cast<milliseconds>(link.now - k_start) + 3100ms);
                link.stop_for(stop);
            }
            link.run_until(duration_cast<milliseconds>(link.now - k_start) + 3100ms);
            EXPECT_FALSE(link.lost) << ms(stop);
            EXPECT_EQ(link.worst, LinkLevel::up) << ms(stop);
            EXPECT_EQ(link.quality().smoothed_round_trip_us, 20000u) << "a stop is no round trip";
            EXPECT_EQ(link.quality().missed_pings, 0u);
        }
    }
}

TEST(Heartbeat, WhoWasStoppedInTheMiddleOfSilenceAsksAgain_C1) {
    Simulation link;
    link.run_until(7s);
    ASSERT_EQ(link.heartbeat.level(), LinkLevel::suspect);
    const int pings = link.pings;
    link.stop_for(1h);
    link.tick();
    EXPECT_FALSE(link.lost);
    EXPECT_EQ(link.pings, pings + 1);
    // Without an answer the peer is given up all the same, after what was left.
    const auto resumed = link.now;
    link.run_until(2h);
    EXPECT_TRUE(link.lost);
    EXPECT_LE(ms(link.now - resumed), 1250);
}

TEST(Heartbeat, WhoIsAlwaysLateFindsTheDeadToo_C1) {
    Simulation link;
    link.tick_time = 1100ms;  // each look is later than an interval after the one before
    link.run_until(300s);
    EXPECT_TRUE(link.lost);
}

TEST(Heartbeat, BytesWithoutFramesAreASignOfLife_C1) {
    // A record that takes minutes: bytes of it come now and then, no answer to any Ping.
    for (milliseconds gap : {10ms, 250ms, 900ms}) {
        Heartbeat heartbeat(k_usual, k_start);
        auto now = k_start;
        auto next_tick = k_start + 250ms;
        while (now < k_start + 120s) {
            now += gap;
            heartbeat.received(now);
            for (; next_tick <= now; next_tick += 250ms) ASSERT_NE(heartbeat.tick(now, 60s), Action::lost) << ms(gap);
            ASSERT_EQ(heartbeat.level(), LinkLevel::up) << ms(gap);
        }
        LinkQuality quality;
        heartbeat.describe(quality);
        EXPECT_EQ(quality.missed_pings, 0u) << "something came in the time of each";
        EXPECT_EQ(quality.round_trips, 0u);
        EXPECT_GE(quality.pings, 20u);
    }
}

TEST(Heartbeat, WhatIsNeverCompletedIsTheEnd_C1_C2) {
    // As when the length of a record is damaged on the way: each answer is taken for a part of it.
    Simulation link;
    link.round_trip = constant(1ms);
    link.run_until(20s);
    ASSERT_FALSE(link.lost);
    link.damaged = true;
    link.run_until(40s);
    EXPECT_TRUE(link.lost);
    EXPECT_GE(link.now - k_start, 28s - link.tick_time);
    EXPECT_LE(link.now - k_start, 30s);
    // On a slow link something large is long under way, and each that is complete begins anew.
    Simulation slow;
    for (int large = 0; large < 10 && !slow.lost; ++large) {
        for (int part = 0; part < 28; ++part) {
            slow.now += 250ms;
            slow.heartbeat.received(slow.now, part == 27 ? Heartbeat::Came::whole : Heartbeat::Came::part);
            slow.tick();
        }
    }
    EXPECT_FALSE(slow.lost);
    // Time in which this process was stopped does not count here either.
    Simulation stopped;
    stopped.heartbeat.received(stopped.now, Heartbeat::Came::part);
    for (int i = 0; i < 3; ++i) {
        stopped.stop_for(20s);
        stopped.heartbeat.received(stopped.now, Heartbeat::Came::part);
        stopped.tick();
    }
    EXPECT_FALSE(stopped.lost);
}

TEST(Heartbeat, RecoversFromEachLevel_C1) {
    struct Row {
        milliseconds silence;
        LinkLevel level;
        std::vector<LinkLevel> told;
        bool serious;
    };
    const Row rows[] = {
        {2s, LinkLevel::slow, {LinkLevel::slow, LinkLevel::up}, false},
        {6s, LinkLevel::suspect, {LinkLevel::slow, LinkLevel::suspect, LinkLevel::up}, true},
        {20s, LinkLevel::suspect, {LinkLevel::slow, LinkLevel::suspect, LinkLevel::suspect, LinkLevel::up}, true},
    };
    for (const Row& row : rows) {
        Simulation link;
        link.unacknowledged = 0ms;
        link.round_trip = constant(1ms);
        link.run_until(10s);
        const auto before = link.quality();
        link.round_trip = nullptr;
        link.run_until(10s + row.silence + 1s);
        EXPECT_EQ(link.heartbeat.level(), row.level);
        EXPECT_GT(link.quality().missed_pings, 0u);
        // A late answer to what was asked during the silence, and all is well.
        link.round_trip = constant(1ms);
        link.run_until(10s + row.silence + 4s);
        EXPECT_EQ(link.heartbeat.level(), LinkLevel::up);
        EXPECT_EQ(link.heartbeat.silence() < 1250ms, true);
        EXPECT_LT(link.quality().smoothed_round_trip_us, 2000u) << "the silence is no round trip";
        EXPECT_GT(link.quality().round_trips, before.round_trips);
        std::vector<LinkLevel> told;
        for (const LinkLevelChange& change : link.changes) told.push_back(change.to);
        EXPECT_EQ(told, row.told);
        EXPECT_EQ(link.changes.back().serious, row.serious);
        EXPECT_NE(link.changes.back().text.find("-> up: answers again after"), std::string::npos) << link.changes.back().text;
    }
}

TEST(Heartbeat, TellsAStoppedProcessFromALostLink_C1) {
    Simulation link;
    link.unacknowledged = 0ms;
    link.run_until(10s);
    EXPECT_FALSE(link.lost);
    ASSERT_FALSE(link.changes.empty());
    EXPECT_NE(link.changes.back().text.find("its machine acknowledges"), std::string::npos) << link.changes.back().text;
    const size_t told = link.changes.size();
    link.run_until(20s);
    EXPECT_EQ(link.changes.size(), told) << "once is enough";
    link.unacknowledged = 10s;  // now the machine is gone, too
    link.run_until(21s);
    EXPECT_TRUE(link.lost);
}

TEST(Heartbeat, BeginsAnewOnAnotherConnection_C2) {
    Simulation link;
    link.round_trip = constant(20ms);
    link.run_until(5s);
    link.round_trip = nullptr;
    link.run_until(60s);
    ASSERT_TRUE(link.lost);
    ASSERT_EQ(link.heartbeat.level(), LinkLevel::lost);
    link.heartbeat.restart(link.now);
    EXPECT_EQ(link.heartbeat.level(), LinkLevel::up);
    EXPECT_FALSE(link.heartbeat.has_change());
    EXPECT_EQ(link.quality().smoothed_round_trip_us, 20000u);
    link.lost = false;
    link.round_trip = constant(20ms);
    link.run_until(80s);
    EXPECT_FALSE(link.lost);
    EXPECT_EQ(link.heartbeat.level(), LinkLevel::up);
}

TEST(Heartbeat, ManyTroublesAreNotManyLines_C1) {
    Simulation link;
    link.round_trip = constant(1ms);
    size_t troubles = 0;
    for (milliseconds at = 5s; at < 60s; at += 5s, ++troubles) {
        link.run_until(at);
        link.round_trip = nullptr;
        link.run_until(at + 3s);
        link.round_trip = constant(1ms);
    }
    EXPECT_EQ(link.quality().level_changes, 2 * troubles - 1) << "the last one has not ended";
    EXPECT_EQ(link.changes.size(), 6u) << "three troubles, each with its end";
    // A minute later they are told again, and how many were not.
    link.run_until(130s);
    link.round_trip = nullptr;
    link.run_until(133s);
    ASSERT_EQ(link.changes.size(), 7u);
    EXPECT_NE(link.changes.back().text.find("earlier changes were not told"), std::string::npos) << link.changes.back().text;
}

TEST(Heartbeat, TrafficReplacesPingsButForMeasurements_C1) {
    Simulation link;
    link.traffic = true;
    link.round_trip = constant(1ms);
    link.run_until(100s);
    EXPECT_GE(link.pings, 18);
    EXPECT_LE(link.pings, 21);
    EXPECT_EQ(link.quality().round_trips, static_cast<uint64_t>(link.pings));
}

TEST(Heartbeat, AsksOnceAnIntervalAPeerThatOnlyListens_C1) {
    Heartbeat heartbeat(k_usual, k_start);
    int pings = 0;
    for (int i = 1; i < 70; ++i) {
        auto now = k_start + i * 100ms;
        heartbeat.sent(now);
        if (heartbeat.tick(now, {}) == Action::ping) ++pings;
    }
    EXPECT_GE(pings, 6);
    EXPECT_LE(pings, 7);
    // Nor more often if what we ask does not leave.
    Heartbeat stuck(k_usual, k_start);
    pings = 0;
    for (int i = 1; i < 70; ++i) pings += stuck.tick(k_start + i * 100ms, 0ms) == Action::ping ? 1 : 0;
    EXPECT_LE(pings, 7);
}

TEST(Heartbeat, BelievesOnlyAnswersToItsOwnPings_F3) {
    Heartbeat heartbeat(k_usual, k_start);
    heartbeat.pong(us(k_start), k_start + 1s);  // nothing was asked
    ASSERT_EQ(heartbeat.tick(k_start + 1s, {}), Action::ping);
    heartbeat.pong(0, k_start + 2s);
    heartbeat.pong(1, k_start + 2s);
    heartbeat.pong(us(k_start + 1s) - 1, k_start + 2s);
    heartbeat.pong(us(k_start + 3s), k_start + 2s);  // from the future
    LinkQuality quality;
    heartbeat.describe(quality);
    EXPECT_EQ(quality.round_trips, 0u);
    heartbeat.pong(us(k_start + 1s), k_start + 2s);
    heartbeat.pong(us(k_start + 1s), k_start + 9s);  // once only
    heartbeat.describe(quality);
    EXPECT_EQ(quality.round_trips, 1u);
    EXPECT_EQ(quality.round_trip_us, 1'000'000u);
}

// A Ping that was sent beside those of the clock: what it measures is not what waited in queues behind it.
TEST(Heartbeat, APingBesideTheClocksTellsARoundTripToo_B6) {
    Heartbeat heartbeat(k_usual, k_start);
    ASSERT_EQ(heartbeat.tick(k_start + 250ms, {}), Action::ping);
    heartbeat.asked(k_start + 10ms);
    heartbeat.pong(us(k_start + 11ms), k_start + 17ms);
    EXPECT_EQ(heartbeat.minimum_round_trip_us(), 6000u);
    heartbeat.pong(us(k_start + 250ms), k_start + 600ms);
    EXPECT_EQ(heartbeat.minimum_round_trip_us(), 6000u);
    LinkQuality quality;
    heartbeat.describe(quality);
    EXPECT_EQ(quality.round_trips, 2u);
    EXPECT_EQ(quality.round_trip_us, 350'000u);
    heartbeat.pong(us(k_start + 5ms), k_start + 700ms);
    EXPECT_EQ(heartbeat.minimum_round_trip_us(), 6000u) << "what answers no Ping is not believed";
}

}  // namespace
}  // namespace warpline::protocol
