#include "protocol/codec/session_state.h"

#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;
using namespace std::chrono_literals;
using Verdict = ReceiveState::Verdict;

TEST(ReceiveState, AcceptsInOrderAndDropsDuplicates_C2) {
    ReceiveState state;
    EXPECT_EQ(*state.accept(header_of(FrameKind::batch, 1)), Verdict::accept);
    EXPECT_EQ(*state.accept(header_of(FrameKind::bulk, 2)), Verdict::accept);
    EXPECT_EQ(*state.accept(header_of(FrameKind::batch, 1)), Verdict::duplicate);
    EXPECT_EQ(*state.accept(header_of(FrameKind::bulk, 2)), Verdict::duplicate);
    EXPECT_EQ(*state.accept(header_of(FrameKind::ping)), Verdict::accept);
    EXPECT_EQ(*state.accept(header_of(FrameKind::event, 3)), Verdict::accept);
    EXPECT_EQ(state.received(), 3u);
}

TEST(ReceiveState, RefusesGapsAndMisnumberedFrames_F3) {
    ReceiveState state;
    EXPECT_EQ(state.accept(header_of(FrameKind::batch, 2)).error().code, Code::malformed);
    EXPECT_EQ(state.accept(header_of(FrameKind::batch, 0)).error().code, Code::malformed);
    EXPECT_EQ(state.accept(header_of(FrameKind::ping, 1)).error().code, Code::malformed);
    EXPECT_EQ(state.received(), 0u);
}

TEST(ReceiveState, AsksForAnAcknowledgementInTime) {
    ReceiveState state;
    for (uint64_t i = 1; i <= 255; ++i) (void)*state.accept(header_of(FrameKind::reply, i));
    EXPECT_FALSE(state.acknowledgement_due());
    (void)*state.accept(header_of(FrameKind::reply, 256));
    EXPECT_TRUE(state.acknowledgement_due());
    state.acknowledgement_left();
    EXPECT_FALSE(state.acknowledgement_due());
    FrameHeader large = header_of(FrameKind::bulk, 257);
    large.payload_bytes = 4u << 20;
    (void)*state.accept(large);
    EXPECT_TRUE(state.acknowledgement_due());
}

OutFrame frame_with(SendState& state, std::string_view payload) {
    OutFrame frame;
    frame.header.kind = FrameKind::event;
    frame.header.sequence = state.next_sequence(frame.header.kind);
    (void)frame.payload.append(as_bytes(payload));
    frame.header.payload_bytes = static_cast<uint32_t>(payload.size());
    return frame;
}

TEST(SendState, KeepsWhatIsNotAcknowledged_C2) {
    SendState state(10000);
    for (const char* text : {"one", "two", "three"}) EXPECT_FALSE(state.retain(frame_with(state, text)).has_value());
    ASSERT_TRUE(state.acknowledge(1).ok());
    auto kept = state.unacknowledged_after(1);
    ASSERT_TRUE(kept.ok());
    ASSERT_EQ((*kept)->size(), 2u);
    EXPECT_EQ(as_text((**kept)[0].payload.view()), "two");
    EXPECT_EQ((**kept)[1].header.sequence, 3u);
    ASSERT_TRUE(state.acknowledge(3).ok());
    EXPECT_EQ(state.retained_bytes(), 0u);
}

TEST(SendState, CopiesAPayloadThatIsNotItsOwn_C2) {
    SendState state(10000);
    Bytes memory = bytes_of("the program's memory");
    OutFrame frame = frame_with(state, "");
    frame.external_payload = memory;
    frame.header.payload_bytes = static_cast<uint32_t>(memory.size());
    EXPECT_FALSE(state.retain(std::move(frame)).has_value());
    std::fill(memory.begin(), memory.end(), std::byte{0});
    EXPECT_EQ(as_text((**state.unacknowledged_after(0))[0].payload_view()), "the program's memory");
}

