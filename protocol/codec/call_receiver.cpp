// Putting calls and the parts of their payloads together.
#include "protocol/codec/call_receiver.h"

#include "protocol/codec/link.h"

namespace warpline::protocol {

Result<PayloadPart> PayloadStream::next() {
    MutexLock lock(m_mutex);
    if (m_pulled == m_total) return PayloadPart{};
    while (m_parts.empty() && m_error.code == Code::ok) m_arrived.wait(m_mutex);
    if (m_parts.empty()) return m_error;
    PayloadPart part = std::move(m_parts.front());
    m_parts.pop_front();
    m_pulled += part.size();
    return part;
}

bool PayloadStream::has_arrived() const {
    MutexLock lock(m_mutex);
    return m_pushed == m_total || m_error.code != Code::ok;
}

void PayloadStream::push(PayloadPart part) {
    MutexLock lock(m_mutex);
    m_pushed += part.size();
    m_parts.push_back(std::move(part));
    m_arrived.notify_one();
}

void PayloadStream::fail(Error error) {
    MutexLock lock(m_mutex);
    m_error = error;
    m_arrived.notify_all();
}

Result<CallReceiver::Unit> CallReceiver::accept_batch(Frame frame) {
    Unit unit;
    {
        auto reader = WL_TRY(BatchReader::open(frame.body.view(), frame.payload.view()));
        const BatchHeader& header = reader.header();
        if (header.first_call != m_next_call) return malformed("a batch does not continue the numbers of the calls");
        m_next_call += header.count;
        unit.calls = header.count;
        if (header.streamed_bytes != 0) {
            unit.stream = std::make_shared<PayloadStream>(header.streamed_bytes);
            m_arriving[m_next_call - 1] = {unit.stream, 0};
        }
    }
    unit.cost_bytes = credit_cost(frame.header);
    WL_TRY(m_grant.received(unit.cost_bytes, unit.calls));
    unit.batch = std::move(frame);
    return unit;
}

Result<void> CallReceiver::accept_bulk(Frame frame) {
    BulkHeader bulk = WL_TRY(read_bulk_header(frame.body.view(), frame.payload_view().size()));
    const auto found = m_arriving.find(bulk.call);
    if (found == m_arriving.end()) return malformed("a part of a payload comes that no call has");
    Arriving& arriving = found->second;
    if (bulk.total != arriving.stream->total_bytes() || bulk.offset != arriving.received_bytes)
        return malformed("a part of a payload is not the next one");
    const size_t bytes = frame.payload_view().size();
    WL_TRY(m_grant.received(bytes, 0));
    arriving.received_bytes += bytes;
    const bool last = arriving.received_bytes == bulk.total;
    arriving.stream->push({std::move(frame.payload), std::move(frame.placed)});
    if (last) m_arriving.erase(found);
    return {};
}

void CallReceiver::fail(Error error) {
    for (const auto& [call, arriving] : m_arriving) arriving.stream->fail(error);
}

}  // namespace warpline::protocol
