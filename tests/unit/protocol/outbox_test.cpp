// Tests of what gathers calls and sends them.
#include "protocol/codec/outbox.h"

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;
using namespace std::chrono_literals;

// Does not wait for a time that proves nothing: it waits until the outbox has counted the waiter.
void until_somebody_waits(const Outbox& outbox, uint64_t waits_before) {
    while (outbox.counters().credit_waits == waits_before) std::this_thread::yield();
}

TEST(Outbox, GathersCallsIntoOneBatch_B2) {
    Outbox outbox;
    for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(*add_test_call(outbox, i), i + 1);
    auto frames = frames_in(drain(outbox, 77));
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].header.kind, FrameKind::batch);
    EXPECT_EQ(frames[0].header.sequence, 1u);
    EXPECT_EQ(frames[0].header.acknowledgement, 77u);
    EXPECT_EQ(batch_header(frames[0]).first_call, 1u);
    EXPECT_EQ(batch_header(frames[0]).count, 100u);
}

TEST(Outbox, NumbersGoOnFromBatchToBatch_B2) {
    Outbox outbox;
    (void)*add_test_call(outbox, 1);
    (void)*add_test_call(outbox, 2);
    auto first = frames_in(drain(outbox));
    (void)*add_test_call(outbox, 3);
    auto second = frames_in(drain(outbox));
    EXPECT_EQ(batch_header(second[0]).first_call, 3u);
    EXPECT_EQ(second[0].header.sequence, 2u);
}

TEST(Outbox, KeepsTheOrderOfWhatIsAdded_B1) {
    Outbox outbox;
    (void)*add_test_call(outbox, 1);
    ASSERT_TRUE(
        outbox.add_message<wire::HostCall>(FrameKind::event, k_host_call_words, [](wire::HostCall::Builder m) { m.setId(5); })
            .ok());
    outbox.add_ping(k_command_lane);
    (void)*add_test_call(outbox, 2);
    auto frames = frames_in(drain(outbox));
    ASSERT_EQ(frames.size(), 4u);
    EXPECT_EQ(frames[0].header.kind, FrameKind::ping);
    EXPECT_EQ(frames[0].header.sequence, 0u);
    EXPECT_EQ(frames[1].header.kind, FrameKind::batch);
    EXPECT_EQ(frames[2].header.kind, FrameKind::event);
    EXPECT_EQ(frames[2].header.sequence, 2u);
    EXPECT_EQ(frames[3].header.kind, FrameKind::batch);
    EXPECT_EQ(frames[3].header.sequence, 3u);
}

TEST(Outbox, ClosesABatchBeforeItIsTooLarge_B2) {
    OutboxOptions options;
    options.batch_body_bytes = 1000;
    options.batch_payload_bytes = 100;
    Outbox outbox(options);
    for (uint64_t i = 0; i < 50; ++i) (void)*add_test_call(outbox, i);
    (void)*add_test_call(outbox, 50, pattern(90));
    (void)*add_test_call(outbox, 51, pattern(90));
    auto frames = frames_in(drain(outbox));
    uint64_t next = 1;
    for (const Frame& frame : frames) {
        EXPECT_LE(frame.body.size(), 1000u + 24u);
        EXPECT_LE(frame.payload.size(), 100u);
        EXPECT_EQ(batch_header(frame).first_call, next);
        next += batch_header(frame).count;
    }
    EXPECT_EQ(next, 53u);
}

TEST(Outbox, TellsTheNumberBeforeTheCallCanLeave) {
    Outbox outbox;
    uint64_t told = 0;
    auto number = outbox.add_call<wire::HostCall>(
        CallHeader{}, k_host_call_words, [](wire::HostCall::Builder) {}, [&](uint64_t n) { told = n; });
    EXPECT_EQ(told, *number);
}

TEST(Outbox, RefusesALongPayloadThatIsNotStreamed) {
    OutboxOptions options;
    options.chunk_bytes = 100;
    Outbox outbox(options);
    EXPECT_TRUE(add_test_call(outbox, 1, pattern(100)).ok());
    EXPECT_EQ(add_test_call(outbox, 1, pattern(101)).error().code, Code::bad_argument);
}