TEST(SendState, GivesUpKeepingBeyondItsBound) {
    SendState state(3 * k_frame_header_bytes + 10);
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(state.retain(frame_with(state, "abc")).has_value());
    EXPECT_TRUE(state.resumable());
    (void)state.retain(frame_with(state, "abcdefgh"));
    EXPECT_FALSE(state.resumable());
    EXPECT_EQ(state.retained_bytes(), 0u);
    EXPECT_EQ(state.unacknowledged_after(2).error().code, Code::connection_lost);
    EXPECT_TRUE(state.unacknowledged_after(4).ok());  // nothing was lost
}

TEST(SendState, ReturnsFramesThatNeedNotBeKept) {
    SendState state(10000);
    OutFrame ping;
    ping.header.kind = FrameKind::ping;
    EXPECT_TRUE(state.retain(std::move(ping)).has_value());
    OutFrame frame = frame_with(state, "x");
    ASSERT_TRUE(state.acknowledge(1).ok());  // faster than the thread that sent it
    EXPECT_TRUE(state.retain(std::move(frame)).has_value());
}

TEST(SendState, RefusesAnAcknowledgementOfWhatWasNotSent_F3) {
    SendState state(10000);
    (void)state.retain(frame_with(state, "x"));
    EXPECT_TRUE(state.acknowledge(1).ok());
    EXPECT_EQ(state.acknowledge(2).error().code, Code::malformed);
    EXPECT_TRUE(state.acknowledge(0).ok());  // an old one, late
    EXPECT_EQ(state.acknowledged(), 1u);
}

TEST(Credit, IsSpentAndComesBack_B2) {
    CreditAccount account;
    account.set_limits({1000, 3});
    EXPECT_TRUE(account.can_spend(1000, 1));
    EXPECT_FALSE(account.can_spend(1001, 1));
    account.spend(400, 1);
    account.spend(400, 1);
    EXPECT_FALSE(account.can_spend(300, 1));
    EXPECT_TRUE(account.can_spend(200, 1));
    account.spend(100, 1);
    EXPECT_FALSE(account.can_spend(1, 1));
    EXPECT_TRUE(account.progress(2, 800).ok());
    EXPECT_EQ(account.bytes_in_flight(), 100u);
    EXPECT_EQ(account.calls_in_flight(), 1u);
    EXPECT_TRUE(account.progress(1, 400).ok());  // an old report changes nothing
    EXPECT_EQ(account.bytes_in_flight(), 100u);
    EXPECT_EQ(account.progress(4, 900).error().code, Code::malformed);
    EXPECT_EQ(account.progress(3, 901).error().code, Code::malformed);
}

TEST(Credit, GrantNoticesWhoTakesTooMuch_F3) {
    CreditGrant grant({1000, 10});
    EXPECT_TRUE(grant.received(1000, 1).ok());
    EXPECT_EQ(grant.received(1, 1).error().code, Code::quota);
    CreditGrant calls({1000, 2});
    EXPECT_TRUE(calls.received(1, 2).ok());
    EXPECT_EQ(calls.received(1, 1).error().code, Code::quota);
}

TEST(Credit, GrantReportsByQuarters_B2) {
    CreditGrant grant({1000, 1000});
    ASSERT_TRUE(grant.received(600, 6).ok());
    EXPECT_FALSE(grant.done(249, 1).has_value());
    auto progress = grant.done(1, 1);
    ASSERT_TRUE(progress.has_value());
    EXPECT_EQ(progress->bytes, 250u);
    EXPECT_EQ(progress->calls, 2u);
    EXPECT_FALSE(grant.done(100, 1).has_value());
    EXPECT_EQ(grant.report().bytes, 350u);
}

// Whatever the sizes, a spender who waits gets its credit: reports that are kept back never add up to what the largest item
// needs.
TEST(Credit, NeverStandsStill_B2) {
    for (uint64_t limit : {1ull, 3ull, 7ull, 100ull, 1000ull}) {
        for (uint64_t item : {uint64_t{1}, limit / 4, limit / 2, limit - limit / 4}) {
            if (item == 0) continue;
            CreditAccount account;
            account.set_limits({limit, 5});
            CreditGrant grant({limit, 5});
            ASSERT_LE(item, account.largest_item_bytes());
            for (int i = 0; i < 100; ++i) {
                ASSERT_TRUE(account.can_spend(item, 1)) << limit << " " << item << " " << i;
                account.spend(item, 1);
                ASSERT_TRUE(grant.received(item, 1).ok());
                auto progress = grant.done(item, 1);
                ASSERT_TRUE(!progress || account.progress(progress->calls, progress->bytes).ok());
            }
        }
    }
}

