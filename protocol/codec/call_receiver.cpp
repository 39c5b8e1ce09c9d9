#include "protocol/codec/call_receiver.h"

#include "protocol/codec/link.h"

namespace warpline::protocol {

Result<Buffer> PayloadStream::next() {
    MutexLock lock(m_mutex);
    if (m_pulled == m_total) return Buffer{};
    while (m_parts.empty() && m_error.code == Code::ok) m_arrived.wait(m_mutex);
    if (m_parts.empty()) return m_error;
    Buffer part = std::move(m_parts.front());
    m_parts.pop_front();
    m_pulled += part.size();
    return part;
}

void PayloadStream::push(Buffer part) {
    MutexLock lock(m_mutex);
    m_parts.push_back(std::move(part));
    m_arrived.notify_one();
}

void PayloadStream::fail(Error error) {
    MutexLock lock(m_mutex);
    m_error = error;
    m_arrived.notify_all();
}

Result<CallReceiver::Unit> CallReceiver::accept_batch(Frame frame) {
    if (m_stream) return malformed("a batch comes before the payload of the last call is complete");
    Unit unit;
    {
        auto reader = WL_TRY(BatchReader::open(frame.body.view(), frame.payload.view()));
        const BatchHeader& header = reader.header();
        if (header.first_call != m_next_call) return malformed("a batch does not continue the numbers of the calls");
        m_next_call += header.count;
        unit.calls = header.count;
        if (header.streamed_bytes != 0) {
            m_stream = std::make_shared<PayloadStream>(header.streamed_bytes);
            m_stream_call = m_next_call - 1;
            m_stream_received = 0;
            unit.stream = m_stream;
        }
    }
    unit.cost_bytes = credit_cost(frame.header);
    WL_TRY(m_grant.received(unit.cost_bytes, unit.calls));
    unit.batch = std::move(frame);
    return unit;
}

Result<void> CallReceiver::accept_bulk(Frame frame) {
    if (!m_stream) return malformed("a part of a payload comes and no call has one");
    BulkHeader bulk = WL_TRY(read_bulk_header(frame.body.view(), frame.payload.size()));
    if (bulk.call != m_stream_call || bulk.total != m_stream->total_bytes() || bulk.offset != m_stream_received)
        return malformed("a part of a payload is not the next one");
    WL_TRY(m_grant.received(frame.payload.size(), 0));
    m_stream_received += frame.payload.size();
    bool last = m_stream_received == bulk.total;
    m_stream->push(std::move(frame.payload));
    if (last) m_stream.reset();
    return {};
}

void CallReceiver::fail(Error error) {
    if (m_stream) m_stream->fail(error);
}

}  // namespace warpline::protocol