TEST(Outbox, WaitsForCreditAndGoesOn_B2) {
    Outbox outbox;
    outbox.set_credit({1 << 20, 2});
    (void)*add_test_call(outbox, 1);
    (void)*add_test_call(outbox, 2);
    std::atomic<bool> through{false};
    std::thread third([&] {
        EXPECT_EQ(*add_test_call(outbox, 3), 3u);
        through = true;
    });
    until_somebody_waits(outbox, 0);
    EXPECT_FALSE(through);
    drain(outbox);
    EXPECT_TRUE(outbox.progress(1, 0).ok());
    third.join();
    EXPECT_TRUE(through);
}

TEST(Outbox, WakesTheWriterBeforeItWaitsForCredit_B2) {
    Outbox outbox;
    outbox.set_credit({1 << 20, 1});
    // The call that nobody has announced must leave, or its credit never comes back.
    (void)*add_test_call(outbox, 1, {}, true, Urgency::caller);
    auto woken = std::async(std::launch::async, [&] { return outbox.wait(k_command_lane); });
    EXPECT_TRUE(woken.get());
}

TEST(Outbox, RefusesACallLargerThanTheWindow_F3) {
    Outbox outbox;
    outbox.set_credit({1000, 10});
    EXPECT_EQ(add_test_call(outbox, 1, pattern(900)).error().code, Code::quota);
    EXPECT_TRUE(add_test_call(outbox, 1, pattern(100)).ok());
}

TEST(Outbox, EndWakesWhoWaits) {
    Outbox outbox;
    outbox.set_credit({1 << 20, 1});
    (void)*add_test_call(outbox, 1);
    auto second = std::async(std::launch::async, [&] { return add_test_call(outbox, 2).error().code; });
    until_somebody_waits(outbox, 0);
    outbox.close(k_gone, true);
    EXPECT_EQ(second.get(), Code::connection_lost);
    EXPECT_EQ(add_test_call(outbox, 3).error().code, Code::connection_lost);
    EXPECT_FALSE(outbox.wait(k_command_lane));
    std::vector<BytesView> views;
    EXPECT_FALSE(outbox.take(k_command_lane, views, 0));
}

TEST(Outbox, EndWithoutAbandonStillSendsWhatIsThere) {
    Outbox outbox;
    (void)*add_test_call(outbox, 1);
    outbox.close(k_gone, false);
    EXPECT_EQ(add_test_call(outbox, 2).error().code, Code::connection_lost);
    EXPECT_TRUE(outbox.wait(k_command_lane));
    EXPECT_EQ(frames_in(drain(outbox)).size(), 1u);
    EXPECT_FALSE(outbox.wait(k_command_lane));
}

// A writer that takes until the outbox ends, and gives credit for all that it takes.
struct Writer {
    Outbox& outbox;
    bool gives_credit;
    Bytes stream;
    std::thread thread;

    Writer(Outbox& target, bool credit) : outbox(target), gives_credit(credit), thread([this] { run(); }) {}
    void run() {
        uint64_t calls = 0, bytes = 0;
        std::vector<BytesView> views;
        while (outbox.wait(k_command_lane)) {
            views.clear();
            if (!outbox.take(k_command_lane, views, 0)) continue;
            Bytes burst;
            for (BytesView view : views) burst.insert(burst.end(), view.begin(), view.end());
            outbox.sent(k_command_lane);
            for (const Frame& frame : frames_in(burst)) {
                if (frame.header.kind == FrameKind::batch) {
                    calls += batch_header(frame).count;
                    bytes += credit_cost(*read_batch_header(frame.body.view()), frame.header);
                } else if (frame.header.kind == FrameKind::bulk) {
                    bytes += frame.payload.size();
                }
            }
            stream.insert(stream.end(), burst.begin(), burst.end());
            EXPECT_TRUE(!gives_credit || outbox.progress(calls, bytes).ok());
        }
    }
    Bytes end() {
        outbox.close(k_gone, false);
        thread.join();
        return std::move(stream);
    }
};

TEST(Outbox, StreamsALongPayloadWithinTheCredit_B3) {
    OutboxOptions options;
    options.chunk_bytes = 10000;
    Outbox outbox(options);
    outbox.set_credit({30000, 100});
    Writer writer(outbox, true);
    Bytes payload = pattern(123456);
    auto number = outbox.add_streamed_call<wire::HostCall>(
        CallHeader{}, k_host_call_words, [](wire::HostCall::Builder) {}, [](uint64_t) {}, payload);
    ASSERT_TRUE(number.ok()) << number.error().what;
    std::fill(payload.begin(), payload.end(), std::byte{0});  // free to change now
    (void)*add_test_call(outbox, 2);
    auto frames = frames_in(writer.end());
    ASSERT_GE(frames.size(), 3u);
    EXPECT_EQ(batch_header(frames.front()).streamed_bytes, payload.size());
    EXPECT_EQ(frames.back().header.kind, FrameKind::batch);
    Bytes arrived;
    for (const Frame& frame : frames) {
        if (frame.header.kind != FrameKind::bulk) continue;
        EXPECT_LE(frame.payload.size(), 7500u);  // a quarter of the window
        arrived.insert(arrived.end(), frame.payload.data(), frame.payload.data() + frame.payload.size());
    }
    EXPECT_EQ(arrived, pattern(123456));
}

