// Parts of payloads in memory that both ends share.
#include "protocol/codec/shared_bulk.h"

#include "protocol/codec/link.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;

constexpr uint64_t k_slot = 4096;
constexpr uint64_t k_to_server = k_slot * SharedLayout::k_slots;
constexpr uint64_t k_to_client = 8 * 4096;

TEST(SharedLayout, IsHeldAgainstReason_F3) {
    const auto layout = SharedLayout::checked(k_to_server, k_to_client);
    ASSERT_TRUE(layout.ok());
    EXPECT_EQ(layout->slot_bytes(), k_slot);
    Bytes memory(layout->total_bytes());
    EXPECT_EQ(layout->to_server(memory).size(), k_to_server);
    EXPECT_EQ(layout->to_client(memory).data(), memory.data() + k_to_server);
    EXPECT_TRUE(SharedLayout{}.to_client({}).empty());
    constexpr uint64_t k_much = uint64_t{1} << 62;
    for (const auto& [up, down] : {std::pair{uint64_t{0}, k_to_client},
                                   {k_to_server, uint64_t{0}},
                                   {k_to_server + 1, k_to_client},
                                   {k_slot, k_to_client},
                                   {k_to_server, uint64_t{100}},
                                   {k_much, k_to_client},
                                   {k_to_server, k_much}})
        EXPECT_EQ(SharedLayout::checked(up, down).error().code, Code::malformed) << up << " " << down;
}

OutFrame frame_of(BytesView payload) {
    OutFrame frame;
    frame.external_payload = payload;
    return frame;
}

TEST(SharedSlots, EachIsUsedUntilTheServerHasDoneWithIt_B9) {
    Bytes memory(k_to_server);
    SharedSlots slots(memory);
    EXPECT_EQ(slots.part_bytes(), k_slot);
    const Bytes payload = pattern(1000);
    for (uint64_t i = 0; i < SharedLayout::k_slots; ++i) {
        OutFrame frame = frame_of(payload);
        EXPECT_EQ(slots.place(frame), i * k_slot);
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), memory.begin() + static_cast<ptrdiff_t>(i * k_slot)));
        EXPECT_EQ(frame.payload_view().data(), memory.data() + i * k_slot) << "the program's memory is free";
    }
    OutFrame late = frame_of(payload);
    EXPECT_FALSE(slots.place(late)) << "there is none left";
    EXPECT_EQ(late.payload_view().data(), payload.data());
    EXPECT_TRUE(slots.freed(uint64_t{1} << 5 | uint64_t{1} << 63).ok());
    EXPECT_EQ(slots.place(late), 5 * k_slot);
    OutFrame last = frame_of(payload);
    EXPECT_EQ(slots.place(last), 63 * k_slot);
}

TEST(SharedSlots, WhatIsSentAgainLiesThereAlready_C2) {
    Bytes memory(k_to_server);
    SharedSlots slots(memory);
    const Bytes payload = pattern(k_slot);
    OutFrame frame = frame_of(payload);
    ASSERT_EQ(slots.place(frame), 0u);
    const uint64_t free = slots.free_slots();
    EXPECT_EQ(slots.place(frame), 0u);
    EXPECT_EQ(slots.free_slots(), free) << "and takes no other slot";
    const Bytes longer = pattern(k_slot + 1);
    OutFrame too_long = frame_of(longer);
    EXPECT_FALSE(slots.place(too_long));
}

TEST(SharedSlots, AServerThatGivesBackWhatItNeverHadIsRefused_F3) {
    Bytes memory(k_to_server);
    SharedSlots slots(memory);
    const Bytes payload = pattern(10);
    OutFrame frame = frame_of(payload);
    ASSERT_TRUE(slots.place(frame));
    EXPECT_EQ(slots.freed(2).error().code, Code::malformed);
    Outbox without;
    EXPECT_EQ(without.slots_freed(1).error().code, Code::malformed) << "nor is there any shared memory";
    SharedStaging staging(memory, k_slot);
    EXPECT_EQ(staging.freed(1).error().code, Code::malformed);
}

