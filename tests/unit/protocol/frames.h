// What several tests of the protocol need.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "protocol/codec/batch.h"
#include "protocol/codec/frame_reader.h"
#include "protocol/codec/outbox.h"

namespace warpline::protocol::test {

/// The bytes of a frame with a correct header.
inline Bytes frame_bytes(FrameHeader header, BytesView body, BytesView payload = {}) {
    header.body_bytes = static_cast<uint32_t>(body.size());
    header.payload_bytes = header.payload_raw_bytes = static_cast<uint32_t>(payload.size());
    Bytes out(k_frame_header_bytes);
    encode_frame_header(header, out.data());
    out.insert(out.end(), body.begin(), body.end());
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
}

inline FrameHeader header_of(FrameKind kind, uint64_t sequence = 0) {
    FrameHeader header;
    header.kind = kind;
    header.sequence = sequence;
    return header;
}

inline Bytes bytes_of(std::string_view text) {
    BytesView view = as_bytes(text);
    return Bytes(view.begin(), view.end());
}

inline Bytes pattern(size_t size, uint8_t seed = 1) {
    Bytes out(size);
    for (size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i * 131 + seed + (i >> 8));
    return out;
}

inline Bytes copy(BytesView view) { return Bytes(view.begin(), view.end()); }

/// The memory of a part, for Outbox::add_bulk(); nobody gets it back.
inline Place part_of(Bytes& bytes, size_t offset = 0, size_t count = SIZE_MAX) {
    return Place(MutableBytesView(bytes).subspan(offset, std::min(count, bytes.size() - offset)));
}

inline BatchHeader batch_header(const Frame& frame) {
    return BatchReader::open(frame.body.view(), frame.payload.view())->header();
}

/// Keeps what it gets.
struct Collector : FrameSink {
    std::vector<Frame> frames;
    Result<void> on_frame(Frame frame) override {
        frames.push_back(std::move(frame));
        return {};
    }
};

/// All that an outbox has, as one run of bytes.
inline Bytes drain(Outbox& outbox, uint64_t acknowledgement = 0) {
    Bytes out;
    std::vector<BytesView> views;
    while (outbox.take(k_command_lane, views, acknowledgement)) {
        for (BytesView view : views) out.insert(out.end(), view.begin(), view.end());
        views.clear();
        outbox.sent(k_command_lane);
    }
    return out;
}

inline std::vector<Frame> frames_in(BytesView bytes) {
    Collector collector;
    FrameReader reader(collector);
    EXPECT_TRUE(reader.feed(bytes).ok());
    EXPECT_TRUE(reader.at_boundary());
    return std::move(collector.frames);
}

inline constexpr unsigned k_host_call_words = capnp::_::structSize<wire::HostCall>().total();

/// Adds a small call; HostCall stands for any arguments.
inline Result<uint64_t> add_test_call(Outbox& outbox, uint64_t value, BytesView payload = {}, bool wants_reply = false,
                                      Urgency urgency = Urgency::writer) {
    CallHeader header{7, wants_reply, 3, 99};
    return outbox.add_call<wire::HostCall>(
        header, k_host_call_words, [&](wire::HostCall::Builder args) { args.setId(value); }, [](uint64_t) {}, payload, urgency);
}

inline constexpr Error k_gone{Code::connection_lost, "gone"};

/// The kinds of the frames of one burst.
inline std::vector<FrameKind> burst_of(Outbox& outbox, uint16_t lane = k_command_lane) {
    std::vector<BytesView> views;
    if (!outbox.take(lane, views, 0)) return {};
    Bytes bytes;
    for (const BytesView view : views) bytes.insert(bytes.end(), view.begin(), view.end());
    outbox.sent(lane);
    std::vector<FrameKind> kinds;
    for (const Frame& frame : frames_in(bytes)) kinds.push_back(frame.header.kind);
    return kinds;
}

/// Adds a call with a payload that travels in parts.
inline Result<uint64_t> add_long_call(Outbox& outbox, BytesView payload, Lent lent) {
    return outbox.add_streamed_call<wire::HostCall>(
        CallHeader{}, k_host_call_words, [](wire::HostCall::Builder) {}, [](uint64_t) {}, payload, lent);
}

}  // namespace warpline::protocol::test
