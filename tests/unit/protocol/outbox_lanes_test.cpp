// Sending over several connections at a time.
#include <algorithm>

#include "protocol/codec/link.h"
#include "protocol/codec/outbox.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::protocol::test {
namespace {

TEST(Outbox, PartsLeaveOverBulkLanesAndCallsDoNot_B3) {
    OutboxOptions options;
    options.chunk_bytes = options.bulk_part_bytes = 1000;
    options.window_bytes = 2500;
    Outbox outbox(options);
    ASSERT_TRUE(outbox.attach(1, 0).ok() && outbox.attach(2, 0).ok());
    const Bytes payload = pattern(10000);
    ASSERT_TRUE(add_long_call(outbox, payload, Lent::until_given_back).ok());
    using K = FrameKind;
    EXPECT_EQ(burst_of(outbox), std::vector{K::batch}) << "parts are for the others";
    EXPECT_EQ(burst_of(outbox), std::vector<K>{});
    for (const uint16_t lane : {1, 2, 2}) EXPECT_EQ(burst_of(outbox, lane), std::vector{K::bulk}) << lane;
    EXPECT_EQ(burst_of(outbox, 2), std::vector<K>{}) << "its window is full";
    EXPECT_EQ(burst_of(outbox, 3), std::vector<K>{}) << "it has no connection";
    // A lane that comes back sends again what it had, and no other one does.
    outbox.detach(2);
    EXPECT_EQ(burst_of(outbox, 2), std::vector<K>{});
    ASSERT_TRUE(outbox.attach(2, 1).ok());
    EXPECT_EQ(burst_of(outbox, 2), (std::vector{K::bulk, K::bulk})) << "and there is room for one more";
    EXPECT_EQ(outbox.counters().frames_again, 1u);
    // When none is left, the rest goes with the calls.
    outbox.detach(1);
    EXPECT_EQ(burst_of(outbox), std::vector<K>{});
    outbox.detach(2);
    EXPECT_EQ(burst_of(outbox), std::vector{K::bulk});
    outbox.close(k_gone, true);
}

TEST(Outbox, GivesMemoryBackOfAllLanes_B3) {
    OutboxOptions options;
    options.chunk_bytes = options.bulk_part_bytes = 1000;
    Outbox outbox(options);
    ASSERT_TRUE(outbox.attach(1, 0).ok() && outbox.attach(2, 0).ok());
    Bytes payload = pattern(3000);
    ASSERT_TRUE(add_long_call(outbox, payload, Lent::until_given_back).ok());
    using K = FrameKind;
    for (const uint16_t lane : {1, 2, 1}) ASSERT_EQ(burst_of(outbox, lane), std::vector{K::bulk}) << lane;
    outbox.give_back(payload);
    std::fill(payload.begin(), payload.end(), std::byte{0});
    Bytes again;
    for (const uint16_t lane : {1, 2}) {
        outbox.detach(lane);
        ASSERT_TRUE(outbox.attach(lane, 0).ok());
        std::vector<BytesView> views;
        ASSERT_TRUE(outbox.take(lane, views, 0));
        for (const BytesView view : views) again.insert(again.end(), view.begin(), view.end());
        outbox.sent(lane);
    }
    Bytes parts(3000);
    for (const Frame& frame : frames_in(again)) {
        const auto part = read_bulk_header(frame.body.view(), frame.payload.size());
        ASSERT_TRUE(part.ok());
        std::copy_n(frame.payload.data(), frame.payload.size(), parts.begin() + static_cast<ptrdiff_t>(part->offset));
    }
    EXPECT_TRUE(parts == pattern(3000));
}

TEST(Outbox, PartsGoToTheLaneWithTheLeastToDo_B3) {
    Outbox outbox;
    ASSERT_TRUE(outbox.attach(1, 0).ok() && outbox.attach(2, 0).ok());
    EXPECT_EQ(outbox.part_bytes(), OutboxOptions{}.bulk_part_bytes);
    Bytes part = pattern(1000);
    for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(outbox.add_bulk(9, i * 1000, 3000, part_of(part)).ok());
    for (const uint16_t lane : {uint16_t{1}, uint16_t{2}}) {
        EXPECT_EQ(outbox.acknowledge(lane, 1).error().code, Code::malformed) << "it was not sent";
        EXPECT_EQ(burst_of(outbox, lane), std::vector{FrameKind::bulk});
        EXPECT_TRUE(outbox.acknowledge(lane, 1).ok());
    }
    outbox.detach(1);
    outbox.detach(2);
    EXPECT_EQ(outbox.part_bytes(), OutboxOptions{}.part_bytes);
    ASSERT_TRUE(outbox.add_bulk(9, 2000, 3000, part_of(part)).ok());
    EXPECT_EQ(burst_of(outbox), std::vector{FrameKind::bulk});
}

TEST(Outbox, CloseWaitsForAllLanes_B3) {
    Outbox outbox;
    ASSERT_TRUE(outbox.attach(1, 0).ok());
    Bytes part = pattern(1000);
    ASSERT_TRUE(outbox.add_bulk(9, 0, 3000, part_of(part)).ok());
    ASSERT_TRUE(outbox.add_body(FrameKind::close, {}).ok());
    outbox.close(k_gone, false);
    EXPECT_EQ(burst_of(outbox), std::vector<FrameKind>{});
    EXPECT_EQ(burst_of(outbox, 1), std::vector{FrameKind::bulk});
    EXPECT_EQ(burst_of(outbox), std::vector{FrameKind::close});
    EXPECT_FALSE(outbox.wait(k_command_lane));
}

}  // namespace
}  // namespace warpline::protocol::test
