// Tests of who is served while many sessions are at work.
#include "server/daemon/turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "server/session/executor.h"

namespace warpline::server {

namespace {

using std::chrono::milliseconds;

std::atomic<bool> scarce{true};

/// Sessions that call all the time while it is their turn, and a clock that only the test sets.
class Crowd {
public:
    static constexpr unsigned k_bound = 8, k_at_a_time = 4;  // for two processors

    explicit Crowd(size_t sessions) : m_turns(options()) {
        scarce.store(true);
        for (size_t i = 0; i < sessions; ++i) add();
    }
    Turns& turns() { return m_turns; }
    Turns::Session& operator[](size_t i) { return *m_sessions[i]; }
    bool is_served(size_t i) { return m_counters[i]->turn.is_over.load() == 0; }
    void add() {
        m_counters.push_back(std::make_unique<SessionCounters>());
        m_sessions.push_back(std::make_unique<Turns::Session>(*m_counters.back()));
    }
    void remove_last() {
        m_sessions.pop_back();
        m_counters.pop_back();
    }
    size_t served() {
        size_t count = 0;
        for (size_t i = 0; i < m_sessions.size(); ++i) count += is_served(i);
        return count;
    }
    uint64_t calls(size_t i) { return m_counters[i]->calls.load(); }

