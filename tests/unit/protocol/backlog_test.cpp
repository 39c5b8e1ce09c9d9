// Tests of calls that wait for credit without their threads.
#include <atomic>
#include <future>

#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;

OutboxOptions with_backlog(size_t bytes = 1 << 20) {
    OutboxOptions options;
    options.backlog_bytes = bytes;
    return options;
}

// How many calls a burst brings, and which is the first. Others than batches are refused.
struct Burst {
    uint64_t first = 0, calls = 0, bytes = 0;
};
Burst calls_of(Outbox& outbox) {
    Burst burst;
    for (const Frame& frame : frames_in(drain(outbox))) {
        EXPECT_EQ(frame.header.kind, FrameKind::batch);
        const BatchHeader header = *read_batch_header(frame.body.view());
        if (burst.calls == 0) burst.first = header.first_call;
        EXPECT_EQ(header.first_call, burst.first + burst.calls);
        burst.calls += header.count;
        burst.bytes += credit_cost(header, frame.header);
    }
    return burst;
}

TEST(Backlog, CallsWithoutCreditWaitAndTheirThreadDoesNot_B2) {
    Outbox outbox(with_backlog());
    outbox.set_credit({1 << 20, 100});
    for (uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(*add_test_call(outbox, i), i + 1);
    EXPECT_EQ(outbox.counters().credit_waits, 0u);
    uint64_t calls = 0, bytes = 0;
    while (calls < 1000) {
        const Burst burst = calls_of(outbox);
        ASSERT_EQ(burst.first, calls + 1);
        ASSERT_GE(burst.calls, 75u) << "no more than a quarter waits for the next report";
        ASSERT_LE(burst.calls, 100u);
        calls += burst.calls, bytes += burst.bytes;
        ASSERT_EQ(calls_of(outbox).calls, 0u);
        ASSERT_TRUE(outbox.progress(calls, bytes).ok());
    }
    EXPECT_EQ(calls, 1000u);
}

OutboxOptions staying_near(bool crowded, std::chrono::milliseconds for_so_long) {
    OutboxOptions options = with_backlog();
    options.calls_ahead = 10;
    options.stays_near_for = for_so_long;
    options.processors_crowded = crowded ? +[] { return true; } : +[] { return false; };
    return options;
}

TEST(Backlog, CallsStayNearWhereProcessorsAreCrowded_B7) {
    Outbox outbox(staying_near(true, std::chrono::hours(1)));
    outbox.note_round_trip(100);
    auto added = std::async(std::launch::async, [&] {
        for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(add_test_call(outbox, i).ok());
    });
    uint64_t calls = 0, bytes = 0;
    while (calls < 100) {
        const Burst burst = calls_of(outbox);
        ASSERT_LE(burst.calls, 10u);
        calls += burst.calls, bytes += burst.bytes;
        ASSERT_TRUE(outbox.progress(calls, bytes).ok());
    }
    added.get();
    EXPECT_EQ(outbox.counters().credit_waits, 0u) << "of credit there is enough";
}

TEST(Backlog, CallsStayNearForAMomentOnlyIfNothingIsExecuted_B7) {
    Outbox outbox(staying_near(true, std::chrono::milliseconds(1)));
    outbox.note_round_trip(100);
    // The peer may wait for what this thread calls later.
    for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(add_test_call(outbox, i).ok());
    EXPECT_EQ(calls_of(outbox).calls, 100u);
}

TEST(Backlog, CallsRunAheadToAFarServerAndWhereThereAreProcessors_B7) {
    const auto run_ahead = [](bool crowded, uint64_t round_trip_us) {
        Outbox outbox(staying_near(crowded, std::chrono::hours(1)));
        outbox.note_round_trip(round_trip_us);
        for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(add_test_call(outbox, i).ok());
        EXPECT_EQ(calls_of(outbox).calls, 100u);
    };
    run_ahead(false, 100);
    run_ahead(true, 30'000);
    run_ahead(true, 0);  // not known yet
}

TEST(Backlog, KeepsToTheCreditInBytesToo_B2) {
    Outbox outbox(with_backlog());
    outbox.set_credit({20'000, 100'000});
    for (uint64_t i = 0; i < 1000; ++i) ASSERT_TRUE(add_test_call(outbox, i, pattern(100)).ok());
    uint64_t calls = 0, bytes = 0;
    while (calls < 1000) {
        const Burst burst = calls_of(outbox);
        ASSERT_GT(burst.calls, 0u);
        ASSERT_LE(burst.bytes, 20'000u);
        calls += burst.calls, bytes += burst.bytes;
        ASSERT_TRUE(outbox.progress(calls, bytes).ok());
    }
}

TEST(Backlog, WhatIsNoCallPasses_B2) {
    Outbox outbox(with_backlog());
    outbox.set_credit({1 << 20, 4});
    for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(add_test_call(outbox, i).ok());
    EXPECT_EQ(calls_of(outbox).calls, 4u);
    ASSERT_TRUE(
        outbox.add_message<wire::HostCall>(FrameKind::event, k_host_call_words, [](wire::HostCall::Builder m) { m.setId(5); })
            .ok());
    EXPECT_EQ(burst_of(outbox), std::vector<FrameKind>{FrameKind::event});
}

TEST(Backlog, ACallWithALongPayloadWaitsForAllBeforeIt_B3) {
    Outbox outbox(with_backlog());
    outbox.set_credit({4 << 20, 4});
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(add_test_call(outbox, i).ok());
    bytes += calls_of(outbox).bytes;
    const Bytes payload = pattern(2 << 20);
    auto added = std::async(std::launch::async, [&] { return add_long_call(outbox, payload, Lent::until_given_back).value(); });
    while (outbox.counters().credit_waits == 0) std::this_thread::yield();
    EXPECT_TRUE(drain(outbox).empty()) << "no part takes the credit of what comes first";
    ASSERT_TRUE(outbox.progress(4, bytes).ok());
    EXPECT_EQ(added.get(), 7u);
    const auto frames = frames_in(drain(outbox));
    ASSERT_GT(frames.size(), 2u);
    uint64_t calls = 0;
    for (const Frame& frame : frames) {
        if (frame.header.kind == FrameKind::batch)
            calls += read_batch_header(frame.body.view())->count;
        else
            EXPECT_EQ(calls, 3u);
    }
    EXPECT_EQ(calls, 3u);
}

TEST(Backlog, IsBounded_B2) {
    Outbox outbox(with_backlog(4000));
    outbox.set_credit({1 << 20, 2});
    std::atomic<uint64_t> added{0};
    auto adding = std::async(std::launch::async, [&] {
        for (uint64_t i = 0; i < 1000 && add_test_call(outbox, i).ok(); ++i) ++added;
    });
    while (outbox.counters().credit_waits == 0) std::this_thread::yield();
    EXPECT_LT(added, 100u);
    outbox.close(k_gone, true);
    adding.get();
    EXPECT_LT(added, 100u);
}

TEST(Backlog, IsSentBeforeTheGoodbye_C2) {
    Outbox outbox(with_backlog());
    outbox.set_credit({1 << 20, 4});
    for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(add_test_call(outbox, i).ok());
    ASSERT_TRUE(outbox.add_message<wire::Close>(FrameKind::close, 8, [](wire::Close::Builder) {}).ok());
    outbox.close(k_gone, false);
    const Burst first = calls_of(outbox);
    EXPECT_EQ(first.calls, 4u);
    ASSERT_TRUE(outbox.progress(first.calls, first.bytes).ok());
    const auto kinds = burst_of(outbox);
    EXPECT_EQ(kinds.back(), FrameKind::close);
    EXPECT_EQ(std::count(kinds.begin(), kinds.end(), FrameKind::batch), 4);  // a quarter of the credit each
    EXPECT_FALSE(outbox.wait(k_command_lane));
}

TEST(Backlog, TheWriterIsWokenByCredit_B2) {
    Outbox outbox(with_backlog());
    outbox.set_credit({1 << 20, 1});
    for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(add_test_call(outbox, i).ok());
    const Burst first = calls_of(outbox);
    auto woken = std::async(std::launch::async, [&] { return outbox.wait(k_command_lane); });
    ASSERT_TRUE(outbox.progress(first.calls, first.bytes).ok());
    EXPECT_TRUE(woken.get());
    EXPECT_EQ(calls_of(outbox).first, 2u);
}

}  // namespace
}  // namespace warpline::protocol