TEST(Outbox, CallsGoBetweenThePartsOfAPayload_B3) {
    OutboxOptions options;
    options.chunk_bytes = 1000;
    Outbox outbox(options);
    const Bytes payload = pattern(3000);
    const Bytes later = pattern(1500);
    ASSERT_TRUE(add_long_call(outbox, payload, Lent::until_given_back).ok());
    using K = FrameKind;
    EXPECT_EQ(burst_of(outbox), (std::vector{K::batch, K::bulk}));
    ASSERT_TRUE(add_test_call(outbox, 2).ok());
    EXPECT_TRUE(outbox.add_message<wire::HostCall>(K::event, k_host_call_words, [](wire::HostCall::Builder) {}).ok());
    // The oldest payload goes first.
    ASSERT_TRUE(add_long_call(outbox, later, Lent::until_given_back).ok());
    EXPECT_EQ(burst_of(outbox), (std::vector{K::batch, K::event, K::batch, K::bulk}));
    outbox.close(k_gone, false);
    EXPECT_EQ(burst_of(outbox), std::vector{K::bulk});
    EXPECT_EQ(burst_of(outbox), std::vector{K::bulk});
    EXPECT_EQ(burst_of(outbox), std::vector{K::bulk});
    EXPECT_EQ(burst_of(outbox), std::vector<K>{});
}

TEST(Outbox, PartsWaitForAcknowledgementsAndCallsDoNot_B3) {
    OutboxOptions options;
    options.chunk_bytes = 1000;
    options.window_bytes = 2500;
    Outbox outbox(options);
    const Bytes payload = pattern(10000);
    ASSERT_TRUE(add_long_call(outbox, payload, Lent::until_given_back).ok());
    using K = FrameKind;
    EXPECT_EQ(burst_of(outbox), (std::vector{K::batch, K::bulk}));
    EXPECT_EQ(burst_of(outbox), std::vector{K::bulk});
    EXPECT_EQ(burst_of(outbox), std::vector<K>{}) << "what is under way may be in a queue";
    ASSERT_TRUE(add_test_call(outbox, 2).ok());
    EXPECT_EQ(burst_of(outbox), std::vector{K::batch});
    ASSERT_TRUE(outbox.acknowledge(k_command_lane, 2).ok());
    EXPECT_EQ(burst_of(outbox), std::vector{K::bulk});
    EXPECT_EQ(burst_of(outbox), std::vector<K>{});
    // The path holds more than was thought.
    outbox.set_window(k_command_lane, 4500);
    EXPECT_EQ(burst_of(outbox), std::vector{K::bulk});
    // A part always may leave when nothing is under way, however small the window.
    ASSERT_TRUE(outbox.acknowledge(k_command_lane, 6).ok());
    outbox.set_window(k_command_lane, 1);
    EXPECT_EQ(burst_of(outbox), std::vector{K::bulk});
    EXPECT_EQ(burst_of(outbox), std::vector<K>{});
    outbox.close(k_gone, true);
}

TEST(Outbox, CallsLeaveHalfOfTheCreditToAPayload_B3) {
    OutboxOptions options;
    options.chunk_bytes = 1000;
    Outbox outbox(options);
    outbox.set_credit({8000, 1000});
    const Bytes payload = pattern(20000);
    ASSERT_TRUE(add_long_call(outbox, payload, Lent::until_given_back).ok());
    std::atomic<int> added{0};
    std::thread caller([&] {
        while (add_test_call(outbox, 2).ok()) ++added;
    });
    while (!outbox.has_waiters()) std::this_thread::yield();
    EXPECT_GT(added, 0);
    // Although nothing is executed, parts can go: those calls may wait for them on the other side.
    size_t parts = 0;
    for (std::vector<FrameKind> kinds = burst_of(outbox); !kinds.empty(); kinds = burst_of(outbox))
        parts += static_cast<size_t>(std::count(kinds.begin(), kinds.end(), FrameKind::bulk));
    EXPECT_GE(parts, 3u);
    EXPECT_LT(parts, 8u);
    outbox.close(k_gone, true);
    caller.join();
}

