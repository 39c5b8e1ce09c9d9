// Payloads that are encoded: agreed on, there and back, sent again, and what of them is not believed.
#include "protocol/codec/encoding.h"

#include <random>

#include "protocol/codec/link.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::protocol::test {
namespace {

using compress::Choice;
using compress::Codec;
using compress::CodecSet;

constexpr size_t k_part = 64 * 1024;

/// Floats as weights are: smaller with each codec but LZ4; and with that one, too, where half of them are 0.
Bytes sparse_weights(size_t size) {
    Bytes bytes(size);
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 1);
    for (size_t i = 0; i + sizeof(float) <= size; i += sizeof(float)) {
        const float value = i / 4096 % 2 == 0 ? normal(random) : 0;
        std::memcpy(bytes.data() + i, &value, sizeof value);
    }
    return bytes;
}

/// One end of a connection.
struct End : Link::Handler {
    explicit End(CodecSet codecs = 0) : link(*this, options(codecs)) {}
    static LinkOptions options(CodecSet codecs) {
        LinkOptions options;
        options.codecs = codecs;
        options.outbox.part_bytes = k_part;
        return options;
    }
    Result<void> on_frame(Frame frame) override {
        if (frame.header.kind == FrameKind::bulk) {
            const BulkHeader part = WL_TRY(read_bulk_header(frame.body.view(), frame.payload_view().size()));
            if (place.empty()) place.resize(part.total);
            if (!frame.placed.data())
                std::copy_n(frame.payload.data(), frame.payload.size(), place.begin() + static_cast<ptrdiff_t>(part.offset));
            received_bytes += frame.payload_view().size();
        }
        frames.push_back(std::move(frame));
        return {};
    }
    Result<Place> place_payload(uint64_t, uint64_t offset, uint64_t total, size_t bytes) override {
        if (!places) return Place{};
        place.resize(total);
        return Place(MutableBytesView(place).subspan(offset, bytes));
    }
    /// All that the link wants to send.
    Bytes output() {
        Bytes out;
        for (std::vector<BytesView> views; link.take_output(views); views.clear()) {
            for (const BytesView view : views) out.insert(out.end(), view.begin(), view.end());
            link.output_sent();
        }
        return out;
    }
    Result<void> input(BytesView bytes) {
        while (!bytes.empty()) {
            const MutableBytesView space = link.receive_space();
            const size_t count = std::min(space.size(), bytes.size());
            std::memcpy(space.data(), bytes.data(), count);
            bytes = bytes.subspan(count);
            WL_TRY(link.received(count));
        }
        return {};
    }

    std::vector<Frame> frames;
    bool places = false;
    Bytes place;
    size_t received_bytes = 0;
    Link link;
};

Result<uint64_t> add_copy(End& end, const Bytes& payload) {
    return add_long_call(end.link.outbox(), payload, Lent::until_given_back);
}

/// Both talk until nobody has anything to say. @return bytes that `a` has said
size_t talk(End& a, End& b) {
    size_t bytes = 0;
    for (;;) {
        const Bytes there = a.output();
        EXPECT_TRUE(b.input(there).ok());
        const Bytes back = b.output();
        EXPECT_TRUE(a.input(back).ok());
        bytes += there.size();
        if (there.empty() && back.empty()) return bytes;
    }
}

class EachCodec : public testing::TestWithParam<Codec> {
protected:
    const CodecSet m_codecs = bit(GetParam());
    const Choice m_choice{GetParam(), 0};
};

TEST_P(EachCodec, CarriesPartsOfPayloads_B4) {
    for (const bool places : {false, true}) {
        End a, b(m_codecs);
        b.places = places;
        a.link.outbox().encoding().agree(m_codecs, m_choice);
        const Bytes payload = sparse_weights(5 * k_part + 1000);
        ASSERT_TRUE(add_copy(a, payload).ok());
        const size_t wire = talk(a, b);
        EXPECT_TRUE(b.place == payload);
        EXPECT_EQ(b.received_bytes, payload.size());
        EXPECT_LT(wire, payload.size() * 4 / 5);
        const auto codec = static_cast<size_t>(GetParam());
        const auto sent = a.link.outbox().encoding().sent()[codec], received = b.link.outbox().encoding().received()[codec];
        EXPECT_EQ(sent.raw, received.raw);
        EXPECT_EQ(sent.wire, received.wire);
        EXPECT_GE(sent.raw, 5 * k_part);
        EXPECT_EQ(a.link.outbox().counters().bytes, wire) << "as they travelled";
        EXPECT_EQ(a.link.outbox().counters().payload_bytes, payload.size()) << "decoded";
        EXPECT_EQ(a.link.outbox().wire_bytes(k_command_lane), wire);
        a.link.close(k_gone, true);
    }
}

