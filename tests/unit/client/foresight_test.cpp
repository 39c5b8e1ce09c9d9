// What a program is expected to ask next, and which answers may be given without asking.
#include "client/state/foresight.h"

#include <gtest/gtest.h>

#include <cstring>

namespace warpline::client {
namespace {

using Kind = Question::Kind;

constexpr Question k_sync{Kind::context, 7, 0};
constexpr Question k_loss{Kind::read, 0x1000, 4};
constexpr Question k_accuracy{Kind::read, 0x9000, 8};
constexpr Question k_time{Kind::elapsed, 21, 22};

/// A program whose calls are numbered, and a device whose memory holds the number of the call that read it.
struct Program {
    /// A call that waits for nothing, and may change anything.
    void launch() { ++number; }
    /// @return true if it cost a round trip
    bool ask(const Question& question) {
        std::byte got[Foresight::k_max_ahead_bytes];
        if (question.kind == Kind::read && foresight.take_read(question, number, got)) {
            EXPECT_EQ(got[0], static_cast<std::byte>(number)) << "read before the newest call";
            return false;
        }
        if (question.kind == Kind::elapsed && foresight.take_time(question, 1, record, number)) return false;
        expected = foresight.expect(question, number);
        ++number;
        std::vector<Foresight::Read> reads;
        if (expected.keeps_own) expected.reads.push_back(question);
        for (const Question& read : expected.reads) reads.push_back({read, Bytes(read.b, static_cast<std::byte>(number))});
        std::vector<Foresight::Time> times;
        for (const Question& pair : expected.times) times.push_back({pair, 1, record, 2.5f});
        foresight.answered(question, number, std::move(reads), std::move(times));
        return true;
    }
    int round_trips(std::initializer_list<Question> questions) {
        int count = 0;
        for (const Question& question : questions) count += ask(question) ? 1 : 0;
        return count;
    }

    Foresight foresight;
    Foresight::Expected expected;
    uint64_t number = 0;
    uint64_t record = 1;
};

TEST(Foresight, B8_reads_that_follow_upon_a_wait_come_with_it_once_they_have_twice) {
    Program program;
    int round_trips = 0;
    for (int step = 0; step < 10; ++step) {
        program.launch();
        round_trips += program.round_trips({k_sync, k_loss, k_accuracy});
    }
    EXPECT_EQ(round_trips, 3 + 3 + 8);
    const Foresight::Counts counts = program.foresight.counts();
    EXPECT_EQ(counts.asked, 16u);
    EXPECT_EQ(counts.used, 16u);
    EXPECT_EQ(counts.answers, 16u);
    EXPECT_EQ(counts.bytes, 8u * 12);
    EXPECT_EQ(counts.used_bytes, 8u * 12);
}

TEST(Foresight, B8_any_call_between_makes_it_read_again) {
    Program program;
    for (int step = 0; step < 4; ++step) {
        program.launch();
        program.round_trips({k_sync, k_loss});
    }
    program.launch();
    EXPECT_TRUE(program.ask(k_sync));
    program.launch();
    EXPECT_TRUE(program.ask(k_loss));
}

TEST(Foresight, B8_what_is_not_used_is_not_asked_for_again_and_has_to_earn_it) {
    Program program;
    for (int step = 0; step < 4; ++step) {
        program.launch();
        program.round_trips({k_sync, k_loss});
    }
    for (int step = 0; step < 20; ++step) {
        program.launch();
        program.ask(k_sync);
    }
    EXPECT_EQ(program.foresight.counts().asked, 2u + 1);
    EXPECT_EQ(program.foresight.counts().used, 2u);
    int round_trips = 0;
    for (int step = 0; step < 6; ++step) {
        program.launch();
        round_trips += program.round_trips({k_sync, k_loss});
    }
    EXPECT_EQ(round_trips, 4 * 2 + 2);
}

TEST(Foresight, B8_reads_that_go_on_run_ahead_further_and_further) {
    Program program;
    int round_trips = 0;
    constexpr uint64_t k_piece = 1024, k_pieces = 1024;
    for (uint64_t piece = 0; piece < k_pieces; ++piece)
        round_trips += program.ask({Kind::read, 0x100000 + piece * k_piece, k_piece}) ? 1 : 0;
    EXPECT_LE(round_trips, 24);
    EXPECT_LE(program.foresight.counts().bytes, k_pieces * k_piece + Foresight::k_max_ahead_bytes);
    // Elsewhere nothing is expected.
    EXPECT_TRUE(program.ask({Kind::read, 0x1, 16}));
    EXPECT_TRUE(program.expected.empty());
}

TEST(Foresight, B8_the_same_read_again_is_answered_here_while_nothing_is_asked_of_the_device) {
    Program program;
    int round_trips = 0;
    for (int i = 0; i < 100; ++i) round_trips += program.ask(k_loss) ? 1 : 0;
    EXPECT_EQ(round_trips, 3);
    program.launch();
    EXPECT_TRUE(program.ask(k_loss));
}

TEST(Foresight, B8_times_come_with_the_wait_and_are_true_until_an_event_is_recorded_again) {
    Program program;
    const Question wait{Kind::event, 22, 0};
    int round_trips = 0;
    for (int step = 0; step < 10; ++step) {
        program.launch();
        ++program.record;
        round_trips += program.round_trips({wait, k_time});
    }
    EXPECT_EQ(round_trips, 2 + 2 + 8);
    program.launch();
    EXPECT_FALSE(program.ask(k_time)) << "other calls do not change it";
    ++program.record;
    EXPECT_TRUE(program.ask(k_time));
}

TEST(Foresight, B8_what_it_knows_is_bounded) {
    Program program;
    for (uint64_t i = 0; i < 100000; ++i) {
        program.launch();
        program.round_trips({{Kind::event, i, 0}, {Kind::read, 0x1000 + i * 64, 4}});
    }
    EXPECT_EQ(program.foresight.counts().asked, 0u);
}

}  // namespace
}  // namespace warpline::client
