// Sending over several connections at a time.
#include <algorithm>
#include <thread>

#include "protocol/codec/link.h"
#include "protocol/codec/outbox.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::protocol::test {
namespace {

/// What a lane's writer takes.
std::vector<Frame> taken(Outbox& outbox, uint16_t lane) {
    std::vector<BytesView> views;
    Bytes bytes;
    EXPECT_TRUE(outbox.take(lane, views, 0));
    for (const BytesView view : views) bytes.insert(bytes.end(), view.begin(), view.end());
    outbox.sent(lane);
    return frames_in(bytes);
}

/// Puts a part where it belongs. False if it is none.
bool put_part(const Frame& frame, Bytes& whole) {
    if (frame.header.kind != FrameKind::bulk) return false;
    const auto part = read_bulk_header(frame.body.view(), frame.payload.size());
    if (!part.ok() || part->total != whole.size()) return false;
    std::copy_n(frame.payload.data(), frame.payload.size(), whole.begin() + static_cast<ptrdiff_t>(part->offset));
    return true;
}

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
    Bytes parts(3000);
    for (const uint16_t lane : {1, 2}) {
        outbox.detach(lane);
        ASSERT_TRUE(outbox.attach(lane, 0).ok());
        for (const Frame& frame : taken(outbox, lane)) ASSERT_TRUE(put_part(frame, parts));
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

TEST(Outbox, WhatALaneHadThatDoesNotComeBackGoesOverTheOthers_B3_C2) {
    OutboxOptions options;
    options.chunk_bytes = options.bulk_part_bytes = 1000;
    Outbox outbox(options);
    ASSERT_TRUE(outbox.attach(1, 0).ok() && outbox.attach(2, 0).ok());
    Bytes payload = pattern(4000);
    ASSERT_TRUE(add_long_call(outbox, payload, Lent::until_given_back).ok());
    ASSERT_EQ(burst_of(outbox), std::vector{FrameKind::batch});
    Bytes arrived(4000);
    ASSERT_TRUE(put_part(taken(outbox, 1).at(0), arrived));  // the one that will have been received
    for (const uint16_t lane : {2, 1, 2}) ASSERT_EQ(burst_of(outbox, lane), std::vector{FrameKind::bulk}) << lane;
    EXPECT_FALSE(outbox.give_up(1, 1).ok()) << "it is in use";
    outbox.detach(1);
    EXPECT_EQ(outbox.give_up(1, 3).error().code, Code::malformed) << "so many were not sent";
    EXPECT_EQ(outbox.give_up(k_command_lane, 0).error().code, Code::malformed);
    ASSERT_TRUE(outbox.give_up(1, 1).ok());
    EXPECT_EQ(outbox.give_up(1, 1).error().code, Code::malformed) << "again";
    EXPECT_EQ(outbox.attach(1, 1).error().code, Code::malformed) << "for good";
    EXPECT_EQ(outbox.counters().frames_again, 1u);
    EXPECT_EQ(burst_of(outbox, 2), std::vector{FrameKind::bulk}) << "the part that the lost one had";
    // What is lent is known where it has gone to.
    outbox.give_back(payload);
    std::fill(payload.begin(), payload.end(), std::byte{0});
    // The other one does not come back either, and has had nothing that arrived.
    outbox.detach(2);
    Buffer told;
    ASSERT_TRUE(told.append(as_bytes(std::string_view("an event"))));
    ASSERT_TRUE(outbox.give_up(2, 0, std::move(told)).ok());
    const auto frames = taken(outbox, k_command_lane);
    ASSERT_EQ(frames.size(), 4u);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(put_part(frames[i], arrived));
    EXPECT_EQ(frames[3].header.kind, FrameKind::event) << "behind the parts";
    EXPECT_TRUE(arrived == pattern(4000));
    EXPECT_EQ(outbox.counters().frames_again, 4u);
    ASSERT_TRUE(outbox.acknowledge(k_command_lane, 5).ok());
    EXPECT_EQ(outbox.retained_bytes(), 0u);
}

TEST(Outbox, WhoWaitsForAPayloadWaitsForWhatHasMoved_B3_C2) {
    OutboxOptions options;
    options.chunk_bytes = options.bulk_part_bytes = options.part_bytes = 1000;
    Outbox outbox(options);
    ASSERT_TRUE(outbox.attach(1, 0).ok());
    Bytes payload = pattern(2000);
    std::thread program([&] {
        EXPECT_TRUE(add_long_call(outbox, payload, Lent::until_return).ok());
        std::fill(payload.begin(), payload.end(), std::byte{0});
    });
    ASSERT_TRUE(outbox.wait(1));
    ASSERT_EQ(burst_of(outbox, 1), std::vector{FrameKind::bulk});
    outbox.detach(1);
    ASSERT_TRUE(outbox.give_up(1, 0).ok());
    // The batch, what has moved, and the rest, which no other lane is there for.
    for (size_t parts = 0; parts < 2;) {
        ASSERT_TRUE(outbox.wait(k_command_lane));
        for (const Frame& frame : taken(outbox, k_command_lane)) parts += frame.header.kind == FrameKind::bulk ? 1 : 0;
    }
    program.join();
    outbox.detach(k_command_lane);
    ASSERT_TRUE(outbox.attach(k_command_lane, 0).ok());
    Bytes arrived(2000);
    size_t parts = 0;
    for (const Frame& frame : taken(outbox, k_command_lane)) parts += put_part(frame, arrived) ? 1 : 0;
    EXPECT_EQ(parts, 2u);
    EXPECT_TRUE(arrived == pattern(2000)) << "the program's memory was its own again";
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