TEST(SharedArrivals, TellsOfEachSlotOnce_B9) {
    Bytes memory(k_to_server);
    SharedArrivals arrivals(memory);
    {
        const Place a = arrivals.place(MutableBytesView(memory).subspan(3 * k_slot, 100));
        const Place b = arrivals.place(MutableBytesView(memory).subspan(63 * k_slot + 8, 16));
        const Place twice = arrivals.place(MutableBytesView(memory).subspan(3 * k_slot, 100));
        EXPECT_EQ(arrivals.take_freed(), 0u);
    }
    EXPECT_EQ(arrivals.take_freed(), uint64_t{1} << 3 | uint64_t{1} << 63);
    EXPECT_EQ(arrivals.take_freed(), 0u);
}

/// An end of a session: what comes is kept with its bytes.
struct End final : Link::Handler {
    explicit End(LinkOptions options = {}) : link(*this, options) {}
    Result<void> on_frame(Frame frame) override {
        frames.push_back(std::move(frame));
        return {};
    }
    Result<Place> take_shared(uint64_t, uint64_t, uint64_t, MutableBytesView bytes) override { return Place(bytes); }
    Result<void> receive(BytesView bytes) {
        while (!bytes.empty()) {
            const MutableBytesView room = link.receive_space();
            const size_t count = std::min(room.size(), bytes.size());
            std::memcpy(room.data(), bytes.data(), count);
            bytes = bytes.subspan(count);
            WL_TRY(link.received(count));
        }
        return {};
    }
    Bytes output() {
        std::vector<BytesView> views;
        Bytes bytes;
        if (!link.take_output(views)) return bytes;
        for (const BytesView view : views) bytes.insert(bytes.end(), view.begin(), view.end());
        link.output_sent();
        return bytes;
    }

    Link link;
    std::vector<Frame> frames;
};

Buffer bulk_body(uint64_t call, uint64_t offset, uint64_t total) {
    return build_message<wire::Bulk>([&](wire::Bulk::Builder bulk) {
               bulk.setCall(call);
               bulk.setOffset(offset);
               bulk.setTotal(total);
           })
        .value();
}

Bytes shared_frame(uint64_t where, uint32_t bytes, uint64_t sequence = 1, FrameKind kind = FrameKind::bulk) {
    const Buffer body = bulk_body(1, 0, bytes);
    FrameHeader header = header_of(kind, sequence);
    header.flags = k_flag_shared;
    header.body_bytes = static_cast<uint32_t>(body.size());
    header.payload_bytes = k_shared_place_bytes;
    header.payload_raw_bytes = bytes;
    Bytes frame(k_frame_header_bytes);
    encode_frame_header(header, frame.data());
    frame.insert(frame.end(), body.view().begin(), body.view().end());
    const BytesView place = as_bytes(&where, sizeof where);
    frame.insert(frame.end(), place.begin(), place.end());
    return frame;
}

TEST(SharedBulk, APartTravelsAsAPlace_B9) {
    Bytes memory(k_to_server);
    SharedSlots slots(memory);
    LinkOptions options;
    options.outbox.chunk_bytes = 64;
    End client(options), server;
    server.link.share_in(memory);
    client.link.outbox().encoding().share(slots);
    EXPECT_EQ(client.link.outbox().part_bytes(), k_slot);
    const Bytes payload = pattern(3 * k_slot - 10);
    // What waits until the payload has left is another thread's, as ever: here it is the writer itself that asks.
    const auto number = client.link.outbox().add_streamed_call(
        {}, 8, [](capnp::AnyPointer::Builder) {}, [](uint64_t) {}, payload, Lent::until_given_back);
    ASSERT_TRUE(number.ok()) << number.error().what;
    Bytes wire;
    for (Bytes more = client.output(); !more.empty(); more = client.output()) wire.insert(wire.end(), more.begin(), more.end());
    EXPECT_LT(wire.size(), 1000u) << "bytes through the socket";
    EXPECT_EQ(client.link.outbox().counters().bytes, wire.size());
    EXPECT_EQ(slots.bytes(), payload.size());
    // The program may write to its memory: nothing of it is needed any more, not even if the connection is lost.
    client.link.outbox().give_back(payload);
    ASSERT_TRUE(server.receive(wire).ok());
    ASSERT_EQ(server.frames.size(), 4u) << "the call, and three parts";
    Bytes got;
    for (size_t i = 1; i < 4; ++i) {
        EXPECT_GE(server.frames[i].payload_view().data(), memory.data());
        got.insert(got.end(), server.frames[i].payload_view().begin(), server.frames[i].payload_view().end());
    }
    EXPECT_TRUE(got == payload);
    EXPECT_EQ(server.link.shared_bytes_received(), payload.size());
}

