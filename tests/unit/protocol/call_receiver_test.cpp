// Tests of how a server takes batches.
#include "protocol/codec/call_receiver.h"
#include "protocol/codec/link.h"

#include <future>

#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;

std::vector<Frame> sent_by(Outbox& outbox) { return frames_in(drain(outbox)); }

// All of a payload, as far as it comes without an error.
Bytes gather(PayloadStream& stream, size_t* parts = nullptr) {
    Bytes all;
    for (;;) {
        const auto part = stream.next();
        if (!part.ok() || part->empty()) return all;
        all.insert(all.end(), part->view().begin(), part->view().end());
        if (parts != nullptr) ++*parts;
    }
}

// The frames of one call with a payload of this size, in parts of 1000 bytes.
std::vector<Frame> streamed_call(const Bytes& payload) {
    OutboxOptions options;
    options.chunk_bytes = 1000;
    Outbox outbox(options);
    auto call = std::async(std::launch::async, [&] {
        return outbox
            .add_streamed_call<wire::HostCall>(
                CallHeader{}, k_host_call_words, [](wire::HostCall::Builder) {}, [](uint64_t) {}, payload)
            .ok();
    });
    Bytes stream;
    while (stream.size() < payload.size() + payload.size() / 1000 * 60) {
        Bytes more = drain(outbox);
        stream.insert(stream.end(), more.begin(), more.end());
        std::this_thread::yield();
    }
    EXPECT_TRUE(call.get());
    return frames_in(stream);
}

TEST(CallReceiver, TakesBatchesInOrder_B2) {
    Outbox outbox;
    CallReceiver receiver({1 << 20, 100});
    (void)*add_test_call(outbox, 1);
    (void)*add_test_call(outbox, 2, pattern(10));
    auto unit = receiver.accept_batch(std::move(sent_by(outbox)[0]));
    ASSERT_TRUE(unit.ok());
    EXPECT_EQ(unit->calls, 2u);
    EXPECT_EQ(unit->stream, nullptr);
    (void)*add_test_call(outbox, 3);
    EXPECT_TRUE(receiver.accept_batch(std::move(sent_by(outbox)[0])).ok());
}

TEST(CallReceiver, RefusesNumbersThatDoNotContinue_F3) {
    Outbox outbox;
    CallReceiver receiver({1 << 20, 100});
    (void)*add_test_call(outbox, 1);
    (void)sent_by(outbox);
    (void)*add_test_call(outbox, 2);
    EXPECT_EQ(receiver.accept_batch(std::move(sent_by(outbox)[0])).error().code, Code::malformed);
}

TEST(CallReceiver, RefusesMoreThanTheCredit_F3) {
    Outbox outbox;
    CallReceiver receiver({1 << 20, 3});
    for (int i = 0; i < 4; ++i) (void)*add_test_call(outbox, 1);
    EXPECT_EQ(receiver.accept_batch(std::move(sent_by(outbox)[0])).error().code, Code::quota);
}

TEST(CallReceiver, JoinsAStreamedPayloadToItsCall_B3) {
    Bytes payload = pattern(4500);
    auto frames = streamed_call(payload);
    ASSERT_EQ(frames.size(), 6u);
    CallReceiver receiver({1 << 20, 100});
    auto unit = receiver.accept_batch(std::move(frames[0]));
    ASSERT_TRUE(unit.ok());
    ASSERT_NE(unit->stream, nullptr);
    EXPECT_EQ(unit->stream->total_bytes(), 4500u);
    size_t parts = 0;
    auto whole = std::async(std::launch::async, [&] { return gather(*unit->stream, &parts); });
    for (size_t i = 1; i < frames.size(); ++i) ASSERT_TRUE(receiver.accept_bulk(std::move(frames[i])).ok()) << i;
    EXPECT_EQ(whole.get(), payload);
    EXPECT_EQ(parts, 5u);
}

TEST(CallReceiver, CallsAndOtherPayloadsComeBetweenTheParts_B3) {
    OutboxOptions options;
    options.chunk_bytes = 1000;
    Outbox outbox(options);
    const Bytes first = pattern(2500), second = pattern(1500);
    const auto add = [&](const Bytes& payload) {
        return outbox.add_streamed_call<wire::HostCall>(
            CallHeader{}, k_host_call_words, [](wire::HostCall::Builder) {}, [](uint64_t) {}, payload, Lent::until_given_back);
    };
    ASSERT_TRUE(add(first).ok() && add_test_call(outbox, 2).ok() && add(second).ok());
    auto frames = sent_by(outbox);
    CallReceiver receiver({1 << 20, 100});
    std::vector<CallReceiver::Unit> units;
    for (Frame& frame : frames) {
        if (frame.header.kind != FrameKind::batch) continue;
        auto unit = receiver.accept_batch(std::move(frame));
        ASSERT_TRUE(unit.ok()) << unit.error().what;
        units.push_back(std::move(*unit));
    }
    ASSERT_EQ(units.size(), 2u) << "a call with a payload is the last one of its batch";
    // Whichever comes first, as long as each one's parts are in order.
    const auto payload_frames = [&](uint64_t call) {
        std::vector<Frame> parts;
        for (Frame& frame : frames) {
            if (frame.header.kind != FrameKind::bulk) continue;
            const auto header = read_bulk_header(frame.body.view(), frame.payload.size());
            if (header.ok() && header->call == call) parts.push_back(std::move(frame));
        }
        return parts;
    };
    auto of_second = payload_frames(3);
    auto of_first = payload_frames(1);
    ASSERT_EQ(of_first.size() + of_second.size(), 5u);
    EXPECT_FALSE(units[1].stream->has_arrived());
    for (Frame& frame : of_second) EXPECT_TRUE(receiver.accept_bulk(std::move(frame)).ok());
    EXPECT_TRUE(units[1].stream->has_arrived());
    for (Frame& frame : of_first) EXPECT_TRUE(receiver.accept_bulk(std::move(frame)).ok());
    EXPECT_EQ(gather(*units[0].stream), first);
    EXPECT_EQ(gather(*units[1].stream), second);
}

