// Tests of the headers of frames.
#include "protocol/codec/frame.h"

#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

FrameHeader sample() {
    FrameHeader header;
    header.kind = FrameKind::reply;
    header.sequence = 0x0102030405060708;
    header.acknowledgement = 0x1112131415161718;
    header.timestamp_us = 0x2122232425262728;
    header.body_bytes = 0x18;
    header.payload_bytes = 0x31;
    header.payload_raw_bytes = 0x31;
    return header;
}

TEST(FrameHeader, ComesBackAsItWasWritten_B1) {
    std::byte wire[k_frame_header_bytes];
    encode_frame_header(sample(), wire);
    auto header = decode_frame_header(wire, {});
    ASSERT_TRUE(header.ok()) << header.error().what;
    EXPECT_EQ(header->kind, FrameKind::reply);
    EXPECT_EQ(header->sequence, sample().sequence);
    EXPECT_EQ(header->acknowledgement, sample().acknowledgement);
    EXPECT_EQ(header->timestamp_us, sample().timestamp_us);
    EXPECT_EQ(header->body_bytes, sample().body_bytes);
    EXPECT_EQ(header->payload_bytes, sample().payload_bytes);
    EXPECT_EQ(header->payload_raw_bytes, sample().payload_raw_bytes);
}

TEST(FrameHeader, HasTheDocumentedLayout_B1) {
    std::byte wire[k_frame_header_bytes];
    encode_frame_header(sample(), wire);
    const uint8_t expected[k_frame_header_bytes] = {
        'W',  'L',  'F',  '1',  1,    5,    0,    0,     // magic, version, kind, codec, flags
        8,    7,    6,    5,    4,    3,    2,    1,     // sequence
        0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,  // acknowledgement
        0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,  // timestamp
        0x18, 0,    0,    0,    0x31, 0,    0,    0,     // body, payload
        0x31, 0,    0,    0,    0,    0,    0,    0,     // payload when decoded, reserved
    };
    EXPECT_EQ(std::memcmp(wire, expected, sizeof expected), 0);
}

TEST(FrameHeader, IsRefusedWhenCutOffAnywhere_F3) {
    std::byte wire[k_frame_header_bytes];
    encode_frame_header(sample(), wire);
    for (size_t size = 0; size < k_frame_header_bytes; ++size)
        EXPECT_EQ(decode_frame_header({wire, size}, {}).error().code, Code::malformed) << size;
}

TEST(FrameHeader, EveryByteMatters_F3) {
    std::byte good[k_frame_header_bytes];
    encode_frame_header(sample(), good);
    for (size_t at = 0; at < k_frame_header_bytes; ++at) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            std::byte wire[k_frame_header_bytes];
            std::memcpy(wire, good, sizeof wire);
            wire[at] ^= std::byte(1u << bit);
            auto header = decode_frame_header(wire, {});
            if (!header.ok()) continue;
            std::byte again[k_frame_header_bytes];
            encode_frame_header(*header, again);
            EXPECT_EQ(std::memcmp(again, wire, sizeof wire), 0) << "byte " << at << " was not understood and not refused";
        }
    }
}

struct Refusal {
    const char* name;
    size_t at;
    uint8_t value;
    Code code;
};

class FrameHeaderRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(FrameHeaderRefuses, AWrongByte_F3) {
    std::byte wire[k_frame_header_bytes];
    encode_frame_header(sample(), wire);
    wire[GetParam().at] = std::byte(GetParam().value);
    EXPECT_EQ(decode_frame_header(wire, {}).error().code, GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(
    All, FrameHeaderRefuses,
    testing::Values(Refusal{"magic", 0, 'X', Code::malformed}, Refusal{"version", 4, 2, Code::version_mismatch},
                    Refusal{"kind_zero", 5, 0, Code::malformed}, Refusal{"kind_unknown", 5, 13, Code::malformed},
                    Refusal{"flags", 7, 1, Code::malformed}, Refusal{"body_unaligned", 32, 0x19, Code::malformed},
                    Refusal{"body_too_long", 35, 0x01, Code::malformed}, Refusal{"payload_too_long", 39, 0x01, Code::malformed},
                    Refusal{"two_payload_lengths", 40, 0x30, Code::malformed}, Refusal{"reserved", 47, 1, Code::malformed}),
    [](const auto& info) { return info.param.name; });

TEST(FrameHeader, LimitsAreExact_F3) {
    FrameHeader header = sample();
    header.body_bytes = 64;
    header.payload_bytes = header.payload_raw_bytes = 100;
    std::byte wire[k_frame_header_bytes];
    encode_frame_header(header, wire);
    EXPECT_TRUE(decode_frame_header(wire, {64, 100}).ok());
    EXPECT_FALSE(decode_frame_header(wire, {56, 100}).ok());
    EXPECT_FALSE(decode_frame_header(wire, {64, 99}).ok());
    // A decoded length counts as much as the one that travels: else a small frame would decompress to anything.
    header.codec = 1;
    header.payload_raw_bytes = 101;
    encode_frame_header(header, wire);
    EXPECT_FALSE(decode_frame_header(wire, {64, 100}).ok());
}

}  // namespace
}  // namespace warpline::protocol