    /// The first `busy` do what they can for a tick, and then the supervisor looks.
    void work(size_t busy) {
        for (size_t i = 0; i < m_sessions.size(); ++i) {
            SessionCounters& counters = *m_counters[i];
            if (i < busy && is_served(i)) counters.calls += 100;
            counters.turn.waits.store(i < busy && !is_served(i) ? 1 : 0);
        }
        m_now += milliseconds(10);
        std::vector<Turns::Session*> all;
        for (const auto& session : m_sessions) all.push_back(session.get());
        m_turns.look(all, m_now);
    }
    void work(size_t busy, milliseconds for_so_long) {
        for (milliseconds passed{0}; passed < for_so_long; passed += milliseconds(10)) work(busy);
    }

private:
    static Turns::Options options() {
        Turns::Options options;
        options.processors = 2;
        options.processors_scarce = [] { return scarce.load(); };
        return options;
    }
    Turns m_turns;
    std::vector<std::unique_ptr<SessionCounters>> m_counters;
    std::vector<std::unique_ptr<Turns::Session>> m_sessions;
    Turns::Clock::time_point m_now{std::chrono::hours(1)};
};

TEST(Turns, AFewSessionsAreAllServed_B7) {
    Crowd crowd(Crowd::k_bound);
    crowd.work(Crowd::k_bound, milliseconds(1'000));
    EXPECT_FALSE(crowd.turns().are_taken());
    EXPECT_EQ(crowd.served(), size_t{Crowd::k_bound});
    EXPECT_EQ(crowd.turns().next_look(Crowd::k_bound), Turns::Clock::time_point::max());
}

TEST(Turns, ACrowdThatDoesNothingIsLeftAlone_B7) {
    Crowd crowd(64);
    crowd.work(Crowd::k_bound, milliseconds(1'000));
    EXPECT_FALSE(crowd.turns().are_taken());
    EXPECT_EQ(crowd.served(), 64u);
}

TEST(Turns, ACrowdWithProcessorsEnoughIsLeftAlone_B7) {
    Crowd crowd(64);
    scarce.store(false);
    crowd.work(64, milliseconds(1'000));
    EXPECT_EQ(crowd.served(), 64u);
}

TEST(Turns, EachOfACrowdGetsAsMuch_B7) {
    Crowd crowd(64);
    crowd.work(64);
    ASSERT_TRUE(crowd.turns().are_taken());
    for (int i = 0; i < 1'000; ++i) {
        crowd.work(64);
        ASSERT_EQ(crowd.served(), size_t{Crowd::k_at_a_time});
    }
    const double fair = 1'000.0 * 100 * Crowd::k_at_a_time / 64;
    for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(static_cast<double>(crowd.calls(i)), fair, fair / 10) << i;
}

TEST(Turns, WhoWasAwayComesFirstAndGetsNoMore_B7) {
    Crowd crowd(64);
    crowd.work(63, milliseconds(10'000));
    ASSERT_FALSE(crowd.is_served(63)) << "it does nothing, and others want its turn";
    const uint64_t before = crowd.calls(63);
    // Someone's turn ends within one of the longest turns.
    for (int ticks = 0; ticks < 5 && !crowd.is_served(63); ++ticks) crowd.work(64);
    EXPECT_TRUE(crowd.is_served(63));
    const uint64_t others = crowd.calls(0);
    crowd.work(64, milliseconds(10'000));
    EXPECT_LT(crowd.calls(63) - before, (crowd.calls(0) - others) * 13 / 10);
}

TEST(Turns, WhoHasNothingToDoGivesItsTurnAway_B7) {
    Crowd crowd(10);
    crowd.work(10, milliseconds(200));
    ASSERT_TRUE(crowd.turns().are_taken());
    // One of those who are served rests from now on: a look later somebody else has its place.
    crowd.work(9, milliseconds(30));
    EXPECT_FALSE(crowd.is_served(9));
    EXPECT_EQ(crowd.served(), size_t{Crowd::k_at_a_time});
}

TEST(Turns, EverybodyWhoWaitsIsServedOnceThereAreProcessors_B7) {
    Crowd crowd(64);
    crowd.work(64, milliseconds(200));
    ASSERT_EQ(crowd.served(), size_t{Crowd::k_at_a_time});
    scarce.store(false);
    crowd.work(64, milliseconds(20));
    EXPECT_EQ(crowd.served(), 64u);
    scarce.store(true);
    crowd.work(64, milliseconds(400));
    EXPECT_EQ(crowd.served(), size_t{Crowd::k_at_a_time});
}

TEST(Turns, TheyEndWithTheCrowd_B7) {
    Crowd crowd(64);
    crowd.work(64, milliseconds(200));
    ASSERT_TRUE(crowd.turns().are_taken());
    // A second after most have stopped calling, or at once when they leave.
    crowd.work(Crowd::k_bound, milliseconds(1'100));
    EXPECT_FALSE(crowd.turns().are_taken());
    EXPECT_EQ(crowd.served(), 64u);
    crowd.work(64, milliseconds(200));
    ASSERT_TRUE(crowd.turns().are_taken());
    for (int i = 0; i < 60; ++i) crowd.remove_last();
    crowd.work(4);
    EXPECT_FALSE(crowd.turns().are_taken());
    EXPECT_EQ(crowd.served(), 4u);
}

/// One call.
class Step final : public OrderedWork {
public:
    explicit Step(std::promise<void>& done) : m_done(done) {}
    bool step() override {
        m_done.set_value();
        return false;
    }

private:
    std::promise<void>& m_done;
};

/// An executor that has a call to execute, and no turn: it waits for one.
class WithoutTurn {
public:
    WithoutTurn() {
        take_turn(m_counters.turn);
        EXPECT_TRUE(m_executor.push(std::make_shared<Step>(m_done)));
        while (!waits()) std::this_thread::yield();
    }
    bool waits() const { return m_counters.turn.waits.load() != 0; }
    void give() { give_turn(m_counters.turn); }
    void stop() { m_executor.stop(); }
    std::future<void> done() { return m_done.get_future(); }

private:
    SessionCounters m_counters{};
    Turn m_turn{m_counters.turn, std::chrono::hours(1)};
    std::promise<void> m_done;
    Executor m_executor{{.turn = &m_turn}};
};

TEST(Turn, CallsWaitForIt_B7) {
    WithoutTurn executor;
    auto ended = executor.done();
    EXPECT_EQ(ended.wait_for(milliseconds(0)), std::future_status::timeout);
    executor.give();
    EXPECT_EQ(ended.wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST(Turn, WhoEndsDoesNotWaitForIt_B7) {
    WithoutTurn executor;
    executor.stop();
    EXPECT_FALSE(executor.waits());
}

TEST(Turn, NobodyWaitsForASupervisorThatHangs_B7) {
    SessionCounters counters{};
    Turn turn(counters.turn, milliseconds(5));
    take_turn(counters.turn);
    turn.await();
    EXPECT_FALSE(turn.is_over());
    take_turn(counters.turn);
    EXPECT_FALSE(turn.is_over()) << "it does not wait again";
}

}  // namespace

}  // namespace warpline::server
