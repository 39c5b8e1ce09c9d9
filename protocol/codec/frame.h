// The unit of what travels.
#pragma once

#include <cstdint>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "protocol/codec/buffer.h"
#include "protocol/codec/place.h"

namespace warpline::protocol {

inline constexpr Error k_no_frame_memory{Code::alloc_failed, "no memory for a frame"};

/// What the peer sent is not what the wire format allows.
inline Error malformed(const char* what, uint32_t detail = 0) { return {Code::malformed, what, detail}; }

/// Wire values, never changed (docs/wire-format.md#kinds).
enum class FrameKind : uint8_t {
    hello = 1,
    hello_reply = 2,
    resume = 3,
    batch = 4,
    reply = 5,
    bulk = 6,
    event = 7,
    ping = 8,
    pong = 9,
    close = 10,
    status = 11,
    open = 12,
};

inline constexpr uint32_t k_frame_magic = 0x31464C57;  // "WLF1"
inline constexpr uint8_t k_frame_version = 1;
inline constexpr size_t k_frame_header_bytes = 48;

/// Protocol versions that this build speaks; the handshake picks the highest common one.
inline constexpr uint16_t k_protocol_version_min = 5;
inline constexpr uint16_t k_protocol_version_max = 5;

/// Body and payload are encoded together, and travel as the payload.
inline constexpr uint8_t k_flag_body_encoded = 1;
/// The payload lies in memory that both sides share: what travels is where, a u64. Of Bulk frames.
inline constexpr uint8_t k_flag_shared = 2;
inline constexpr uint32_t k_shared_place_bytes = 8;

/// The fixed header of a frame (docs/wire-format.md#frame-header).
struct FrameHeader {
    FrameKind kind = FrameKind::ping;
    uint8_t codec = 0;               ///< compress::Codec, of the payload; 0: none
    uint8_t flags = 0;               ///< k_flag_body_encoded, k_flag_shared, or 0
    uint64_t sequence = 0;           ///< 0: not part of the sequence (hello, ping, pong, close)
    uint64_t acknowledgement = 0;    ///< highest sequence received in order
    uint64_t timestamp_us = 0;       ///< sender's steady clock
    uint32_t body_bytes = 0;         ///< multiple of 8; decoded
    uint32_t payload_bytes = 0;      ///< as it travels
    uint32_t payload_raw_bytes = 0;  ///< after decoding, or in shared memory; else equal to payload_bytes

    /// Of what is encoded, if it is.
    uint64_t decoded_bytes() const {
        return uint64_t{payload_raw_bytes} + ((flags & k_flag_body_encoded) != 0 ? body_bytes : 0);
    }
};

/// True for the kinds that have sequence numbers, are acknowledged and would be sent again after a resume.
constexpr bool is_sequenced(FrameKind kind) {
    return kind == FrameKind::batch || kind == FrameKind::reply || kind == FrameKind::bulk || kind == FrameKind::event;
}

const char* to_string(FrameKind kind);

/// Upper bounds on what a peer can make us allocate for one frame.
struct FrameLimits {
    uint32_t max_body_bytes = 8u << 20;
    uint32_t max_payload_bytes = 8u << 20;
};

/// Writes the header's wire form. `out` has k_frame_header_bytes bytes.
void encode_frame_header(const FrameHeader& header, std::byte* out);

/// Reads and checks a header: magic, version, kind, zero reserved fields, lengths against the limits and each other.
///
/// @param codecs  those that the payload may be encoded with, a bit for each
/// @param shares  payloads may lie in shared memory
/// @errors  malformed (with the reason in `what`), version_mismatch
Result<FrameHeader> decode_frame_header(BytesView bytes, const FrameLimits& limits, uint32_t codecs = 0, bool shares = false);

/// A received frame. Owns its bytes; the body is aligned for Cap'n Proto.
struct Frame {
    FrameHeader header;
    Buffer body;
    Buffer payload;  ///< empty if the payload went to `placed`
    Place placed;    ///< where a Bulk payload was put directly (FrameSink::place_payload)
    MutableBytesView payload_bytes() { return placed.data() ? placed.bytes() : payload.mutable_view(); }
    BytesView payload_view() const { return placed.data() ? BytesView(placed.bytes()) : payload.view(); }
};

}  // namespace warpline::protocol