TEST(SharedBulk, PlacesOutsideOfTheMemoryAreRefused_F3) {
    Bytes memory(k_to_server);
    const auto outcome = [&](uint64_t where, uint32_t bytes, FrameKind kind = FrameKind::bulk) {
        End server;
        server.link.share_in(memory);
        const auto taken = server.receive(shared_frame(where, bytes, 1, kind));
        return taken.ok() ? Code::ok : taken.error().code;
    };
    EXPECT_EQ(outcome(0, k_slot), Code::ok);
    EXPECT_EQ(outcome(k_to_server - 1, 1), Code::ok);
    EXPECT_EQ(outcome(k_to_server, 1), Code::malformed);
    EXPECT_EQ(outcome(k_to_server - 10, 11), Code::malformed);
    EXPECT_EQ(outcome(~uint64_t{0}, 2), Code::malformed);
    EXPECT_EQ(outcome(0, k_to_server + 1), Code::malformed);
    EXPECT_EQ(outcome(0, 0), Code::malformed) << "an empty one";
    EXPECT_EQ(outcome(0, 100u << 20), Code::malformed) << "longer than a payload may be";
    EXPECT_EQ(outcome(0, 10, FrameKind::event), Code::malformed) << "only parts of payloads";
}

TEST(SharedBulk, WithoutSharedMemoryIsRefused_F3) {
    End server;
    EXPECT_EQ(server.receive(shared_frame(0, 10)).error().code, Code::malformed);
}

TEST(SharedBulk, APlaceIsReadWholeOrNotAtAll_F3) {
    Bytes memory(k_to_server);
    for (const uint32_t size : {0u, 4u, 9u}) {
        Bytes frame = shared_frame(0, 10);
        std::memcpy(frame.data() + 36, &size, sizeof size);
        frame.resize(frame.size() + 16);
        End server;
        server.link.share_in(memory);
        EXPECT_EQ(server.receive(frame).error().code, Code::malformed) << size;
    }
}

/// Whose memory parts to the client lie in.
struct PartLender final : PlaceOwner {
    void give_back(std::byte*) override { ++given_back; }
    Place lend(MutableBytesView bytes) { return {bytes, *this}; }
    int given_back = 0;
};

TEST(SharedStaging, WhatIsBorrowedTravelsAsBytes_B9) {
    Bytes memory(k_to_client);
    SharedStaging staging(memory, k_slot);
    PartLender lender;
    OutFrame frame = frame_of(BytesView(memory).subspan(4096, 512));
    EXPECT_FALSE(staging.place(frame)) << "its owner writes there when it has been sent, and the client reads later";
    frame.lent = lender.lend(MutableBytesView(memory).subspan(4096, 512));
    EXPECT_EQ(staging.place(frame), 4096u);
    EXPECT_EQ(lender.given_back, 0);
}

