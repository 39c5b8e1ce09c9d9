// Tests of a link: frames, acknowledgements, what is sent again.
#include "protocol/codec/link.h"

#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;
using namespace std::chrono_literals;

struct Side : Link::Handler {
    explicit Side(LinkOptions options = {}) : link(*this, options) {}
    Result<void> on_frame(Frame frame) override {
        frames.push_back(std::move(frame));
        return {};
    }
    Result<Place> place_payload(uint64_t call, uint64_t offset, uint64_t, size_t bytes) override {
        if (call != placed_call) return Place{};
        return Place(MutableBytesView(place).subspan(offset, bytes));
    }

    /// Takes what the link wants to send.
    Bytes output() {
        Bytes out;
        std::vector<BytesView> views;
        while (link.take_output(views)) {
            for (BytesView view : views) out.insert(out.end(), view.begin(), view.end());
            views.clear();
            link.output_sent();
        }
        return out;
    }
    Result<void> input(BytesView bytes) {
        while (!bytes.empty()) {
            MutableBytesView space = link.receive_space();
            size_t count = std::min(space.size(), bytes.size());
            std::memcpy(space.data(), bytes.data(), count);
            bytes = bytes.subspan(count);
            WL_TRY(link.received(count));
        }
        return {};
    }

    void on_level(const LinkLevelChange& change) override { changes.push_back(change); }

    std::vector<Frame> frames;
    std::vector<LinkLevelChange> changes;
    uint64_t placed_call = 0;
    Bytes place;
    Link link;
};

Result<void> add_event(Side& side, uint64_t id) {
    return side.link.outbox().add_message<wire::Event>(FrameKind::event, 16,
                                                       [&](wire::Event::Builder event) { event.initHostCall().setId(id); });
}

TEST(Link, CarriesFramesAndAcknowledgesThem_B1) {
    Side a, b;
    ASSERT_TRUE(add_event(a, 1).ok());
    ASSERT_TRUE(add_event(a, 2).ok());
    ASSERT_TRUE(b.input(a.output()).ok());
    ASSERT_EQ(b.frames.size(), 2u);
    EXPECT_EQ(b.frames[1].header.sequence, 2u);
    ASSERT_TRUE(add_event(b, 3).ok());
    ASSERT_TRUE(a.input(b.output()).ok());
    ASSERT_EQ(a.frames.size(), 1u);
    EXPECT_EQ(a.frames[0].header.acknowledgement, 2u);
}

TEST(Link, DropsDuplicates_C2) {
    Side a, b;
    ASSERT_TRUE(add_event(a, 1).ok());
    Bytes first = a.output();
    ASSERT_TRUE(b.input(first).ok());
    ASSERT_TRUE(b.input(first).ok());
    EXPECT_EQ(b.frames.size(), 1u);
}

TEST(Link, ADuplicateIsNotWrittenOverTheProgramsMemory_C2) {
    Side a, b;
    Bytes payload = pattern(100000);
    b.placed_call = 9;
    b.place.resize(payload.size());
    ASSERT_TRUE(a.link.outbox().add_bulk(9, 0, payload.size(), part_of(payload)).ok());
    Bytes sent = a.output();
    ASSERT_TRUE(b.input(sent).ok());
    EXPECT_EQ(b.place, payload);
    std::fill(b.place.begin(), b.place.end(), std::byte{7});
    ASSERT_TRUE(b.input(sent).ok());
    EXPECT_EQ(b.place, Bytes(payload.size(), std::byte{7}));
}

TEST(Link, AGapEndsTheConnection_F3) {
    Side a, b;
    ASSERT_TRUE(add_event(a, 1).ok());
    (void)a.output();
    ASSERT_TRUE(add_event(a, 2).ok());
    EXPECT_EQ(b.input(a.output()).error().code, Code::malformed);
}

TEST(Link, PingsOfAPeerThatDoesNotListenCostOnePong_F3) {
    Side side;
    auto ping = header_of(FrameKind::ping);
    for (uint64_t i = 1; i <= 10000; ++i) {
        ping.timestamp_us = i;
        ASSERT_TRUE(side.input(frame_bytes(ping, {})).ok());
    }
    EXPECT_LT(side.link.outbox().queued_bytes(), 1000u);
    const Bytes pongs = side.output();
    ASSERT_EQ(frames_in(pongs).size(), 1u);
    // The newest answer counts.
    uint64_t echo_us = 0;
    ASSERT_TRUE(read_at(frames_in(pongs)[0].body.view(), 0, echo_us));
    EXPECT_EQ(echo_us, 10000u);
    // And the next one is answered again.
    ping.timestamp_us = 10001;
    ASSERT_TRUE(side.input(frame_bytes(ping, {})).ok());
    EXPECT_EQ(frames_in(side.output()).size(), 1u);
}

