// Writing and reading the calls of a batch.
#include "protocol/codec/batch.h"

#include <algorithm>
#include <bit>

namespace warpline::protocol {

namespace {

// As it travels: docs/wire-format.md#batch.
struct WireBatchHeader {
    uint64_t first_call;
    uint32_t count;
    uint32_t expanded_bytes;
    uint64_t streamed_bytes;
};
static_assert(sizeof(WireBatchHeader) == k_batch_header_bytes);

constexpr size_t k_first_room_bytes = 16 * 1024;
constexpr Error k_no_call_memory{Code::alloc_failed, "no memory for a call"};

void open_message(std::optional<capnp::FlatArrayMessageReader>& reader, BytesView bytes) {
    reader.emplace(kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()), bytes.size() / sizeof(capnp::word)),
                   reader_options(bytes.size()));
}

}  // namespace

Result<void> CallImage::build(const CallHeader& header, unsigned max_words, uint64_t payload_bytes, FillArgs fill) {
    const size_t room_bytes = (size_t{max_words} + k_call_words + 1) * sizeof(capnp::word);
    if (room_bytes > FrameLimits{}.max_body_bytes) return Error{Code::quota, "a call is larger than a frame may be"};
    std::byte* place = m_inline;
    if (room_bytes > k_inline_bytes) {
        if (!m_heap.resize(room_bytes)) return k_no_call_memory;
        place = m_heap.data();
    }
    std::memset(place, 0, room_bytes);
    return guarded([&]() -> Result<void> {
        capnp::FlatMessageBuilder message(
            kj::arrayPtr(reinterpret_cast<capnp::word*>(place) + 1, room_bytes / sizeof(capnp::word) - 1));
        auto call = message.initRoot<wire::Call>();
        call.setId(header.id);
        call.setWantsReply(header.wants_reply);
        call.setThread(header.thread);
        call.setContext(header.context);
        call.setPayloadBytes(payload_bytes);
        fill(call.getArgs());
        const auto words = static_cast<uint32_t>(message.getSegmentsForOutput()[0].size());
        std::memcpy(place + 4, &words, sizeof words);  // the number of segments, minus one, is already 0
        m_message = {place, (size_t{words} + 1) * sizeof(capnp::word)};
        return {};
    });
}

Result<size_t> BatchBuilder::append(const CallHeader& header, const CallImage& image, BytesView payload) {
    const BytesView message = image.message();
    WL_TRY(make_room(message.size(), payload.size()));
    std::byte* const place = m_body.data() + m_used;
    if (m_is_compact) {
        const uint64_t kind = uint64_t{header.id} | uint64_t{header.wants_reply} << 16 | uint64_t{header.thread} << 32;
        m_used += m_compact->write(message, kind ^ std::rotl(header.subject, 16), place);
    } else {
        std::memcpy(place, message.data(), message.size());
        m_used += message.size();
    }
    m_expanded += message.size();
    ++m_count;
    (void)m_payload.append(payload);  // there is room
    return message.size() + payload.size();
}

Result<size_t> BatchBuilder::append_streamed(const CallHeader& header, const CallImage& image, uint64_t payload_bytes) {
    const size_t cost = WL_TRY(append(header, image, {}));
    m_streamed_bytes = payload_bytes;
    return cost;
}

void BatchBuilder::begin(uint64_t first_call) {
    m_first_call = first_call;
    m_streamed_bytes = 0;
    m_count = 0;
    m_used = k_batch_header_bytes;
    m_expanded = 0;
    m_is_compact = m_compact != nullptr;
    m_payload.clear();
}

/// Before anything is remembered of the call: what cannot be appended must not be known to one side alone.
Result<void> BatchBuilder::make_room(size_t message_bytes, size_t payload_bytes) {
    const FrameLimits limits;
    const size_t end = m_used + (m_is_compact ? CompactWriter::room(message_bytes) : message_bytes) + sizeof(capnp::word);
    if (std::max(end, m_expanded + message_bytes) > limits.max_body_bytes)
        return Error{Code::quota, "a call is larger than a frame may be"};
    const size_t payload_end = m_payload.size() + payload_bytes;
    if (payload_end > limits.max_payload_bytes) return Error{Code::quota, "a call's payload is larger than a frame may be"};
    if (end > m_body.capacity() && !m_body.reserve(std::max({end, m_body.capacity() * 2, k_first_room_bytes})))
        return k_no_call_memory;
    if (payload_end > m_payload.capacity() && !m_payload.reserve(std::max(payload_end, m_payload.capacity() * 2)))
        return k_no_call_memory;
    return {};
}

