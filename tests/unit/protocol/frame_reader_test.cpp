// Tests of how frames are found in a stream of bytes.
#include "protocol/codec/frame_reader.h"

#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;

// Three frames: without anything, with a small body and payload, with a payload larger than the input buffer.
Bytes sample_stream() {
    Bytes body = pattern(64);
    Bytes payload = pattern(FrameReader::k_input_bytes * 3 + 17, 9);
    Bytes stream = frame_bytes(header_of(FrameKind::ping), {});
    for (BytesView part : {BytesView(payload).first(5), BytesView(payload)}) {
        Bytes frame = frame_bytes(header_of(FrameKind::bulk, 1), body, part);
        stream.insert(stream.end(), frame.begin(), frame.end());
    }
    return stream;
}

void expect_sample(const std::vector<Frame>& frames) {
    ASSERT_EQ(frames.size(), 3u);
    EXPECT_EQ(frames[0].header.kind, FrameKind::ping);
    EXPECT_TRUE(frames[0].body.empty());
    EXPECT_EQ(copy(frames[1].body.view()), pattern(64));
    EXPECT_EQ(copy(frames[1].payload_view()), copy(BytesView(pattern(100, 9)).first(5)));
    EXPECT_EQ(copy(frames[2].payload_view()), pattern(FrameReader::k_input_bytes * 3 + 17, 9));
}

TEST(FrameReader, FindsFramesInPiecesOfAnySize_B1) {
    Bytes stream = sample_stream();
    for (size_t piece :
         {size_t{1}, size_t{7}, size_t{47}, size_t{48}, size_t{49}, size_t{4096}, size_t{100000}, stream.size()}) {
        Collector collector;
        FrameReader reader(collector);
        for (size_t at = 0; at < stream.size(); at += piece)
            ASSERT_TRUE(reader.feed(BytesView(stream).subspan(at, std::min(piece, stream.size() - at))).ok());
        EXPECT_TRUE(reader.at_boundary());
        expect_sample(collector.frames);
    }
}

TEST(FrameReader, BodiesAreAligned_B1) {
    auto frames = frames_in(sample_stream());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(frames[1].body.data()) % 8, 0u);
}

TEST(FrameReader, KnowsThatAStreamIsCutOff_F3) {
    Bytes one = frame_bytes(header_of(FrameKind::event, 1), pattern(24), pattern(9));
    for (size_t size = 1; size < one.size(); ++size) {
        Collector collector;
        FrameReader reader(collector);
        ASSERT_TRUE(reader.feed(BytesView(one).first(size)).ok());
        EXPECT_TRUE(collector.frames.empty()) << size;
        EXPECT_FALSE(reader.at_boundary()) << size;
    }
}

struct Placer : Collector {
    Bytes place;
    size_t asked = 0;
    Result<Place> place_payload(const FrameHeader& header, BytesView) override {
        ++asked;
        place.resize(header.payload_bytes);
        return Place(MutableBytesView(place));
    }
};

TEST(FrameReader, PutsABulkPayloadWhereItBelongs_B3) {
    for (size_t size : {size_t{5}, size_t{1} << 20}) {
        Placer placer;
        FrameReader reader(placer);
        Bytes payload = pattern(size);
        ASSERT_TRUE(reader.feed(frame_bytes(header_of(FrameKind::bulk, 1), {}, payload)).ok());
        ASSERT_EQ(placer.frames.size(), 1u);
        EXPECT_EQ(placer.place, payload);
        EXPECT_TRUE(placer.frames[0].payload.empty());
        EXPECT_EQ(placer.frames[0].payload_view().data(), placer.place.data());
    }
}

TEST(FrameReader, ReadsALargePayloadStraightIntoItsPlace_B3) {
    Placer placer;
    FrameReader reader(placer);
    Bytes payload = pattern(1 << 20);
    Bytes frame = frame_bytes(header_of(FrameKind::bulk, 1), {}, payload);
    ASSERT_TRUE(reader.feed(BytesView(frame).first(k_frame_header_bytes + 10)).ok());
    MutableBytesView space = reader.space();
    EXPECT_EQ(space.data(), placer.place.data() + 10);
    EXPECT_EQ(space.size(), payload.size() - 10);
}

TEST(FrameReader, AsksForAPlaceForBulkFramesOnly) {
    Placer placer;
    FrameReader reader(placer);
    ASSERT_TRUE(reader.feed(frame_bytes(header_of(FrameKind::event, 1), {}, pattern(100))).ok());
    EXPECT_EQ(placer.asked, 0u);
}

TEST(FrameReader, AnErrorOfTheSinkStays) {
    struct Refuser : FrameSink {
        int calls = 0;
        Result<void> on_frame(Frame) override {
            ++calls;
            return Error{Code::quota, "no"};
        }
    } refuser;
    FrameReader reader(refuser);
    Bytes two = frame_bytes(header_of(FrameKind::ping), {});
    two.insert(two.end(), two.begin(), two.end());
    EXPECT_EQ(reader.feed(two).error().code, Code::quota);
    EXPECT_EQ(reader.feed(two).error().code, Code::quota);
    EXPECT_EQ(refuser.calls, 1);
}

TEST(FrameReader, GarbageIsMalformedAndNothingComesAfterIt_F3) {
    Collector collector;
    FrameReader reader(collector);
    EXPECT_EQ(reader.feed(as_bytes("GET / HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n")).error().code,
              Code::malformed);
    EXPECT_EQ(reader.feed(frame_bytes(header_of(FrameKind::ping), {})).error().code, Code::malformed);
    EXPECT_TRUE(collector.frames.empty());
}

TEST(FrameReader, AWrongLengthNeverMakesItHoldMore_F3) {
    Collector collector;
    FrameReader reader(collector, FrameLimits{1024, 1024});
    FrameHeader header = header_of(FrameKind::event, 1);
    header.body_bytes = 1032;
    Bytes wire(k_frame_header_bytes);
    encode_frame_header(header, wire.data());
    EXPECT_EQ(reader.feed(wire).error().code, Code::malformed);
}

TEST(FrameReader, EveryWordCorruptedIsHarmless_F3) {
    Bytes good = frame_bytes(header_of(FrameKind::event, 1), pattern(48), pattern(31));
    for (size_t at = 0; at + 4 <= good.size(); at += 4) {
        for (uint32_t value : {0u, 1u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0x80000000u}) {
            Bytes bad = good;
            std::memcpy(bad.data() + at, &value, 4);
            Collector collector;
            FrameReader reader(collector);
            auto result = reader.feed(bad);
            EXPECT_TRUE(result.ok() || result.error().code == Code::malformed || result.error().code == Code::version_mismatch);
            EXPECT_LE(collector.frames.size(), 1u);
        }
    }
}

}  // namespace
}  // namespace warpline::protocol
