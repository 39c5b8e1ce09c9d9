// Headers of frames, written and checked.
#include "protocol/codec/frame.h"

#include <bit>

namespace warpline::protocol {

static_assert(std::endian::native == std::endian::little, "headers are written as the machine holds them");

namespace {

// The header as it travels: docs/wire-format.md#frame-header.
struct WireHeader {
    uint32_t magic;
    uint8_t version;
    uint8_t kind;
    uint8_t codec;
    uint8_t flags;
    uint64_t sequence;
    uint64_t acknowledgement;
    uint64_t timestamp_us;
    uint32_t body_bytes;
    uint32_t payload_bytes;
    uint32_t payload_raw_bytes;
    uint32_t reserved;
};
static_assert(sizeof(WireHeader) == k_frame_header_bytes);

}  // namespace

const char* to_string(FrameKind kind) {
    static constexpr const char* k_names[] = {"none", "Hello", "HelloReply", "Resume", "Batch", "Reply",
                                              "Bulk", "Event", "Ping",       "Pong",   "Close", "Status"};
    auto index = static_cast<size_t>(kind);
    return index < std::size(k_names) ? k_names[index] : "unknown";
}

void encode_frame_header(const FrameHeader& header, std::byte* out) {
    WireHeader wire{k_frame_magic,
                    k_frame_version,
                    static_cast<uint8_t>(header.kind),
                    header.codec,
                    header.flags,
                    header.sequence,
                    header.acknowledgement,
                    header.timestamp_us,
                    header.body_bytes,
                    header.payload_bytes,
                    header.payload_raw_bytes,
                    0};
    std::memcpy(out, &wire, sizeof wire);
}

namespace {

/// An encoded payload is never longer than what it decodes to, and never empty.
Result<void> check_encoding(const WireHeader& wire, uint32_t codecs) {
    if (wire.codec >= 32 || (codecs >> wire.codec & 1) == 0)
        return malformed("a frame uses a codec that was not agreed on", wire.codec);
    if (!is_sequenced(static_cast<FrameKind>(wire.kind))) return malformed("a frame is encoded that must not be", wire.kind);
    const bool with_body = wire.flags & k_flag_body_encoded;
    if (with_body && wire.kind == static_cast<uint8_t>(FrameKind::bulk))
        return malformed("a frame's body is encoded that must not be", wire.kind);
    const uint64_t decoded_bytes = uint64_t{wire.payload_raw_bytes} + (with_body ? wire.body_bytes : 0);
    if (wire.payload_bytes == 0 || wire.payload_bytes >= decoded_bytes)
        return malformed("a frame is encoded, and not shorter", wire.payload_bytes);
    return {};
}

}  // namespace

Result<FrameHeader> decode_frame_header(BytesView bytes, const FrameLimits& limits, uint32_t codecs, bool shares) {
    WireHeader wire;
    if (!read_at(bytes, 0, wire)) return malformed("a frame header is cut off");
    if (wire.magic != k_frame_magic) return malformed("this is not a frame of Warpline", wire.magic);
    if (wire.version != k_frame_version)
        return Error{Code::version_mismatch, "a frame of another format version", wire.version};
    if (wire.kind < static_cast<uint8_t>(FrameKind::hello) || wire.kind > static_cast<uint8_t>(FrameKind::open))
        return malformed("a frame of an unknown kind", wire.kind);
    const bool may_share = shares && wire.kind == static_cast<uint8_t>(FrameKind::bulk);
    const uint8_t known_flags = wire.codec != 0 ? k_flag_body_encoded : may_share ? k_flag_shared : 0;
    if ((wire.flags & ~known_flags) != 0 || wire.reserved != 0)
        return malformed("a frame has bits set that mean nothing yet", wire.flags);
    if (wire.body_bytes % 8 != 0) return malformed("a frame's body is not a multiple of 8 bytes", wire.body_bytes);
    if (wire.body_bytes > limits.max_body_bytes) return malformed("a frame's body is longer than it may be", wire.body_bytes);
    if (wire.payload_bytes > limits.max_payload_bytes || wire.payload_raw_bytes > limits.max_payload_bytes)
        return malformed("a frame's payload is longer than it may be", wire.payload_bytes);
    const bool is_shared = (wire.flags & k_flag_shared) != 0;
    if (is_shared && (wire.payload_bytes != k_shared_place_bytes || wire.payload_raw_bytes == 0))
        return malformed("a frame does not say where in shared memory its payload is", wire.payload_bytes);
    if (wire.codec == 0 && !is_shared && wire.payload_raw_bytes != wire.payload_bytes)
        return malformed("a frame's payload has two lengths", wire.payload_raw_bytes);
    if (wire.codec != 0) WL_TRY(check_encoding(wire, codecs));

    FrameHeader header;
    header.kind = static_cast<FrameKind>(wire.kind);
    header.codec = wire.codec;
    header.flags = wire.flags;
    header.sequence = wire.sequence;
    header.acknowledgement = wire.acknowledgement;
    header.timestamp_us = wire.timestamp_us;
    header.body_bytes = wire.body_bytes;
    header.payload_bytes = wire.payload_bytes;
    header.payload_raw_bytes = wire.payload_raw_bytes;
    return header;
}

}  // namespace warpline::protocol
