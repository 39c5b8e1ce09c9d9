// Finding frames in bytes that come in pieces of any size.
#include "protocol/codec/frame_reader.h"

#include <algorithm>

#include "protocol/codec/encoding.h"

namespace warpline::protocol {

namespace {

// Below this a payload is gathered through the input buffer: one read then also brings the frames after it.
constexpr size_t k_direct_bytes = 16 * 1024;

}  // namespace

FrameReader::FrameReader(FrameSink& sink, FrameLimits limits) : m_sink(sink), m_limits(limits) {}

MutableBytesView FrameReader::space() {
    m_direct = false;
    if (m_state == State::payload && m_begin == m_end) {
        const MutableBytesView payload = arriving();
        if (payload.size() - m_have >= k_direct_bytes) {
            m_direct = true;
            return payload.subspan(m_have);
        }
    }
    if (m_input.empty() && !m_input.resize(k_input_bytes)) {
        (void)fail(k_no_frame_memory);
        return m_last_resort;
    }
    if (m_begin == m_end) {
        m_begin = m_end = 0;
    } else if (m_begin > 0) {
        // Never more than part of a header is left here: moving it is cheap.
        std::memmove(m_input.data(), m_input.data() + m_begin, m_end - m_begin);
        m_end -= m_begin;
        m_begin = 0;
    }
    return m_input.mutable_view().subspan(m_end);
}

Result<void> FrameReader::commit(size_t count) {
    if (m_state == State::failed) return m_error;
    if (m_direct) {
        m_direct = false;
        m_have += count;
        if (m_have == m_frame.header.payload_bytes) WL_TRY(complete());
        return {};
    }
    m_end += count;
    return consume();
}

Result<void> FrameReader::feed(BytesView bytes) {
    while (!bytes.empty()) {
        MutableBytesView room = space();
        size_t count = std::min(room.size(), bytes.size());
        std::memcpy(room.data(), bytes.data(), count);
        bytes = bytes.subspan(count);
        WL_TRY(commit(count));
    }
    if (m_state == State::failed) return m_error;
    return {};
}

void FrameReader::reset() {
    m_state = State::header;
    m_error = Error{Code::ok};
    m_begin = m_end = 0;
    m_direct = false;
    m_frame = Frame{};
    m_have = 0;
}

bool FrameReader::at_boundary() const { return m_state == State::header && m_begin == m_end; }

Result<void> FrameReader::consume() {
    while (WL_TRY(step())) {
    }
    return {};
}

// One state's worth of progress; false when more bytes are needed.
Result<bool> FrameReader::step() {
    switch (m_state) {
        case State::header:
            if (m_end - m_begin < k_frame_header_bytes) return false;
            WL_TRY(begin_frame());
            return true;
        case State::body:
            m_have += take(m_frame.body.data() + m_have, m_frame.header.body_bytes - m_have);
            if (m_have < m_frame.header.body_bytes) return false;
            WL_TRY(begin_payload());
            return true;
        case State::payload: {
            m_have += take(arriving().data() + m_have, m_frame.header.payload_bytes - m_have);
            if (m_have < m_frame.header.payload_bytes) return false;
            WL_TRY(complete());
            return true;
        }
        case State::failed: break;
    }
    return m_error;
}

Result<void> FrameReader::begin_frame() {
    auto header = decode_frame_header(m_input.view().subspan(m_begin, k_frame_header_bytes), m_limits, m_codecs, m_shares);
    if (!header.ok()) return fail(header.error());
    m_begin += k_frame_header_bytes;
    m_frame = Frame{};
    m_frame.header = *header;
    m_have = 0;
    if (header->body_bytes == 0 || (header->flags & k_flag_body_encoded)) return begin_payload();
    if (!m_frame.body.resize(header->body_bytes)) return fail(k_no_frame_memory);
    m_state = State::body;
    return {};
}

Result<void> FrameReader::begin_payload() {
    m_have = 0;
    const FrameHeader& header = m_frame.header;
    if (header.payload_bytes == 0) return deliver();
    m_state = State::payload;
    if (header.codec != 0 || (header.flags & k_flag_shared) != 0) {
        if (!m_encoded.resize(header.payload_bytes)) return fail(k_no_frame_memory);
        return {};
    }
    WL_TRY(place());
    if (m_frame.placed.data() == nullptr && !m_frame.payload.resize(header.payload_bytes)) return fail(k_no_frame_memory);
    return {};
}

/// Asks for the place of a part of a payload.
Result<void> FrameReader::place() {
    const FrameHeader& header = m_frame.header;
    if (header.kind != FrameKind::bulk) return {};
    auto place = m_sink.place_payload(header, m_frame.body.view());
    if (!place.ok()) return fail(place.error());
    if (place->data() != nullptr && place->size() != header.payload_raw_bytes)
        return fail(Error{Code::internal, "a payload was given a place of another size"});
    m_frame.placed = std::move(*place);
    return {};
}

/// All of the payload is there.
Result<void> FrameReader::complete() {
    if (m_frame.header.codec != 0) {
        WL_TRY(place());
        if (auto decoded = decode_frame(m_frame, m_encoded.view()); !decoded.ok()) return fail(decoded.error());
    }
    if ((m_frame.header.flags & k_flag_shared) != 0) {
        uint64_t where = 0;
        static_cast<void>(read_at(m_encoded.view(), 0, where));
        auto place = m_sink.shared_payload(m_frame.header, m_frame.body.view(), where);
        if (!place.ok()) return fail(place.error());
        m_frame.placed = std::move(*place);
    }
    return deliver();
}

Result<void> FrameReader::deliver() {
    m_state = State::header;
    auto result = m_sink.on_frame(std::exchange(m_frame, Frame{}));
    if (!result.ok()) return fail(result.error());
    return {};
}

size_t FrameReader::take(std::byte* destination, size_t wanted) {
    size_t count = std::min(wanted, m_end - m_begin);
    if (count == 0) return 0;
    std::memcpy(destination, m_input.data() + m_begin, count);
    m_begin += count;
    return count;
}

Result<void> FrameReader::fail(Error error) {
    m_state = State::failed;
    m_error = error;
    return error;
}

}  // namespace warpline::protocol
