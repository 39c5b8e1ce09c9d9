// Putting calls and the parts of their payloads together.
#include "protocol/codec/call_receiver.h"

#include "protocol/codec/link.h"

namespace warpline::protocol {

Result<PayloadPart> PayloadStream::next() {
    MutexLock lock(m_mutex);
    if (m_pulled == m_total) return PayloadPart{};
    const auto next_is_there = [this]() WL_REQUIRES(m_mutex) { return !m_parts.empty() && m_parts.begin()->first == m_pulled; };
    while (!next_is_there() && m_error.code == Code::ok) m_arrived.wait(m_mutex);
    if (!next_is_there()) return m_error;
    PayloadPart part = std::move(m_parts.extract(m_parts.begin()).mapped());
    m_pulled += part.size();
    return part;
}

bool PayloadStream::has_arrived() const {
    MutexLock lock(m_mutex);
    return m_pushed == m_total || m_error.code != Code::ok;
}

Result<void> PayloadStream::push(uint64_t offset, PayloadPart part) {
    const Error again = malformed("a part of a payload comes twice, or lies outside of it");
    const uint64_t bytes = part.size();
    MutexLock lock(m_mutex);
    if (offset < m_pulled || offset > m_total || bytes > m_total - offset) return again;
    const auto after = m_parts.lower_bound(offset);
    if (after != m_parts.end() && after->first < offset + bytes) return again;
    if (after != m_parts.begin()) {
        const auto before = std::prev(after);
        if (before->first + before->second.size() > offset) return again;
    }
    m_pushed += bytes;
    m_parts.emplace_hint(after, offset, std::move(part));
    m_arrived.notify_one();
    return {};
}

void PayloadStream::fail(Error error) {
    MutexLock lock(m_mutex);
    m_error = error;
    m_arrived.notify_all();
}

Result<CallReceiver::Unit> CallReceiver::accept_batch(Frame frame) {
    Unit unit;
    const BatchHeader header = WL_TRY(read_batch_header(frame.body.view()));
    unit.cost_bytes = credit_cost(header, frame.header);
    WL_TRY(m_grant.received(unit.cost_bytes, header.count));
    if (m_compact && header.expanded_bytes != 0) WL_TRY(expand_batch(m_compact_calls, header, frame.body));
    WL_TRY(BatchReader::open(frame.body.view(), frame.payload.view()));
    {
        MutexLock lock(m_mutex);
        if (header.first_call != m_next_call) return malformed("a batch does not continue the numbers of the calls");
        m_next_call += header.count;
        unit.calls = header.count;
        if (header.streamed_bytes != 0) {
            unit.stream = std::make_shared<PayloadStream>(header.streamed_bytes);
            Arriving arriving{unit.stream, 0};
            auto early = m_early.extract(m_next_call - 1);
            if (!early.empty())
                for (EarlyPart& part : early.mapped()) WL_TRY(join(arriving, part.offset, part.total, std::move(part.part)));
            if (arriving.received_bytes < header.streamed_bytes) m_arriving[m_next_call - 1] = std::move(arriving);
        }
        if (!m_early.empty() && m_early.begin()->first < m_next_call)
            return malformed("a call has parts of a payload, and no payload");
    }
    unit.batch = std::move(frame);
    return unit;
}

Result<void> CallReceiver::join(Arriving& arriving, uint64_t offset, uint64_t total, PayloadPart part) {
    if (total != arriving.stream->total_bytes()) return malformed("a part is of a payload of another size");
    arriving.received_bytes += part.size();
    return arriving.stream->push(offset, std::move(part));
}

Result<void> CallReceiver::accept_bulk(Frame frame) {
    BulkHeader bulk = WL_TRY(read_bulk_header(frame.body.view(), frame.payload_view().size()));
    const uint64_t bytes = frame.payload_view().size();
    if (bytes < m_least_part_bytes && bulk.offset + bytes < bulk.total)
        return malformed("a payload comes in parts that are too small");
    return accept_part(bulk.call, bulk.offset, bulk.total, {std::move(frame.payload), std::move(frame.placed), bulk.keep});
}

Result<void> CallReceiver::accept_part(uint64_t call, uint64_t offset, uint64_t total, PayloadPart part) {
    WL_TRY(m_grant.received(part.size(), 0));
    MutexLock lock(m_mutex);
    if (call >= m_next_call) {
        m_early[call].push_back({offset, total, std::move(part)});
        return {};
    }
    const auto found = m_arriving.find(call);
    if (found == m_arriving.end()) return malformed("a part of a payload comes that no call has");
    WL_TRY(join(found->second, offset, total, std::move(part)));
    if (found->second.received_bytes == total) m_arriving.erase(found);
    return {};
}

void CallReceiver::fail(Error error) {
    MutexLock lock(m_mutex);
    for (const auto& [call, arriving] : m_arriving) arriving.stream->fail(error);
}

}  // namespace warpline::protocol