TEST(Outbox, LentMemoryIsReadInPlaceUntilItIsGivenBack_B3) {
    OutboxOptions options;
    options.chunk_bytes = 1000;
    Outbox outbox(options);
    Bytes payload = pattern(2500);
    ASSERT_TRUE(add_long_call(outbox, payload, Lent::until_given_back).ok()) << "returns at once";
    std::atomic<bool> given_back{false};
    std::thread owner([&] {
        outbox.give_back(payload);
        given_back = true;
    });
    while (!outbox.has_waiters()) std::this_thread::yield();
    burst_of(outbox), burst_of(outbox);
    EXPECT_FALSE(given_back) << "a part has not left";
    burst_of(outbox);
    owner.join();
    std::fill(payload.begin(), payload.end(), std::byte{0});
    // What a lost connection may have lost is sent again, as it was.
    outbox.detach(k_command_lane);
    ASSERT_TRUE(outbox.attach(k_command_lane, 0).ok());
    Bytes arrived;
    Writer writer(outbox, false);
    for (const Frame& frame : frames_in(writer.end())) {
        if (frame.header.kind == FrameKind::bulk)
            arrived.insert(arrived.end(), frame.payload.data(), frame.payload.data() + frame.payload.size());
    }
    EXPECT_EQ(arrived, pattern(2500));
    outbox.give_back(payload);
}

TEST(Outbox, LentMemoryIsFreeWhenTheSessionEnds_B3) {
    Outbox outbox;
    const Bytes payload = pattern(5u << 20);
    ASSERT_TRUE(add_long_call(outbox, payload, Lent::until_given_back).ok());
    std::vector<BytesView> views;
    ASSERT_TRUE(outbox.take(k_command_lane, views, 0));
    std::thread owner([&] { outbox.give_back(payload); });
    while (!outbox.has_waiters()) std::this_thread::yield();
    outbox.close(k_gone, true);
    outbox.sent(k_command_lane);  // until then the writer reads it
    owner.join();
}

TEST(Outbox, ASenderOfBulkWaitsForRoom_B3) {
    OutboxOptions options;
    options.part_bytes = options.bulk_part_bytes = 1000;
    options.window_bytes = 3500;
    Outbox outbox(options);
    Bytes payload = pattern(1001);
    for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(outbox.add_bulk(9, i * 1000, 100000, part_of(payload, 0, 1000)).ok());
    std::atomic<bool> through{false};
    std::thread fourth([&] {
        EXPECT_TRUE(outbox.add_bulk(9, 3000, 100000, part_of(payload, 0, 1000)).ok());
        through = true;
    });
    while (!outbox.has_waiters()) std::this_thread::yield();
    drain(outbox);
    EXPECT_FALSE(through);
    // What is sent may be in a queue on the way: only what the peer has makes room.
    ASSERT_TRUE(outbox.acknowledge(k_command_lane, 1).ok());
    fourth.join();
    EXPECT_EQ(outbox.add_bulk(9, 0, 1, part_of(payload)).error().code, Code::bad_argument);
}

TEST(Outbox, SendsAPayloadInParts_B3) {
    OutboxOptions options;
    options.chunk_bytes = 1 << 20;
    options.retain_limit_bytes = 64 << 20;
    options.part_bytes = 1 << 20;
    options.window_bytes = 64 << 20;
    Outbox outbox(options);
    Writer writer(outbox, false);
    Bytes payload = pattern((40u << 20) + 5);
    ASSERT_TRUE(outbox.send_payload(4, payload).ok());
    auto frames = frames_in(writer.end());
    EXPECT_EQ(frames.size(), 41u);
    Bytes arrived;
    for (const Frame& frame : frames)
        arrived.insert(arrived.end(), frame.payload.data(), frame.payload.data() + frame.payload.size());
    EXPECT_TRUE(arrived == payload);
}

/// Whose memory parts lie in: three of 1,000 bytes.
struct Lender final : PlaceOwner {
    Bytes memory = pattern(3000);
    std::vector<size_t> given_back;

    Place part(size_t i) { return {MutableBytesView(memory).subspan(i * 1000, 1000), *this}; }
    void give_back(std::byte* data) override { given_back.push_back(static_cast<size_t>(data - memory.data()) / 1000); }
};