TEST(SharedBulk, AServerSendsFromWhereItIs_B9) {
    Bytes memory(k_to_client), elsewhere = pattern(500);
    PartLender lender;
    SharedStaging staging(memory, 512);
    End server, client;
    server.link.outbox().encoding().share(staging);
    client.link.share_in(memory);
    const Bytes payload = pattern(512, 9);
    std::copy(payload.begin(), payload.end(), memory.begin() + 4096);
    ASSERT_TRUE(server.link.outbox().add_bulk(1, 0, 1012, lender.lend(MutableBytesView(memory).subspan(4096, 512))).ok());
    ASSERT_TRUE(server.link.outbox().add_bulk(1, 512, 1012, Place(MutableBytesView(elsewhere))).ok());
    ASSERT_TRUE(client.receive(server.output()).ok());
    ASSERT_EQ(client.frames.size(), 2u);
    EXPECT_EQ(client.frames[0].payload_view().data(), memory.data() + 4096);
    EXPECT_TRUE(std::ranges::equal(client.frames[1].payload_view(), elsewhere)) << "as bytes";
    EXPECT_EQ(client.link.shared_bytes_received(), 512u);
}

TEST(SharedBulk, WhoQueuesAPartThatLiesThereMaySendIt_B9) {
    constexpr size_t k_part = 512 * 1024;
    Bytes memory(8 * k_part);
    SharedStaging staging(memory, k_part);
    PartLender lender;
    End server, elsewhere;
    server.link.outbox().encoding().share(staging);
    const auto queue = [&](End& end, uint64_t part) {
        return end.link.outbox().add_bulk(1, part * k_part, 8 * k_part,
                                          lender.lend(MutableBytesView(memory).subspan(part * k_part, k_part)),
                                          Urgency::caller);
    };
    EXPECT_TRUE(server.link.outbox().sends_places());
    ASSERT_TRUE(queue(server, 0).ok());
    EXPECT_TRUE(server.link.may_flush()) << "it is a few bytes that say where";
    EXPECT_LT(server.output().size(), 200u);
    for (uint64_t part = 1; part < 7; ++part) ASSERT_TRUE(queue(server, part).ok());
    EXPECT_FALSE(server.link.may_flush()) << "somebody else must be sending";
    EXPECT_FALSE(elsewhere.link.outbox().sends_places());
    ASSERT_TRUE(queue(elsewhere, 0).ok());
    EXPECT_FALSE(elsewhere.link.may_flush()) << "the bytes themselves are the writer's to send";
}

TEST(SharedBulk, PartsWaitForSlotsThatCallsKeep_B9) {
    Bytes memory(k_to_server);
    SharedSlots slots(memory);
    LinkOptions options;
    options.outbox.chunk_bytes = 64;
    End client(options);
    Outbox& outbox = client.link.outbox();
    outbox.encoding().share(slots);
    const Bytes payload = pattern(100 * k_slot);
    ASSERT_TRUE(outbox
                    .add_streamed_call(
                        {}, 8, [](capnp::AnyPointer::Builder) {}, [](uint64_t) {}, payload, Lent::until_given_back)
                    .ok());
    const auto send_all = [&] {
        size_t bytes = 0;
        for (Bytes more = client.output(); !more.empty(); more = client.output()) bytes += more.size();
        return bytes;
    };
    EXPECT_LT(send_all(), 64 * 200u);
    EXPECT_EQ(slots.bytes(), 64 * k_slot) << "all of them, and nothing as bytes";
    EXPECT_EQ(send_all(), 0u);
    // The server has executed some, and says so.
    ASSERT_TRUE(outbox.slots_freed(0x3ff).ok() && outbox.progress(1, 10 * k_slot).ok());
    EXPECT_LT(send_all(), 10 * 200u);
    EXPECT_EQ(slots.bytes(), 74 * k_slot);
    EXPECT_EQ(send_all(), 0u);
    // It has executed nearly all, and gives none back: its streams keep them, perhaps until they have seen the rest.
    ASSERT_TRUE(outbox.progress(1, 62 * k_slot).ok());
    EXPECT_GT(send_all(), k_slot);
    EXPECT_EQ(slots.bytes(), 74 * k_slot);
}

}  // namespace
}  // namespace warpline::protocol