TEST(Link, AnswersPings_C1) {
    Side a, b;
    ASSERT_TRUE(a.link.tick(Clock::now()).ok());
    Bytes ping = a.output();
    ASSERT_EQ(frames_in(ping).size(), 1u);
    EXPECT_EQ(frames_in(ping)[0].header.kind, FrameKind::ping);
    ASSERT_TRUE(b.input(ping).ok());
    Bytes pong = b.output();
    ASSERT_EQ(frames_in(pong).size(), 1u);
    EXPECT_EQ(frames_in(pong)[0].header.kind, FrameKind::pong);
    EXPECT_EQ(a.link.quality().round_trips, 0u);
    // The time stamps are microseconds of this very test: a round trip takes at least one of them.
    while (timestamp_us() <= frames_in(ping)[0].header.timestamp_us) {
    }
    ASSERT_TRUE(a.input(pong).ok());
    EXPECT_EQ(a.link.quality().round_trips, 1u);
    EXPECT_GE(a.link.quality().smoothed_round_trip_us, 1u);
    EXPECT_LT(a.link.quality().smoothed_round_trip_us, 60u * 1000 * 1000);
    EXPECT_TRUE(a.frames.empty());
    EXPECT_TRUE(b.frames.empty());
}

TEST(Link, ASilentPeerIsDead_C1) {
    Side a;
    auto start = Clock::now();
    for (auto at = 400ms; at <= 7900ms; at += 500ms) EXPECT_TRUE(a.link.tick(start + at).ok());
    ASSERT_FALSE(a.changes.empty());
    EXPECT_EQ(a.changes.back().to, LinkLevel::suspect);
    EXPECT_EQ(a.link.quality().level, LinkLevel::suspect);
    EXPECT_EQ(a.link.tick(start + 8300ms).error().code, Code::connection_lost);
    EXPECT_EQ(a.link.quality().level, LinkLevel::lost);
}

TEST(Link, BytesThatAreNotCompleteAreASignOfLife_C1) {
    Side a;
    auto start = Clock::now();
    for (auto at = 250ms; at <= 7750ms; at += 250ms) ASSERT_TRUE(a.link.tick(start + at).ok());
    ASSERT_EQ(a.link.quality().level, LinkLevel::suspect);
    // The real clock has hardly moved, so that this is a sign of life at `start`; it ends the silence all the same.
    ASSERT_TRUE(a.link.received(0).ok());
    EXPECT_EQ(a.changes.back().to, LinkLevel::up);
    ASSERT_TRUE(a.link.tick(start + 8500ms).ok());
    EXPECT_TRUE(a.frames.empty());
}

TEST(Link, ProgressGivesCreditBack_B2) {
    Side client, server;
    client.link.outbox().set_credit({1 << 20, 1});
    (void)*add_test_call(client.link.outbox(), 1);
    (void)client.output();
    ASSERT_TRUE(server.link.outbox()
                    .add_message<wire::Event>(FrameKind::event, 16,
                                              [](wire::Event::Builder event) { event.initProgress().setCalls(1); })
                    .ok());
    ASSERT_TRUE(client.input(server.output()).ok());
    EXPECT_TRUE(client.frames.empty());
    EXPECT_TRUE(add_test_call(client.link.outbox(), 2).ok());
}

TEST(Link, RefusesProgressBeyondWhatWasSent_F3) {
    Side client, server;
    ASSERT_TRUE(server.link.outbox()
                    .add_message<wire::Event>(FrameKind::event, 16,
                                              [](wire::Event::Builder event) { event.initProgress().setCalls(1); })
                    .ok());
    EXPECT_EQ(client.input(server.output()).error().code, Code::malformed);
}