TEST(Outbox, MemoryGoesBackWhenThePeerHasThePart_B3) {
    Lender lender;
    Outbox outbox;
    for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(outbox.add_bulk(9, i * 1000, 3000, lender.part(i)).ok());
    drain(outbox);
    EXPECT_EQ(lender.given_back, std::vector<size_t>{}) << "it may have to be sent again";
    ASSERT_TRUE(outbox.acknowledge(k_command_lane, 1).ok());
    EXPECT_EQ(lender.given_back, std::vector<size_t>{0});
    outbox.detach(k_command_lane);
    ASSERT_TRUE(outbox.attach(k_command_lane, 1).ok());
    const auto again = frames_in(drain(outbox));
    ASSERT_EQ(again.size(), 2u);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(copy(again[i].payload.view()), copy(lender.part(i + 1).bytes()));
    lender.given_back.clear();  // part() makes a place, which comes back as well
    ASSERT_TRUE(outbox.acknowledge(k_command_lane, 3).ok());
    EXPECT_EQ(lender.given_back, (std::vector<size_t>{1, 2}));
}

TEST(Outbox, MemoryGoesBackWhenTheEndIsTold_B3) {
    Lender lender;
    Outbox outbox;
    ASSERT_TRUE(outbox.add_bulk(9, 0, 3000, lender.part(0)).ok());
    std::vector<BytesView> views;
    ASSERT_TRUE(outbox.take(k_command_lane, views, 0));
    ASSERT_TRUE(outbox.add_bulk(9, 1000, 3000, lender.part(1)).ok());
    outbox.close(k_gone, true);
    EXPECT_EQ(lender.given_back, std::vector<size_t>{1}) << "the writer still has the first part in its hands";
    outbox.sent(k_command_lane);
    EXPECT_EQ(lender.given_back, (std::vector<size_t>{1, 0}));
    EXPECT_EQ(outbox.add_bulk(9, 2000, 3000, lender.part(2)).error().code, Code::connection_lost);
    EXPECT_EQ(lender.given_back, (std::vector<size_t>{1, 0, 2}));
}

TEST(Outbox, ManyThreadsGetEachNumberOnce_B2) {
    Outbox outbox;
    Writer writer(outbox, true);
    constexpr int k_threads = 4, k_calls = 5000;
    std::vector<std::thread> threads;
    std::atomic<uint64_t> sum{0};
    for (int t = 0; t < k_threads; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < k_calls; ++i) sum += *add_test_call(outbox, static_cast<uint64_t>(i));
        });
    }
    for (auto& thread : threads) thread.join();
    uint64_t total = k_threads * k_calls;
    EXPECT_EQ(sum, total * (total + 1) / 2);
    uint64_t next = 1;
    for (const Frame& frame : frames_in(writer.end())) {
        EXPECT_EQ(batch_header(frame).first_call, next);
        next += batch_header(frame).count;
    }
    EXPECT_EQ(next, total + 1);
}

TEST(Outbox, SendsAgainWhatALostConnectionMayHaveLost_C2) {
    Outbox outbox;
    (void)*add_test_call(outbox, 1);
    drain(outbox);
    (void)*add_test_call(outbox, 2);
    drain(outbox);
    EXPECT_EQ(outbox.acknowledge(k_command_lane, 3).error().code, Code::malformed);
    outbox.detach(k_command_lane);
    EXPECT_FALSE(outbox.wait(k_command_lane)) << "nobody writes to a connection that is lost";
    (void)*add_test_call(outbox, 3);
    EXPECT_TRUE(drain(outbox).empty());
    ASSERT_TRUE(outbox.attach(k_command_lane, 1).ok());
    const auto frames = frames_in(drain(outbox));
    ASSERT_EQ(frames.size(), 2u);
    EXPECT_EQ(frames[0].header.sequence, 2u);
    EXPECT_EQ(batch_header(frames[0]).first_call, 2u);
    EXPECT_EQ(batch_header(frames[1]).first_call, 3u);
    EXPECT_EQ(outbox.counters().frames_again, 1u);
    EXPECT_TRUE(outbox.acknowledge(k_command_lane, 3).ok());
    EXPECT_EQ(outbox.retained_bytes(), 0u);
}