TEST(CallReceiver, PartsComeInAnyOrderAndBeforeTheirCall_B3) {
    const Bytes payload = pattern(4500);
    auto frames = streamed_call(payload);
    CallReceiver receiver({1 << 20, 100});
    for (size_t early : {4u, 2u}) ASSERT_TRUE(receiver.accept_bulk(std::move(frames[early])).ok());
    auto unit = receiver.accept_batch(std::move(frames[0]));
    ASSERT_TRUE(unit.ok()) << unit.error().what;
    for (size_t late : {5u, 1u, 3u}) {
        EXPECT_FALSE(unit->stream->has_arrived());
        ASSERT_TRUE(receiver.accept_bulk(std::move(frames[late])).ok()) << late;
    }
    EXPECT_TRUE(unit->stream->has_arrived());
    EXPECT_EQ(gather(*unit->stream), payload);
}

TEST(CallReceiver, RefusesPartsThatAreNobodysOrComeTwice_F3) {
    const Bytes payload = pattern(4500);
    auto frames = streamed_call(payload);
    auto again = streamed_call(payload);
    CallReceiver receiver({1 << 20, 100});
    ASSERT_TRUE(receiver.accept_batch(std::move(frames[0])).ok());
    ASSERT_TRUE(receiver.accept_bulk(std::move(frames[2])).ok());
    EXPECT_EQ(receiver.accept_bulk(std::move(again[2])).error().code, Code::malformed);

    // Of a call that has come, and has no payload.
    Outbox outbox;
    ASSERT_TRUE(add_test_call(outbox, 1).ok());
    CallReceiver without({1 << 20, 100});
    ASSERT_TRUE(without.accept_bulk(std::move(again[1])).ok()) << "its call may be on its way";
    EXPECT_EQ(without.accept_batch(std::move(sent_by(outbox)[0])).error().code, Code::malformed);

    // More of them than the credit allows.
    auto many = streamed_call(payload);
    CallReceiver strict({2500, 100});
    ASSERT_TRUE(strict.accept_bulk(std::move(many[1])).ok() && strict.accept_bulk(std::move(many[2])).ok());
    EXPECT_EQ(strict.accept_bulk(std::move(many[3])).error().code, Code::quota);
}

TEST(CallReceiver, RefusesPartsThatCostMoreToKeepThanTheyCarry_F3) {
    const auto part_of = [](uint64_t offset, uint64_t total, size_t bytes) {
        Frame frame;
        frame.header.kind = FrameKind::bulk;
        EXPECT_TRUE(frame.payload.append(pattern(bytes)));
        auto body = build_message<wire::Bulk>([&](wire::Bulk::Builder bulk) {
            bulk.setCall(1);
            bulk.setOffset(offset);
            bulk.setTotal(total);
        });
        EXPECT_TRUE(body.ok() && frame.body.append(body->view()));
        return frame;
    };
    CallReceiver receiver({64u << 20, 100});
    EXPECT_TRUE(receiver.accept_bulk(part_of(0, 1u << 20, 4096)).ok());
    EXPECT_TRUE(receiver.accept_bulk(part_of((1u << 20) - 5, 1u << 20, 5)).ok()) << "the last one may be of any size";
    EXPECT_EQ(receiver.accept_bulk(part_of(4096, 1u << 20, 4095)).error().code, Code::malformed);
}

TEST(PayloadStream, RefusesOverlaps_F3) {
    const auto part = [](size_t bytes) {
        PayloadPart made;
        EXPECT_TRUE(made.buffer.append(pattern(bytes)));
        return made;
    };
    PayloadStream stream(1000);
    ASSERT_TRUE(stream.push(400, part(100)).ok());
    for (uint64_t offset : {350u, 400u, 499u, 301u}) EXPECT_FALSE(stream.push(offset, part(100)).ok()) << offset;
    EXPECT_FALSE(stream.push(950, part(100)).ok()) << "outside";
    ASSERT_TRUE(stream.push(0, part(400)).ok() && stream.push(500, part(500)).ok());
    EXPECT_TRUE(stream.has_arrived());
    EXPECT_EQ(stream.next()->size(), 400u);
    EXPECT_FALSE(stream.push(0, part(400)).ok()) << "it was pulled";
}

TEST(CallReceiver, TheEndWakesWhoReadsAStream) {
    auto frames = streamed_call(pattern(4500));
    CallReceiver receiver({1 << 20, 100});
    auto unit = receiver.accept_batch(std::move(frames[0]));
    ASSERT_TRUE(unit.ok() && receiver.accept_bulk(std::move(frames[1])).ok());
    auto reader = std::async(std::launch::async, [&] {
        EXPECT_EQ(unit->stream->next()->size(), 1000u);
        return unit->stream->next().error().code;
    });
    receiver.fail(Error{Code::connection_lost, "gone"});
    EXPECT_EQ(reader.get(), Code::connection_lost);
}

}  // namespace
}  // namespace warpline::protocol