void BatchBuilder::finish(Buffer& body, Buffer& payload) {
    const WireBatchHeader wire{m_first_call, m_count, m_is_compact ? static_cast<uint32_t>(m_expanded) : 0, m_streamed_bytes};
    std::memcpy(m_body.data(), &wire, sizeof wire);
    const size_t padded = (m_used + sizeof(capnp::word) - 1) / sizeof(capnp::word) * sizeof(capnp::word);
    std::memset(m_body.data() + m_used, 0, padded - m_used);
    (void)m_body.resize(padded);  // there is room
    m_body.swap(body);
    m_payload.swap(payload);
    begin(m_first_call + m_count);
}

Result<BatchHeader> read_batch_header(BytesView body) {
    WireBatchHeader wire;
    if (!read_at(body, 0, wire)) return malformed("a batch is cut off");
    if (wire.count == 0 || wire.first_call == 0) return malformed("a batch without calls");
    if (wire.first_call + wire.count < wire.first_call) return malformed("a batch numbers its calls beyond all numbers");
    if (wire.expanded_bytes % sizeof(capnp::word) != 0 ||
        wire.expanded_bytes > FrameLimits{}.max_body_bytes - k_batch_header_bytes)
        return malformed("a batch of compact calls is larger than a frame may be", wire.expanded_bytes);
    return BatchHeader{wire.first_call, wire.count, wire.expanded_bytes, wire.streamed_bytes};
}

Result<void> expand_batch(CompactReader& reader, const BatchHeader& header, Buffer& body) {
    Buffer expanded;
    if (!expanded.resize(k_batch_header_bytes + header.expanded_bytes)) return k_no_call_memory;
    const WireBatchHeader wire{header.first_call, header.count, 0, header.streamed_bytes};
    std::memcpy(expanded.data(), &wire, sizeof wire);
    WL_TRY(reader.expand(body.view().subspan(k_batch_header_bytes), header.count,
                         expanded.mutable_view().subspan(k_batch_header_bytes)));
    body.swap(expanded);
    return {};
}

Result<BatchReader> BatchReader::open(BytesView body, BytesView payload) {
    const BatchHeader header = WL_TRY(read_batch_header(body));
    if (header.expanded_bytes != 0) return malformed("a batch has compact calls, which were not agreed on");
    size_t offset = k_batch_header_bytes;
    for (uint32_t i = 0; i < header.count; ++i) offset += WL_TRY(message_bytes_at(body.subspan(offset)));
    if (offset != body.size()) return malformed("a batch has bytes that belong to no call");
    return BatchReader(body, payload, header);
}

Result<bool> BatchReader::next() {
    if (at_last()) return false;
    size_t size = WL_TRY(message_bytes_at(m_body.subspan(m_offset)));
    return guarded([&]() -> Result<bool> { return read_call(m_body.subspan(m_offset, size)); });
}

Result<bool> BatchReader::read_call(BytesView bytes) {
    open_message(m_reader, bytes);
    auto message = m_reader->getRoot<wire::Call>();
    m_call.message = message;
    m_call.message_bytes = bytes;
    m_call.number = m_header.first_call + m_index;
    m_call.header = CallHeader{message.getId(), message.getWantsReply(), message.getThread(), message.getContext()};
    m_call.payload_bytes = message.getPayloadBytes();
    m_call.streamed = m_header.streamed_bytes != 0 && m_index + 1 == m_header.count;
    if (m_call.streamed) {
        if (m_call.payload_bytes != m_header.streamed_bytes) return malformed("a streamed payload has two lengths");
        m_call.payload = {};
    } else {
        if (m_call.payload_bytes > m_payload.size() - m_payload_offset) return malformed("a call's payload is not there");
        m_call.payload = m_payload.subspan(m_payload_offset, m_call.payload_bytes);
        m_payload_offset += m_call.payload_bytes;
    }
    m_offset += bytes.size();
    ++m_index;
    if (at_last() && m_payload_offset != m_payload.size()) return malformed("a batch has payload that belongs to no call");
    return true;
}

Result<void> KeptCall::keep(const CallView& call) {
    return guarded([&]() -> Result<void> {
        open_message(m_reader, call.message_bytes);
        m_view = call;
        m_view.message = m_reader->getRoot<wire::Call>();
        return {};
    });
}

}  // namespace warpline::protocol