TEST(Outbox, WaitsForAcknowledgementsAndStillAnswersPings_C1) {
    OutboxOptions options;
    options.retain_limit_bytes = 2500;
    Outbox outbox(options);
    Bytes payload = pattern(1000);
    for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(outbox.add_bulk(9, i * 1000, 4000, part_of(payload)).ok());
    EXPECT_EQ(frames_in(drain(outbox)).size(), 2u);
    outbox.add_pong(k_command_lane, 5);
    const auto pong = frames_in(drain(outbox));
    ASSERT_EQ(pong.size(), 1u);
    EXPECT_EQ(pong[0].header.kind, FrameKind::pong);
    ASSERT_TRUE(outbox.acknowledge(k_command_lane, 2).ok());
    EXPECT_EQ(frames_in(drain(outbox)).size(), 2u);
}

TEST(Outbox, CloseComesAfterEverything_C2) {
    Outbox outbox;
    ASSERT_TRUE(outbox.add_body(FrameKind::close, {}).ok());
    (void)*add_test_call(outbox, 1);
    const auto frames = frames_in(drain(outbox));
    ASSERT_EQ(frames.size(), 2u);
    EXPECT_EQ(frames[0].header.kind, FrameKind::batch);
    EXPECT_EQ(frames[1].header.kind, FrameKind::close);
}

TEST(Outbox, AFrameIsNotReusedWhileItIsBeingSentAgain_C2) {
    Outbox outbox;
    (void)*add_test_call(outbox, 1, pattern(100));
    drain(outbox);
    outbox.detach(k_command_lane);
    ASSERT_TRUE(outbox.attach(k_command_lane, 0).ok());
    std::vector<BytesView> views;
    ASSERT_TRUE(outbox.take(k_command_lane, views, 0));
    ASSERT_TRUE(outbox.acknowledge(k_command_lane, 1).ok());  // faster than the writer
    (void)*add_test_call(outbox, 2, Bytes(100, std::byte{9}));
    Bytes written;
    for (BytesView view : views) written.insert(written.end(), view.begin(), view.end());
    outbox.sent(k_command_lane);
    const auto frames = frames_in(written);
    ASSERT_EQ(frames.size(), 1u);
    const Bytes expected = pattern(100);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), frames[0].payload.view().begin()));
}

TEST(Outbox, KnowsWhichCallsAreStillHere_B2) {
    Outbox outbox;
    outbox.set_credit({1 << 20, 3});
    EXPECT_TRUE(outbox.may_have_left(0));
    const uint64_t first = *add_test_call(outbox, 1);
    EXPECT_FALSE(outbox.may_have_left(first));
    drain(outbox);
    const uint64_t second = *add_test_call(outbox, 2);
    EXPECT_TRUE(outbox.may_have_left(first));
    EXPECT_FALSE(outbox.may_have_left(second));
    EXPECT_FALSE(outbox.may_have_left(second + 1)) << "it is not made yet";
    drain(outbox);
    EXPECT_TRUE(outbox.may_have_left(second));
}

TEST(Outbox, CallsWithoutCreditAreStillHere_B2) {
    OutboxOptions options;
    options.backlog_bytes = 1 << 20;
    Outbox outbox(options);
    outbox.set_credit({1 << 20, 4});
    uint64_t last = 0;
    for (uint64_t i = 0; i < 6; ++i) last = *add_test_call(outbox, i);
    drain(outbox);
    EXPECT_TRUE(outbox.may_have_left(last - 2));
    EXPECT_FALSE(outbox.may_have_left(last - 1));
    EXPECT_FALSE(outbox.may_have_left(last));
    ASSERT_TRUE(outbox.progress(4, 0).ok());
    drain(outbox);
    EXPECT_TRUE(outbox.may_have_left(last));
}

TEST(Outbox, APokeEndsOneWait) {
    Outbox outbox;
    outbox.poke(k_command_lane);
    EXPECT_TRUE(outbox.wait(k_command_lane));
    outbox.close(k_gone, false);
    EXPECT_FALSE(outbox.wait(k_command_lane));
}

TEST(Outbox, RefusesAMessageThatIsTooLarge_F3) {
    Outbox outbox;
    EXPECT_EQ(outbox.add_body(FrameKind::event, {}, Bytes((8u << 20) + 1)).error().code, Code::quota);
    // More words than announced: refused, and nothing is queued.
    auto result = outbox.add_message<wire::Drain>(FrameKind::event, 2,
                                                  [](wire::Drain::Builder drain) { drain.setReason("too long by far"); });
    EXPECT_EQ(result.error().code, Code::malformed);
    EXPECT_TRUE(drain(outbox).empty());
}

}  // namespace
}  // namespace warpline::protocol
