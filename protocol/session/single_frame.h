#pragma once

// Frames that travel alone, before or beside a session: one message, no payload, no sequence.

#include <array>
#include <utility>

#include "protocol/codec/frame.h"
#include "protocol/codec/message.h"

namespace warpline::protocol {

/// A whole frame with the message that `fill(typename Wire::Builder)` writes. @errors alloc_failed
template <typename Wire, typename F>
Result<Bytes> encode_single_frame(FrameKind kind, F&& fill) {
    const Buffer body = WL_TRY(build_message<Wire>(std::forward<F>(fill)));
    FrameHeader header;
    header.kind = kind;
    header.body_bytes = static_cast<uint32_t>(body.size());
    Bytes frame(k_frame_header_bytes + body.size());
    encode_frame_header(header, frame.data());
    std::memcpy(frame.data() + k_frame_header_bytes, body.data(), body.size());
    return frame;
}

/// How long such a message is at most, unless somebody asks for a longer one.
constexpr uint32_t k_single_frame_bytes = 4096;

/// Reads one frame without payload and not a byte more, as what follows it may belong to somebody else.
/// @param read_all  `Result<void>(MutableBytesView)`: fills the view
/// @errors          malformed (too long a frame), version_mismatch, and those of read_all
template <typename ReadAll>
Result<Frame> read_single_frame(ReadAll&& read_all, uint32_t most_bytes = k_single_frame_bytes) {
    const FrameLimits limits{most_bytes, 0};
    std::array<std::byte, k_frame_header_bytes> bytes;
    WL_TRY(read_all(MutableBytesView(bytes)));
    Frame frame;
    frame.header = WL_TRY(decode_frame_header(bytes, limits));
    if (!frame.body.resize(frame.header.body_bytes)) return k_no_frame_memory;
    WL_TRY(read_all(frame.body.mutable_view()));
    return frame;
}

/// The same for a frame of one kind. @errors malformed (another kind), as well
template <typename ReadAll>
Result<Frame> read_single_frame(FrameKind kind, ReadAll&& read_all, uint32_t most_bytes = k_single_frame_bytes) {
    Frame frame = WL_TRY(read_single_frame(std::forward<ReadAll>(read_all), most_bytes));
    if (frame.header.kind != kind) return malformed("a frame of another kind comes first");
    return frame;
}

}  // namespace warpline::protocol
