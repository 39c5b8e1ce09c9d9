// Writing and reading the calls of a batch.
#include "protocol/codec/batch.h"

#include <algorithm>

namespace warpline::protocol {

namespace {

// As it travels: docs/wire-format.md#batch.
struct WireBatchHeader {
    uint64_t first_call;
    uint32_t count;
    uint32_t reserved;
    uint64_t streamed_bytes;
};
static_assert(sizeof(WireBatchHeader) == k_batch_header_bytes);

constexpr size_t k_first_room_bytes = 16 * 1024;
constexpr size_t k_clear_step_bytes = 4096;

void open_message(std::optional<capnp::FlatArrayMessageReader>& reader, BytesView bytes) {
    reader.emplace(kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()), bytes.size() / sizeof(capnp::word)),
                   reader_options(bytes.size()));
}

}  // namespace

/// Clears what a failed fill has left, so that the buffer is zero beyond its end again.
struct BatchBuilder::ClearUnlessDone {
    size_t words;
    BatchBuilder* builder;
    ClearUnlessDone(BatchBuilder& target, size_t room) : words(room), builder(&target) {}
    ~ClearUnlessDone() {
        if (builder) builder->clear_tail(words);
    }
};

Result<size_t> BatchBuilder::append_any(const CallHeader& header, unsigned max_words, BytesView payload, uint64_t payload_bytes,
                                        FillArgs fill) {
    size_t room = WL_TRY(make_room(max_words + k_call_words, payload.size()));
    return guarded([&]() -> Result<size_t> {
        capnp::FlatMessageBuilder message(kj::arrayPtr(reinterpret_cast<capnp::word*>(m_body.data() + m_used + 8), room));
        ClearUnlessDone clear{*this, room};
        auto call = message.initRoot<wire::Call>();
        call.setId(header.id);
        call.setWantsReply(header.wants_reply);
        call.setThread(header.thread);
        call.setContext(header.context);
        call.setPayloadBytes(payload_bytes);
        fill(call.getArgs());
        size_t words = message.getSegmentsForOutput()[0].size();
        clear.builder = nullptr;
        return complete(words, payload);
    });
}

Result<size_t> BatchBuilder::append_streamed(const CallHeader& header, unsigned max_words, FillArgs fill,
                                             uint64_t payload_bytes) {
    size_t cost = WL_TRY(append_any(header, max_words, {}, payload_bytes, fill));
    m_streamed_bytes = payload_bytes;
    return cost;
}

void BatchBuilder::begin(uint64_t first_call) {
    m_first_call = first_call;
    m_streamed_bytes = 0;
    m_count = 0;
    m_used = k_batch_header_bytes;
    m_payload.clear();
}

Result<size_t> BatchBuilder::make_room(size_t words, size_t payload_bytes) {
    const FrameLimits limits;
    size_t end = m_used + (words + 1) * sizeof(capnp::word);
    if (end > limits.max_body_bytes) return Error{Code::quota, "a call is larger than a frame may be"};
    if (m_payload.size() + payload_bytes > limits.max_payload_bytes)
        return Error{Code::quota, "a call's payload is larger than a frame may be"};
    constexpr Error k_no_memory{Code::alloc_failed, "no memory for a call"};
    if (end > m_body.capacity() && !m_body.reserve(std::max({end, m_body.capacity() * 2, k_first_room_bytes})))
        return k_no_memory;
    size_t payload_end = m_payload.size() + payload_bytes;
    if (payload_end > m_payload.capacity() && !m_payload.reserve(std::max(payload_end, m_payload.capacity() * 2)))
        return k_no_memory;
    if (end > m_clean) {
        size_t from = std::max(m_clean, m_used);
        m_clean = std::min(m_body.capacity(), end + k_clear_step_bytes);
        std::memset(m_body.data() + from, 0, m_clean - from);
    }
    return words;
}

Result<size_t> BatchBuilder::complete(size_t words, BytesView payload) {
    auto count = static_cast<uint32_t>(words);
    std::memcpy(m_body.data() + m_used + 4, &count, sizeof count);  // the number of segments, minus one, is already 0
    size_t bytes = (words + 1) * sizeof(capnp::word);
    m_used += bytes;
    ++m_count;
    if (!m_payload.append(payload)) return Error{Code::alloc_failed, "no memory for a call"};  // cannot be: there is room
    return bytes + payload.size();
}

void BatchBuilder::clear_tail(size_t words) { std::memset(m_body.data() + m_used, 0, (words + 1) * sizeof(capnp::word)); }

void BatchBuilder::finish(Buffer& body, Buffer& payload) {
    WireBatchHeader wire{m_first_call, m_count, 0, m_streamed_bytes};
    std::memcpy(m_body.data(), &wire, sizeof wire);
    (void)m_body.resize(m_used);
    m_body.swap(body);
    m_payload.swap(payload);
    m_clean = 0;
    begin(m_first_call + m_count);
}

Result<BatchReader> BatchReader::open(BytesView body, BytesView payload) {
    WireBatchHeader wire;
    if (!read_at(body, 0, wire)) return malformed("a batch is cut off");
    if (wire.reserved != 0) return malformed("a batch has bits set that mean nothing yet");
    if (wire.count == 0 || wire.first_call == 0) return malformed("a batch without calls");
    if (wire.first_call + wire.count < wire.first_call) return malformed("a batch numbers its calls beyond all numbers");
    size_t offset = k_batch_header_bytes;
    for (uint32_t i = 0; i < wire.count; ++i) offset += WL_TRY(message_bytes_at(body.subspan(offset)));
    if (offset != body.size()) return malformed("a batch has bytes that belong to no call");
    return BatchReader(body, payload, BatchHeader{wire.first_call, wire.count, wire.streamed_bytes});
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
