// How large parts are on links of different speeds (B6).
#include "protocol/codec/link_fit.h"

#include <gtest/gtest.h>

#include "protocol/codec/link.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::protocol::test {
namespace {

constexpr uint32_t k_kib = 1024, k_most = 1 << 20;

double ns_per_byte(double mbit) { return 8e3 / mbit; }

TEST(LinkFit, PartsTakeAboutAsLongOnEveryLink_B6) {
    const auto part = [](const PartRange& range, double mbit) {
        return fit_to_link(range, k_most, ns_per_byte(mbit)).part_bytes;
    };
    EXPECT_EQ(part(k_command_parts, 10), 64 * k_kib) << "the least";
    EXPECT_EQ(part(k_command_parts, 100), 64 * k_kib);
    EXPECT_EQ(part(k_command_parts, 600), 128 * k_kib) << "2 ms are 146 KiB";
    EXPECT_EQ(part(k_command_parts, 1'100), 256 * k_kib);
    EXPECT_EQ(part(k_command_parts, 25'000), 256 * k_kib) << "the most";
    EXPECT_EQ(part(k_bulk_parts, 100), 256 * k_kib);
    EXPECT_EQ(part(k_bulk_parts, 600), 576 * k_kib) << "8 ms are 586 KiB";
    EXPECT_EQ(part(k_bulk_parts, 25'000), 1024 * k_kib);
}

TEST(LinkFit, WhatIsNotKnownIsTakenForFast_B6) {
    const LinkFit command = fit_to_link(k_command_parts, k_most, 0), bulk = fit_to_link(k_bulk_parts, k_most, 0);
    EXPECT_EQ(command.part_bytes, 256 * k_kib);
    EXPECT_EQ(command.least_window_bytes, 1024 * k_kib);
    EXPECT_EQ(bulk.part_bytes, 1024 * k_kib);
    EXPECT_EQ(bulk.least_window_bytes, 3072 * k_kib);
    EXPECT_EQ(command.unsent_bytes, 0u);
    EXPECT_EQ(bulk.unsent_bytes, 0u);
}

TEST(LinkFit, AWindowIsNeverTooSmallForAnAcknowledgement_B6) {
    for (const PartRange& range : {k_command_parts, k_bulk_parts}) {
        for (double mbit = 0.1; mbit < 100'000; mbit *= 1.3) {
            const LinkFit fit = fit_to_link(range, k_most, ns_per_byte(mbit));
            EXPECT_GE(fit.part_bytes, range.least_bytes) << mbit;
            EXPECT_LE(fit.part_bytes, range.most_bytes) << mbit;
            EXPECT_EQ(fit.part_bytes % (64 * k_kib), 0u) << mbit;
            // Less than a part of room is left at the earliest when the peer has what it acknowledges.
            EXPECT_GE(fit.least_window_bytes, k_acknowledged_bytes + fit.part_bytes) << mbit;
            EXPECT_LE(fit.least_window_bytes, uint64_t{range.most_bytes} * range.in_window) << mbit;
        }
    }
}

TEST(LinkFit, SlowSocketsKeepLittleUnsent_B6) {
    EXPECT_EQ(fit_to_link(k_command_parts, k_most, ns_per_byte(100)).unsent_bytes, 64 * k_kib);
    EXPECT_EQ(fit_to_link(k_bulk_parts, k_most, ns_per_byte(100)).unsent_bytes, 256 * k_kib);
    EXPECT_EQ(fit_to_link(k_command_parts, k_most, ns_per_byte(2'000)).unsent_bytes, 0u);
}

TEST(LinkFit, SmallerPartsThanTheRangeStayAsTheyAre_B6) {
    EXPECT_EQ(fit_to_link(k_bulk_parts, 1000, ns_per_byte(1)).part_bytes, 1000u);
    EXPECT_EQ(fit_to_link(k_bulk_parts, 1000, 0).least_window_bytes, 3000u);
}

TEST(LinkFit, TheWayThatIsTheFastestCounts_B6) {
    EXPECT_EQ(least_cost({}), 0);
    EXPECT_EQ(least_cost({80, 0, 20, 0}), 20);
}

// What the outbox cuts and asks for.
TEST(Outbox, PartsAreAsLargeAsSuitsTheLane_B6) {
    OutboxOptions options;
    options.chunk_bytes = options.part_bytes = options.bulk_part_bytes = 1000;
    Outbox outbox(options);
    const Bytes payload = pattern(2500);
    ASSERT_TRUE(add_long_call(outbox, payload, Lent::until_given_back).ok());
    const auto sizes = [&] {
        std::vector<BytesView> views;
        Bytes bytes;
        EXPECT_TRUE(outbox.take(k_command_lane, views, 0));
        for (const BytesView view : views) bytes.insert(bytes.end(), view.begin(), view.end());
        outbox.sent(k_command_lane);
        std::vector<size_t> parts;
        for (const Frame& frame : frames_in(bytes))
            if (frame.header.kind == FrameKind::bulk) parts.push_back(frame.payload.size());
        return parts;
    };
    EXPECT_EQ(outbox.part_bytes(), 1000u);
    EXPECT_EQ(sizes(), std::vector<size_t>{1000});
    outbox.set_window(k_command_lane, 1 << 20, 400);
    EXPECT_EQ(outbox.part_bytes(), 400u);
    EXPECT_EQ(sizes(), std::vector<size_t>{400});
    outbox.set_window(k_command_lane, 1 << 20, 4000);
    EXPECT_EQ(outbox.part_bytes(), 1000u) << "no more than the options say";
    EXPECT_EQ(sizes(), std::vector<size_t>{1000});
    outbox.set_window(k_command_lane, 1 << 20);
    EXPECT_EQ(sizes(), std::vector<size_t>{100});
    outbox.close(k_gone, true);
}

}  // namespace
}  // namespace warpline::protocol::test