TEST(Link, AcknowledgesWithoutTrafficOfItsOwn_C2) {
    Side a, b;
    for (uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(add_event(a, i).ok());
    ASSERT_TRUE(b.input(a.output()).ok());
    auto back = frames_in(b.output());
    ASSERT_EQ(back.size(), 1u);
    EXPECT_EQ(back[0].header.kind, FrameKind::pong);
    EXPECT_EQ(back[0].header.acknowledgement, 64u);
}

TEST(Link, AnotherConnectionTakesOverWhereverTheFirstOneIsCut_C2) {
    Bytes payload = pattern(50000);
    Bytes whole;
    {
        Side a;
        for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(add_event(a, i).ok());
        ASSERT_TRUE(a.link.outbox().add_bulk(9, 0, payload.size(), part_of(payload)).ok());
        ASSERT_TRUE(add_event(a, 3).ok());
        whole = a.output();
    }
    for (size_t cut = 0; cut <= whole.size(); cut += cut < 1200 || cut + 1200 > whole.size() ? 1 : 4999) {
        Side a, b;
        b.placed_call = 9;
        b.place.resize(payload.size());
        for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(add_event(a, i).ok());
        ASSERT_TRUE(a.link.outbox().add_bulk(9, 0, payload.size(), part_of(payload)).ok());
        ASSERT_TRUE(add_event(a, 3).ok());
        const Bytes sent = a.output();
        ASSERT_TRUE(b.input(BytesView(sent).first(std::min(cut, sent.size()))).ok());
        a.link.detach();
        b.link.detach();
        ASSERT_TRUE(a.link.attach(b.link.received_sequence()).ok());
        ASSERT_TRUE(b.link.attach(a.link.received_sequence()).ok());
        ASSERT_TRUE(b.input(a.output()).ok());
        ASSERT_EQ(b.frames.size(), 5u) << "cut after " << cut << " bytes";
        for (size_t i = 0; i < 5; ++i) ASSERT_EQ(b.frames[i].header.sequence, i + 1);
        ASSERT_EQ(b.place, payload);
    }
}

struct Hostile {
    const char* name;
    Bytes bytes;
    Code code;
};

std::vector<Hostile> hostile_frames() {
    Bytes eight(8);
    FrameHeader compressed = header_of(FrameKind::event, 1);
    compressed.codec = 3;
    FrameHeader acknowledging = header_of(FrameKind::ping);
    acknowledging.acknowledgement = 5;
    return {
        {"ping_with_body", frame_bytes(header_of(FrameKind::ping), eight), Code::malformed},
        {"pong_without_body", frame_bytes(header_of(FrameKind::pong), {}), Code::malformed},
        {"event_that_is_no_message", frame_bytes(header_of(FrameKind::event, 1), eight), Code::malformed},
        {"event_without_body", frame_bytes(header_of(FrameKind::event, 1), {}), Code::malformed},
        {"bulk_that_is_no_message", frame_bytes(header_of(FrameKind::bulk, 1), eight, eight), Code::malformed},
        {"codec_not_agreed_on", frame_bytes(compressed, eight), Code::malformed},
        {"acknowledges_what_was_not_sent", frame_bytes(acknowledging, {}), Code::malformed},
        {"resume", frame_bytes(header_of(FrameKind::resume), {}), Code::unsupported},
    };
}

TEST(Link, RefusesHostileFrames_F3) {
    for (const Hostile& hostile : hostile_frames()) {
        Side side;
        EXPECT_EQ(side.input(hostile.bytes).error().code, hostile.code) << hostile.name;
        EXPECT_TRUE(side.frames.empty()) << hostile.name;
    }
}

TEST(Link, BulkOutsideOfItsWholeIsRefused_F3) {
    auto bulk = [](uint64_t offset, uint64_t total) {
        auto body = build_message<wire::Bulk>([&](wire::Bulk::Builder b) {
            b.setCall(1);
            b.setOffset(offset);
            b.setTotal(total);
        });
        return copy(body->view());
    };
    EXPECT_TRUE(read_bulk_header(bulk(90, 100), 10).ok());
    EXPECT_FALSE(read_bulk_header(bulk(91, 100), 10).ok());
    EXPECT_FALSE(read_bulk_header(bulk(~uint64_t{0} - 3, 100), 10).ok());
    EXPECT_FALSE(read_bulk_header(bulk(0, 100), 0).ok());
}

TEST(Link, GoodbyeIsTheLastFrame) {
    Side a, b;
    ASSERT_TRUE(add_event(a, 1).ok());
    a.link.say_goodbye(Code::denied, "no such tenant");
    EXPECT_FALSE(add_event(a, 2).ok());
    ASSERT_TRUE(b.input(a.output()).ok());
    ASSERT_EQ(b.frames.size(), 2u);
    EXPECT_EQ(b.frames[1].header.kind, FrameKind::close);
    auto reason = read_message<wire::Close>(b.frames[1].body.view(), [](wire::Close::Reader close) -> Result<std::string> {
        EXPECT_EQ(close.getCode(), static_cast<uint16_t>(Code::denied));
        return std::string(close.getReason().cStr());
    });
    EXPECT_EQ(*reason, "no such tenant");
}

}  // namespace
}  // namespace warpline::protocol