TEST(Heartbeat, PingsWhenSilentAndNoticesTheDead_C1) {
    Clock::time_point start{};
    start += 1h;
    Heartbeat heartbeat({1000ms, 8000ms}, start);
    EXPECT_EQ(heartbeat.tick(start + 900ms), Heartbeat::Action::none);
    EXPECT_EQ(heartbeat.tick(start + 1000ms), Heartbeat::Action::ping);
    EXPECT_EQ(heartbeat.tick(start + 1500ms), Heartbeat::Action::none);
    EXPECT_EQ(heartbeat.tick(start + 2000ms), Heartbeat::Action::ping);
    for (auto at = 3000ms; at <= 7000ms; at += 1000ms) EXPECT_EQ(heartbeat.tick(start + at), Heartbeat::Action::ping);
    EXPECT_EQ(heartbeat.tick(start + 7999ms), Heartbeat::Action::none);
    EXPECT_EQ(heartbeat.tick(start + 8000ms), Heartbeat::Action::dead);
}

TEST(Heartbeat, WhoWasStoppedAsksAgain_C1) {
    Clock::time_point start{};
    start += 1h;
    Heartbeat heartbeat({1000ms, 8000ms}, start);
    EXPECT_EQ(heartbeat.tick(start + 1000ms), Heartbeat::Action::ping);
    // A minute in which this process did not run says nothing about the peer.
    auto now = start + 61s;
    EXPECT_EQ(heartbeat.tick(now), Heartbeat::Action::ping);
    heartbeat.received(now + 10ms);
    EXPECT_EQ(heartbeat.tick(now + 250ms), Heartbeat::Action::none);
    // Without an answer the peer is given up all the same.
    int ticks = 0;
    for (now += 250ms; heartbeat.tick(now) != Heartbeat::Action::dead && ticks < 100; now += 250ms) ++ticks;
    EXPECT_LE(ticks, 32);
}

TEST(Heartbeat, TrafficReplacesPings_C1) {
    Clock::time_point start{};
    start += 1h;
    Heartbeat heartbeat({1000ms, 8000ms}, start);
    for (int i = 1; i < 40; ++i) {
        auto now = start + i * 500ms;
        heartbeat.received(now);
        heartbeat.sent(now);
        EXPECT_EQ(heartbeat.tick(now), Heartbeat::Action::none);
    }
}

TEST(Heartbeat, AsksAPeerThatOnlyListens_C1) {
    Clock::time_point start{};
    start += 1h;
    Heartbeat heartbeat({1000ms, 8000ms}, start);
    int pings = 0;
    for (int i = 1; i < 70; ++i) {
        auto now = start + i * 100ms;
        heartbeat.sent(now);
        if (heartbeat.tick(now) == Heartbeat::Action::ping) ++pings;
    }
    EXPECT_GE(pings, 5);
    EXPECT_LE(pings, 7);
}

TEST(Heartbeat, HasPatienceWithASlowLink_C1) {
    Clock::time_point start{};
    start += 1h;
    Heartbeat heartbeat({1000ms, 2000ms}, start);
    heartbeat.pong(1000000, 2000000);
    EXPECT_EQ(heartbeat.round_trip_us(), 1000000u);
    for (auto at = 1000ms; at <= 3000ms; at += 1000ms) EXPECT_NE(heartbeat.tick(start + at), Heartbeat::Action::dead);
    EXPECT_EQ(heartbeat.tick(start + 4000ms), Heartbeat::Action::dead);
    heartbeat.pong(5000000, 2000000);  // an echo from the future is not believed
    EXPECT_EQ(heartbeat.round_trip_us(), 1000000u);
}

}  // namespace
}  // namespace warpline::protocol
