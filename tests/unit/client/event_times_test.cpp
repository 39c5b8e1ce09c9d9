// Which times between events come along, and when no more of them do.
#include "client/state/event_times.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace warpline::client {
namespace {

using Pair = EventTimes::Pair;
using Record = EventTimes::Record;

/// A program's events, by number, and a server that tells times which say whose they are.
struct Measurement {
    void record(uint64_t event) {
        newest[event] = ++number;
        times.recorded({event, number});
    }
    void destroy(uint64_t event) { newest.erase(event); }
    Record of(uint64_t event) const { return {event, newest.at(event)}; }
    static float time_of(const Pair& pair) { return static_cast<float>(1000 * pair.start.number + pair.end.number); }
    void bring(const std::vector<Pair>& pairs) {
        for (const Pair& pair : pairs) times.keep(pair, time_of(pair));
        brought += pairs.size();
    }
    void wait() { bring(times.expect_behind_wait(is_newest)); }
    /// @return true if it cost a round trip
    bool ask(uint64_t start, uint64_t end) {
        const Pair pair{of(start), of(end)};
        if (const auto known = times.take(pair)) {
            EXPECT_EQ(*known, time_of(pair));
            return false;
        }
        bring(times.expect(pair, is_newest));
        return true;
    }

    /// Records so many events, waits, and asks how far neighbours are apart. @return the questions that travelled
    int step(uint64_t events) {
        for (uint64_t event = 0; event < events; ++event) record(event);
        wait();
        int trips = 0;
        for (uint64_t event = 0; event + 1 < events; ++event) trips += ask(event, event + 1) ? 1 : 0;
        return trips;
    }

    EventTimes times;
    std::map<uint64_t, uint64_t> newest;
    uint64_t number = 0;
    size_t brought = 0;
    const std::function<bool(const Record&)> is_newest = [this](const Record& record) {
        const auto found = newest.find(record.event);
        return found != newest.end() && found->second == record.number;
    };
};

TEST(EventTimes, b2_times_between_neighbours_come_with_the_second_and_then_with_the_wait) {
    Measurement program;
    constexpr uint64_t k_events = 20;
    int trips = 0;
    for (int step = 0; step < 10; ++step) {
        trips += program.step(k_events);
    }
    EXPECT_EQ(trips, 2);
}

TEST(EventTimes, b2_one_question_of_another_kind_unlearns_nothing) {
    Measurement program;
    constexpr uint64_t k_events = 20;
    int trips = 0;
    for (int step = 0; step < 10; ++step) {
        trips += program.step(k_events);
        trips += program.ask(0, k_events - 1) ? 1 : 0;
    }
    EXPECT_EQ(trips, 2 + 10);
}

TEST(EventTimes, b2_no_more_come_along_than_a_server_takes) {
    Measurement program;
    int trips = 0;
    for (uint64_t event = 0; event <= 200; ++event) program.record(event);
    for (uint64_t event = 0; event < 200; ++event) trips += program.ask(event, event + 1) ? 1 : 0;
    EXPECT_EQ(trips, 2 + 3);
    EXPECT_LE(program.brought, 4 * EventTimes::k_most_pairs);
}

TEST(EventTimes, b2_new_events_for_each_step) {
    Measurement program;
    int trips = 0;
    for (uint64_t step = 0; step < 50; ++step) {
        const uint64_t start = 2 * step, end = start + 1;
        program.record(start);
        program.record(end);
        program.wait();
        trips += program.ask(start, end) ? 1 : 0;
        program.destroy(start);
        program.destroy(end);
    }
    EXPECT_EQ(trips, 2);
    EXPECT_EQ(program.brought, 48u);
}

TEST(EventTimes, b2_times_backwards_and_of_every_second_event) {
    Measurement program;
    int trips = 0;
    for (uint64_t event = 0; event < 40; ++event) program.record(event);
    for (uint64_t event = 0; event + 2 < 40; ++event) trips += program.ask(event + 2, event) ? 1 : 0;
    EXPECT_EQ(trips, 2);
}

TEST(EventTimes, b2_what_is_not_used_does_not_come_again) {
    Measurement program;
    for (int step = 0; step < 4; ++step) {
        program.record(1);
        program.record(2);
        program.wait();
        program.ask(1, 2);
    }
    const size_t used = program.brought;
    EXPECT_EQ(used, 2u);
    for (int step = 0; step < 100; ++step) {
        program.record(1);
        program.record(2);
        program.wait();
    }
    EXPECT_EQ(program.brought, used + 1);
}

TEST(EventTimes, b2_a_time_is_that_of_the_records_it_was_asked_for) {
    Measurement program;
    for (uint64_t event = 0; event < 10; ++event) program.record(event);
    program.ask(0, 1);
    program.ask(1, 2);
    ASSERT_FALSE(program.ask(2, 3));
    program.record(3);
    EXPECT_TRUE(program.ask(2, 3));
    EXPECT_FALSE(program.ask(5, 6));
}

}  // namespace
}  // namespace warpline::client