TEST_P(EachCodec, CarriesPayloadsOfCallsAndEvents_B4) {
    End a, b(m_codecs);
    a.link.outbox().encoding().agree(m_codecs, m_choice);
    const Bytes payload = sparse_weights(30'000);
    for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(add_test_call(a.link.outbox(), i, payload).ok());
    ASSERT_TRUE(a.link.outbox()
                    .add_message<wire::Event>(
                        FrameKind::event, 16, [](wire::Event::Builder event) { event.initOutput().setStream(1); }, payload)
                    .ok());
    EXPECT_LT(talk(a, b), 4 * payload.size());
    ASSERT_EQ(b.frames.size(), 2u);
    EXPECT_EQ(b.frames[0].header.codec, static_cast<uint8_t>(GetParam()));
    auto batch = BatchReader::open(b.frames[0].body.view(), b.frames[0].payload_view());
    ASSERT_TRUE(batch.ok());
    while (batch->next().value()) EXPECT_TRUE(copy(batch->call().payload) == payload);
    EXPECT_TRUE(copy(b.frames[1].payload_view()) == payload);
    EXPECT_EQ(credit_cost(*read_batch_header(b.frames[0].body.view()), b.frames[0].header),
              b.frames[0].body.size() - k_batch_header_bytes + 3 * payload.size());
}

TEST_P(EachCodec, CallsAreEncodedWithWhatTheyCarry_B4) {
    for (const size_t carried : {size_t{0}, size_t{5}}) {
        End plain, a, b(m_codecs);
        a.link.outbox().encoding().agree(m_codecs, m_choice);
        const Bytes payload = pattern(carried);
        for (uint64_t i = 0; i < 300; ++i) {
            ASSERT_TRUE(add_test_call(a.link.outbox(), i, payload).ok());
            ASSERT_TRUE(add_test_call(plain.link.outbox(), i, payload).ok());
        }
        const Bytes as_they_are = plain.output(), encoded = a.output();
        EXPECT_LT(encoded.size(), as_they_are.size() * 2 / 3);
        ASSERT_TRUE(b.input(encoded).ok());
        ASSERT_EQ(b.frames.size(), 1u);
        const std::vector<Frame> expected = frames_in(as_they_are);
        EXPECT_TRUE(copy(b.frames[0].body.view()) == copy(expected[0].body.view()));
        EXPECT_TRUE(copy(b.frames[0].payload_view()) == copy(expected[0].payload_view()));
    }
}

// Cut in the middle of an encoded part, which lies in memory that the program has had back since.
TEST_P(EachCodec, IsSentAgainOverAnotherConnection_C2_B4) {
    End a, b(m_codecs);
    b.places = true;
    a.link.outbox().encoding().agree(m_codecs, m_choice);
    Bytes payload = sparse_weights(3 * k_part);
    const Bytes expected = payload;
    ASSERT_TRUE(add_copy(a, payload).ok());
    const Bytes first = a.output();
    ASSERT_TRUE(b.input(BytesView(first).first(first.size() * 3 / 4)).ok());
    const size_t before = b.received_bytes;
    ASSERT_GT(before, 0u);
    ASSERT_LT(before, payload.size());
    a.link.outbox().give_back(payload);
    std::fill(payload.begin(), payload.end(), std::byte{1});
    a.link.detach();
    b.link.detach();
    const uint64_t received = b.link.received_sequence();
    ASSERT_TRUE(a.link.attach(received).ok() && b.link.attach(0).ok());
    talk(a, b);
    EXPECT_TRUE(b.place == expected);
    EXPECT_EQ(b.received_bytes, payload.size()) << "nothing twice";
    EXPECT_GT(a.link.outbox().counters().frames_again, 0u);
    // What was saved is not counted twice either: everything is acknowledged, and the window is as it was.
    a.link.outbox().encoding().agree(0, {});
    ASSERT_TRUE(a.link.outbox().acknowledge(k_command_lane, b.link.received_sequence()).ok());
    EXPECT_EQ(a.link.outbox().retained_bytes(), 0u);
    a.link.close(k_gone, true);
}

INSTANTIATE_TEST_SUITE_P(Encoding, EachCodec,
                         testing::Values(Codec::lz4, Codec::zstd, Codec::group2, Codec::group4, Codec::group8),
                         [](const auto& info) { return to_string(info.param); });

TEST(Encoding, NothingIsEncodedThatWasNotAgreedOn_B4) {
    const Bytes payload(4 * k_part);
    End old;
    ASSERT_TRUE(add_copy(old, payload).ok());
    for (const Frame& frame : frames_in(old.output())) EXPECT_EQ(frame.header.codec, 0);
    old.link.close(k_gone, true);

    End a, b(bit(Codec::lz4)), c;
    a.link.outbox().encoding().agree(bit(Codec::lz4), Choice{Codec::zstd, 1});
    EXPECT_FALSE(a.link.outbox().encoding().agreed().forced) << "the other side has not got it";
    a.link.outbox().encoding().agree(bit(Codec::lz4), Choice{Codec::lz4, 0});
    ASSERT_TRUE(add_copy(a, payload).ok());
    const Bytes encoded = a.output();
    EXPECT_TRUE(b.input(encoded).ok());
    EXPECT_EQ(c.input(encoded).error().code, Code::malformed) << "this one takes none";
    a.link.close(k_gone, true);
}

TEST(Encoding, WhatGetsNoSmallerTravelsAsItIs_B4) {
    End a;
    a.link.outbox().encoding().agree(compress::k_all_codecs, Choice{Codec::zstd, 1});
    std::mt19937 random(3);
    Bytes payload(3 * k_part);
    for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
    ASSERT_TRUE(add_copy(a, payload).ok());
    for (const Frame& frame : frames_in(a.output())) EXPECT_EQ(frame.header.codec, 0);
    a.link.close(k_gone, true);
}

TEST(Encoding, OnAnUnknownLinkZerosAreEncodedAndWeightsAreNot_B4) {
    for (const bool zeros : {true, false}) {
        End a, b(compress::k_all_codecs);
        a.link.outbox().encoding().agree(compress::k_all_codecs, {});
        const Bytes payload = zeros ? Bytes(9 * k_part + 24) : sparse_weights(k_part);
        ASSERT_TRUE(add_copy(a, payload).ok());
        const size_t wire = talk(a, b);
        EXPECT_TRUE(b.place == payload);
        EXPECT_EQ(wire < payload.size() / 20, zeros) << wire;
        a.link.close(k_gone, true);
    }
}

/// Of which is known what a test says.
struct KnownLane : LaneMeter {
    Deliveries known;
    Deliveries deliveries() const override { return known; }
    void renew(uint8_t) override {}
};

// What is under way counts as it travels, what is kept for another connection as it lies in memory.
TEST(Encoding, TheWindowCountsWhatTravels_B4) {
    OutboxOptions options;
    options.chunk_bytes = options.part_bytes = k_part;
    options.window_bytes = 2 * k_part + 1000;
    options.retain_limit_bytes = 6 * k_part + 2000;
    const Bytes payload(10 * k_part);
    for (const bool encodes : {false, true}) {
        Outbox outbox(options);
        outbox.encoding().agree(compress::k_all_codecs, encodes ? std::optional(Choice{Codec::zstd, 1}) : std::nullopt);
        KnownLane lane;
        FrameEncoder encoder(outbox.encoding(), lane);
        ASSERT_TRUE(add_long_call(outbox, payload, Lent::until_given_back).ok());
        size_t parts = 0;
        std::vector<OutFrame*> frames;
        for (; outbox.take(k_command_lane, frames, 0); frames.clear()) {
            std::vector<BytesView> views;
            if (encodes) encoder.encode(frames, views);
            for (const OutFrame* frame : frames) parts += frame->header.kind == FrameKind::bulk;
            outbox.sent(k_command_lane);
        }
        EXPECT_EQ(parts, encodes ? 6u : 2u);
        EXPECT_GE(outbox.retained_bytes(), parts * k_part);
        outbox.close(k_gone, true);
    }
}

// --- what of it is not believed ---

struct Hostile {
    const char* what;
    FrameHeader header;
    Bytes body;
    Bytes payload;
};

Bytes encoded_form(Codec codec, BytesView raw) {
    Bytes out(max_packed_bytes(codec, raw.size()));
    out.resize(compress::compress(codec, 1, raw, out).value());
    return out;
}

/// A frame whose lengths are as the header says, and not as what follows it is.
Bytes frame_with(FrameHeader header, BytesView body, BytesView payload) {
    Bytes out(k_frame_header_bytes);
    encode_frame_header(header, out.data());
    out.insert(out.end(), body.begin(), body.end());
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
}

class HostileFrames : public testing::TestWithParam<Codec> {
protected:
    HostileFrames() {
        m_header = header_of(FrameKind::event, 1);
        m_header.codec = static_cast<uint8_t>(GetParam());
        m_body = std::move(build_message<wire::Event>([](wire::Event::Builder event) { event.initOutput(); }).value());
        m_header.body_bytes = static_cast<uint32_t>(m_body.size());
        m_header.payload_raw_bytes = 100'000;
        m_header.payload_bytes = static_cast<uint32_t>(m_payload.size());
    }
    Code outcome() {
        End end(compress::k_all_codecs);
        const auto taken = end.input(frame_with(m_header, m_body.view(), m_payload));
        EXPECT_EQ(end.frames.size(), taken.ok() ? 1u : 0u);
        return taken.error().code;
    }

    FrameHeader m_header;
    Buffer m_body;
    Bytes m_payload = encoded_form(GetParam(), Bytes(100'000));
};

TEST_P(HostileFrames, AreOnlyTakenIfTheyDecodeToWhatTheySay_B4_C4) {
    ASSERT_EQ(outcome(), Code::ok);
    for (const uint32_t announced : {99'999u, 100'001u, 8u << 20}) {
        m_header.payload_raw_bytes = announced;
        EXPECT_EQ(outcome(), Code::malformed) << announced;
    }
    m_header.payload_raw_bytes = (8u << 20) + 1;
    EXPECT_EQ(outcome(), Code::malformed) << "more than anybody may ask to have decoded";
    m_header.payload_raw_bytes = 100'000;
    for (const size_t cut : {size_t{1}, m_payload.size() / 2, m_payload.size() - 1}) {
        const Bytes whole = m_payload;
        m_payload.resize(m_payload.size() - cut);
        m_header.payload_bytes = static_cast<uint32_t>(m_payload.size());
        EXPECT_EQ(outcome(), Code::malformed) << cut;
        m_payload = whole;
    }
}

TEST_P(HostileFrames, ABombIsDecodedNoFurtherThanItsPlace_B4_C4) {
    m_payload = encoded_form(GetParam(), Bytes(size_t{8} << 20));
    m_header.payload_bytes = static_cast<uint32_t>(m_payload.size());
    EXPECT_EQ(outcome(), Code::malformed);
}

INSTANTIATE_TEST_SUITE_P(Encoding, HostileFrames,
                         testing::Values(Codec::lz4, Codec::zstd, Codec::group2, Codec::group4, Codec::group8),
                         [](const auto& info) { return to_string(info.param); });

TEST(Encoding, HeadersThatMakeNoSenseAreRefused_B4_C4) {
    const Bytes packed = encoded_form(Codec::zstd, Bytes(4096));
    FrameHeader good = header_of(FrameKind::event, 1);
    good.codec = static_cast<uint8_t>(Codec::zstd);
    good.payload_bytes = static_cast<uint32_t>(packed.size());
    good.payload_raw_bytes = 4096;
    const auto outcome = [&](auto change, CodecSet codecs = compress::k_all_codecs) {
        FrameHeader header = good;
        change(header);
        Bytes bytes(k_frame_header_bytes);
        encode_frame_header(header, bytes.data());
        return decode_frame_header(bytes, {}, codecs).error().code;
    };
    ASSERT_EQ(outcome([](FrameHeader&) {}), Code::ok);
    EXPECT_EQ(outcome([](FrameHeader&) {}, 0), Code::malformed);
    EXPECT_EQ(outcome([](FrameHeader&) {}, bit(Codec::lz4)), Code::malformed);
    for (const uint8_t codec : {uint8_t{6}, uint8_t{31}, uint8_t{32}, uint8_t{255}})
        EXPECT_EQ(outcome([&](FrameHeader& h) { h.codec = codec; }), Code::malformed) << unsigned{codec};
    EXPECT_EQ(outcome([](FrameHeader& h) { h.payload_bytes = 0; }), Code::malformed);
    EXPECT_EQ(outcome([](FrameHeader& h) { h.payload_bytes = 4096; }), Code::malformed) << "no shorter";
    EXPECT_EQ(outcome([](FrameHeader& h) { h.flags = 2; }), Code::malformed);
    EXPECT_EQ(outcome([](FrameHeader& h) { h.flags = k_flag_body_encoded; }), Code::ok);
    EXPECT_EQ(outcome([](FrameHeader& h) { h.kind = FrameKind::bulk, h.flags = k_flag_body_encoded; }), Code::malformed);
    EXPECT_EQ(outcome([](FrameHeader& h) { h.kind = FrameKind::ping, h.sequence = 0; }), Code::malformed);
    EXPECT_EQ(outcome([](FrameHeader& h) {
                  h.codec = 0, h.flags = k_flag_body_encoded, h.payload_bytes = h.payload_raw_bytes = 100;
              }),
              Code::malformed);
}

// --- how fast the connection is ---

TEST(DeliveryMeter, MeasuresWhileThereIsEnoughToSend_B4) {
    DeliveryMeter meter;
    DeliveryMeter::Clock::time_point now{};
    constexpr uint64_t k_megabyte = 1'000'000;
    const auto acknowledge = [&](int ms, uint8_t way = 0) {
        now += std::chrono::milliseconds(ms);
        meter.frame(way, k_megabyte);
        meter.acknowledged(now);
    };
    acknowledge(8, k_tells_nothing);
    for (int i = 0; i < 2; ++i) acknowledge(8);
    EXPECT_EQ(meter.costs()[0], 0) << "two intervals are too few";
    for (int i = 0; i < 20; ++i) acknowledge(8);
    EXPECT_NEAR(meter.costs()[0], 8, 0.01) << "nanoseconds a byte: one gigabit a second";
    // A copy now and then, before which there was nothing to do, says nothing about the link.
    for (int i = 0; i < 20; ++i) acknowledge(1000, k_tells_nothing);
    acknowledge(8);
    EXPECT_NEAR(meter.costs()[0], 8, 0.01);
    for (int i = 0; i < 60; ++i) acknowledge(80);
    EXPECT_NEAR(meter.costs()[0], 80, 1) << "it has become slower";
    for (int i = 0; i < 20; ++i) acknowledge(6, 3);
    EXPECT_NEAR(meter.costs()[0], 80, 1) << "what is encoded counts for itself";
    EXPECT_NEAR(meter.costs()[3], 6, 0.01);
    for (int i = 0; i < 5; ++i) {
        meter.frame(0, k_megabyte);
        acknowledge(500, 3);
    }
    EXPECT_NEAR(meter.costs()[3], 6, 0.01) << "of several ways at a time nobody knows which took how long";
    // An acknowledgement of little has waited for whatever the peer had to say.
    const auto acknowledge_little = [&](int ms) {
        now += std::chrono::milliseconds(ms);
        meter.frame(3, 100'000);
        meter.acknowledged(now);
    };
    for (int i = 0; i < 8; ++i) acknowledge_little(1000);
    EXPECT_NEAR(meter.costs()[3], 6, 0.01);
    for (int i = 0; i < 40; ++i) acknowledge_little(1);
    EXPECT_NEAR(meter.costs()[3], 10, 0.5) << "others tell as much as those of much";
    for (int i = 0; i < 60; ++i) acknowledge_little(20);
    EXPECT_NEAR(meter.costs()[3], 200, 5) << "it is so slow";
    for (int i = 0; i < 60; ++i) acknowledge(6, 3);
    EXPECT_NEAR(meter.costs()[3], 6, 0.1);
    const uint64_t samples = meter.deliveries().samples[3];
    meter.renew(3);
    for (int i = 0; i < 2; ++i) acknowledge(9, 3);
    EXPECT_NEAR(meter.costs()[3], 6, 0.1) << "until enough is measured";
    acknowledge(9, 3);
    EXPECT_NEAR(meter.costs()[3], 9, 0.01);
    EXPECT_EQ(meter.deliveries().samples[3], samples + 3);
    meter.restart();
    EXPECT_EQ(meter.costs()[0], 0);
}

TEST(Trials, WhatIsSlowerIsGivenUpAndTriedAgainRarely_B4) {
    constexpr uint8_t k_codec = 3;
    constexpr uint64_t k_bytes = 1 << 20;
    Deliveries known;
    const auto encoded_of = [&](Trials& trials, int frames, const DeliveryCosts& costs) {
        int encoded = 0;
        for (int i = 0; i < frames; ++i) {
            known.costs = costs;
            const bool encodes = trials.encodes(k_codec, k_bytes, known, [](uint8_t) {});
            ++known.samples[encodes ? k_codec : 0];
            encoded += encodes;
        }
        return encoded;
    };
    DeliveryCosts costs{};
    costs[0] = 8;
    Trials trials;
    EXPECT_EQ(encoded_of(trials, 16, costs), 16) << "as the model says, until something is measured";
    Trials unmeasured;
    EXPECT_EQ(encoded_of(unmeasured, 100, costs), 16) << "not for ever";
    costs[k_codec] = 6;
    EXPECT_EQ(encoded_of(unmeasured, 10, costs), 10) << "an acknowledgement has told, late";
    const int encoded = encoded_of(trials, 10'000, costs);
    EXPECT_LT(encoded, 10'000) << "plain frames are tried";
    EXPECT_GT(encoded, 9'600) << "rarely";
    costs[k_codec] = 9;
    (void)encoded_of(trials, 20, costs);  // until a trial has said so, too
    EXPECT_LE(encoded_of(trials, 10'000, costs), 40) << "ever more rarely";
    costs[0] = 80;
    EXPECT_GT(encoded_of(trials, 1000, costs), 900) << "the link has become slower";
}

/// A lane that gets half of a link for a while, and was alone on it when plain frames were measured last.
TEST(Trials, WhatWasMeasuredLongAgoIsNoReasonButForATrial_B4) {
    constexpr uint8_t k_codec = 3;
    constexpr uint64_t k_bytes = 1 << 20;
    Trials trials;
    DeliveryMeter meter;
    DeliveryMeter::Clock::time_point now{};
    double link_ns = 8;
    const auto encoded_of = [&](int frames) {
        int encoded = 0;
        for (int i = 0; i < frames; ++i) {
            const bool encodes = trials.encodes(k_codec, k_bytes, meter.deliveries(), [&](uint8_t way) { meter.renew(way); });
            encoded += encodes;
            now += std::chrono::nanoseconds(static_cast<int64_t>(link_ns * (encodes ? 0.83 : 1) * k_bytes));
            meter.frame(encodes ? k_codec : 0, k_bytes);
            meter.acknowledged(now);
        }
        return encoded;
    };
    for (int i = 0; i < 8; ++i) {
        now += std::chrono::nanoseconds(static_cast<int64_t>(link_ns * k_bytes));
        meter.frame(0, k_bytes);
        meter.acknowledged(now);
    }
    EXPECT_EQ(encoded_of(100), 100);
    link_ns = 16;
    EXPECT_EQ(encoded_of(128), 124) << "one trial, which has told";
    link_ns = 8;
    EXPECT_GE(encoded_of(1000), 950);
    link_ns = 24;
    EXPECT_GE(encoded_of(1000), 950);
}

TEST(FrameEncoder, GoesByWhatTheLinkTakes_B4) {
    Encoding encoding;
    encoding.agree(compress::k_all_codecs, {});
    KnownLane lane;
    FrameEncoder encoder(encoding, lane);
    OutFrame frame;
    frame.header = header_of(FrameKind::bulk, 1);
    const Bytes payload = sparse_weights(1 << 20);
    frame.external_payload = payload;
    frame.header.payload_bytes = frame.header.payload_raw_bytes = 1 << 20;
    OutFrame* const frames[] = {&frame};
    std::vector<BytesView> views;
    const auto way_at = [&](double ns_per_byte) {
        views.clear();
        lane.known.costs[0] = ns_per_byte;
        encoder.encode(frames, views);
        EXPECT_EQ(frame.way != 0, frame.saved_bytes != 0);
        return frame.way;
    };
    EXPECT_EQ(way_at(0), 0) << "nothing is known";
    EXPECT_EQ(way_at(0.5), 0) << "faster than any codec";
    EXPECT_NE(way_at(1000), 0);
}

}  // namespace
}  // namespace warpline::protocol::test
