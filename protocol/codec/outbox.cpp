#include "protocol/codec/outbox.h"

#include <algorithm>
#include <cstring>

namespace warpline::protocol {

namespace {

// One burst: enough for large TLS records, small enough that those who wait for the end of a part do not wait long.
constexpr size_t k_burst_bytes = 2u << 20;
// Buffers that are kept for the next frame.
constexpr size_t k_free_frames = 32;
constexpr size_t k_free_buffer_bytes = 2u << 20;

}  // namespace

Outbox::Outbox(OutboxOptions options) : m_options(options), m_send(options.retain_limit_bytes) {}
Outbox::~Outbox() = default;

// --- calls ---

void Outbox::set_credit(CreditLimits limits) {
    MutexLock lock(m_mutex);
    m_credit.set_limits(limits);
    tell_change();
}

Result<void> Outbox::progress(uint64_t calls, uint64_t bytes) {
    MutexLock lock(m_mutex);
    WL_TRY(m_credit.progress(calls, bytes));
    tell_change();
    return {};
}

Result<void> Outbox::wait_for_turn(uint64_t cost, size_t payload_bytes) {
    if (payload_bytes > m_options.chunk_bytes) return Error{Code::bad_argument, "a payload this long must be streamed"};
    if (cost > m_credit.largest_item_bytes()) return Error{Code::quota, "a call is larger than the server grants"};
    while (!m_closed && (m_streaming || !m_credit.can_spend(cost, 1))) {
        ++m_counters.credit_waits;
        // What is in the batch must leave, or no credit ever comes back.
        if (writer_must_wake(Urgency::writer)) m_writer_wake.notify_one();
        wait_for_change();
    }
    if (m_closed) return m_error;
    size_t body_bytes = cost - payload_bytes;
    if (!m_batch.empty() && (m_batch.body_bytes() + body_bytes > m_options.batch_body_bytes ||
                             m_batch.payload_bytes() + payload_bytes > m_options.batch_payload_bytes))
        close_batch();
    if (m_batch.empty()) m_batch.begin(m_next_call);
    return {};
}

uint64_t Outbox::call_added(size_t cost) {
    m_credit.spend(cost, 1);
    ++m_counters.calls;
    return m_next_call++;
}

bool Outbox::writer_must_wake(Urgency urgency) {
    if (urgency == Urgency::caller || !m_writer_sleeps) return false;
    m_writer_sleeps = false;
    return true;
}

void Outbox::begin_stream() {
    close_batch();
    m_streaming = true;
}

Result<void> Outbox::stream_payload(uint64_t call, BytesView payload) {
    size_t part_bytes = m_options.chunk_bytes;
    {
        MutexLock lock(m_mutex);
        part_bytes = std::min<size_t>(part_bytes, std::max<uint64_t>(m_credit.limits().bytes / 4, 1));
    }
    uint64_t ticket = 0;
    Result<void> result;
    for (size_t offset = 0; offset < payload.size() && result.ok(); offset += part_bytes) {
        BytesView part = payload.subspan(offset, std::min(part_bytes, payload.size() - offset));
        auto queued = queue_bulk(call, offset, payload.size(), part, true);
        if (queued.ok())
            ticket = *queued;
        else
            result = queued.error();
    }
    // Whatever happened, the caller's memory must not be in the queue any more.
    if (ticket != 0) {
        auto sent = wait_sent(ticket);
        if (result.ok()) result = sent;
    }
    // A payload that stops in the middle cannot be mended: the connection ends.
    if (!result.ok()) close(result.error(), true);
    MutexLock lock(m_mutex);
    m_streaming = false;
    tell_change();
    return result;
}

// --- other frames ---

void Outbox::wait_for_change() {
    ++m_waiters;
    m_changed.wait(m_mutex);
    --m_waiters;
}

void Outbox::tell_change() {
    if (m_waiters > 0) m_changed.notify_all();
}

Result<void> Outbox::wait_for_room() {
    while (!m_closed && m_queued_bytes > m_options.max_queued_bytes) {
        if (writer_must_wake(Urgency::writer)) m_writer_wake.notify_one();
        wait_for_change();
    }
    if (m_closed) return m_error;
    return {};
}

void Outbox::close_batch() {
    if (m_batch.empty()) return;
    OutFrame frame = free_frame();
    m_batch.finish(frame.body, frame.payload);
    ++m_counters.batches;
    push(FrameKind::batch, std::move(frame));
}

uint64_t Outbox::push(FrameKind kind, OutFrame frame) {
    frame.header = FrameHeader{};
    frame.header.kind = kind;
    frame.header.body_bytes = static_cast<uint32_t>(frame.body.size());
    frame.header.payload_bytes = static_cast<uint32_t>(frame.payload_view().size());
    frame.header.payload_raw_bytes = frame.header.payload_bytes;
    frame.ticket = m_next_ticket++;
    m_queued_bytes += frame.wire_bytes();
    m_queue.push_back(std::move(frame));
    return m_next_ticket - 1;
}

Result<void> Outbox::add_frame(FrameKind kind, OutFrame frame, BytesView payload, Urgency urgency) {
    if (frame.body.size() > m_options.frame_limits.max_body_bytes || payload.size() > m_options.frame_limits.max_payload_bytes)
        return Error{Code::quota, "a message is larger than a frame may be"};
    if (!frame.payload.append(payload)) return k_no_frame_memory;
    MutexLock lock(m_mutex);
    if (is_sequenced(kind)) WL_TRY(wait_for_room());
    if (m_closed) return m_error;
    close_batch();
    push(kind, std::move(frame));
    bool wake = writer_must_wake(urgency);
    lock.unlock();
    if (wake) m_writer_wake.notify_one();
    return {};
}

Result<void> Outbox::add_body(FrameKind kind, Buffer body, BytesView payload, Urgency urgency) {
    OutFrame frame = take_free();
    frame.body = std::move(body);
    return add_frame(kind, std::move(frame), payload, urgency);
}

Result<void> Outbox::add_pong(uint64_t echo_us) {
    {
        MutexLock lock(m_mutex);
        if (echo_us != 0) m_pong_echo_us = echo_us;
        if (m_pong_queued) return m_closed ? Result<void>(m_error) : Result<void>();
        m_pong_queued = true;
        m_pong_echo_us = echo_us;
    }
    Buffer body;
    if (!body.append(as_bytes(&echo_us, sizeof echo_us))) return k_no_frame_memory;
    return add_body(FrameKind::pong, std::move(body));
}

Result<uint64_t> Outbox::queue_bulk(uint64_t call, uint64_t offset, uint64_t total, BytesView chunk, bool counts_credit) {
    if (chunk.empty() || chunk.size() > m_options.chunk_bytes)
        return Error{Code::bad_argument, "a part of a payload has a wrong size"};
    OutFrame frame = take_free();
    WL_TRY(build_body(frame.body, 1 + capnp::_::structSize<wire::Bulk>().total(), [&](capnp::MessageBuilder& message) {
        auto bulk = message.initRoot<wire::Bulk>();
        bulk.setCall(call);
        bulk.setOffset(offset);
        bulk.setTotal(total);
    }));
    frame.external_payload = chunk;
    MutexLock lock(m_mutex);
    WL_TRY(wait_for_room());
    while (counts_credit && !m_closed && !m_credit.can_spend(chunk.size(), 0)) {
        ++m_counters.credit_waits;
        wait_for_change();
    }
    if (m_closed) return m_error;
    if (counts_credit) m_credit.spend(chunk.size(), 0);
    close_batch();
    uint64_t ticket = push(FrameKind::bulk, std::move(frame));
    bool wake = writer_must_wake(Urgency::writer);
    lock.unlock();
    if (wake) m_writer_wake.notify_one();
    return ticket;
}

Result<uint64_t> Outbox::add_bulk(uint64_t call, uint64_t offset, uint64_t total, BytesView chunk) {
    return queue_bulk(call, offset, total, chunk, false);
}

Result<void> Outbox::wait_sent(uint64_t ticket) {
    MutexLock lock(m_mutex);
    while (m_sent_ticket < ticket && !(m_abandoned && !m_writing)) wait_for_change();
    if (m_abandoned) return m_error;
    return {};
}

Result<void> Outbox::send_payload(uint64_t call, BytesView payload) {
    uint64_t ticket = 0;
    Result<void> result;
    for (size_t offset = 0; offset < payload.size() && result.ok(); offset += m_options.chunk_bytes) {
        BytesView part = payload.subspan(offset, std::min<size_t>(m_options.chunk_bytes, payload.size() - offset));
        auto queued = add_bulk(call, offset, payload.size(), part);
        if (queued.ok())
            ticket = *queued;
        else
            result = queued.error();
    }
    if (ticket == 0) return result;
    auto sent = wait_sent(ticket);
    return result.ok() ? sent : result;
}

// --- the writer's side ---

bool Outbox::take(std::vector<BytesView>& views, uint64_t acknowledgement) {
    MutexLock lock(m_mutex);
    if (m_abandoned) return false;
    close_batch();
    if (m_queue_begin == m_queue.size()) return false;
    uint64_t now = timestamp_us();
    size_t bytes = 0;
    while (m_queue_begin < m_queue.size() && bytes < k_burst_bytes) {
        OutFrame& frame = m_queue[m_queue_begin++];
        frame.header.sequence = m_send.next_sequence(frame.header.kind);
        frame.header.acknowledgement = acknowledgement;
        frame.header.timestamp_us = now;
        if (frame.header.kind == FrameKind::pong) {
            std::memcpy(frame.body.data(), &m_pong_echo_us, sizeof m_pong_echo_us);
            m_pong_queued = false;
        }
        bytes += frame.wire_bytes();
        ++m_counters.frames;
        m_counters.payload_bytes += frame.header.payload_bytes;
        m_taken.push_back(std::move(frame));
    }
    if (m_queue_begin == m_queue.size()) {
        m_queue.clear();
        m_queue_begin = 0;
    }
    m_counters.bytes += bytes;
    ++m_counters.bursts;
    m_writing = true;
    lock.unlock();

    for (OutFrame& frame : m_taken) {
        encode_frame_header(frame.header, frame.wire_header);
        views.emplace_back(frame.wire_header, k_frame_header_bytes);
        if (!frame.body.empty()) views.push_back(frame.body.view());
        if (!frame.payload_view().empty()) views.push_back(frame.payload_view());
    }
    return true;
}

void Outbox::sent() {
    MutexLock lock(m_mutex);
    for (OutFrame& frame : m_taken) {
        m_sent_ticket = std::max(m_sent_ticket, frame.ticket);
        m_queued_bytes -= frame.wire_bytes();
        auto back = m_send.retain(std::move(frame));
        if (back) recycle(std::move(*back));
    }
    m_taken.clear();
    m_writing = false;
    tell_change();
}

bool Outbox::wait() {
    MutexLock lock(m_mutex);
    for (;;) {
        if (m_abandoned) return false;
        if (has_output() || m_poked) {
            m_poked = false;
            return true;
        }
        if (m_closed) return false;
        m_writer_sleeps = true;
        m_writer_wake.wait(m_mutex);
        m_writer_sleeps = false;
    }
}

void Outbox::poke() {
    MutexLock lock(m_mutex);
    m_poked = true;
    bool wake = writer_must_wake(Urgency::writer);
    lock.unlock();
    if (wake) m_writer_wake.notify_one();
}

bool Outbox::small_enough_to_flush() const {
    MutexLock lock(m_mutex);
    return m_queued_bytes + m_batch.body_bytes() + m_batch.payload_bytes() <= m_options.flush_limit_bytes;
}

// --- acknowledgement, end ---

Result<void> Outbox::acknowledge(uint64_t sequence) {
    MutexLock lock(m_mutex);
    return m_send.acknowledge(sequence);
}

void Outbox::close(Error error, bool abandon) {
    MutexLock lock(m_mutex);
    if (!m_closed) m_error = error;
    m_closed = true;
    if (abandon && !m_abandoned) {
        m_abandoned = true;
        m_queue.clear();
        m_queue_begin = 0;
    }
    m_writer_sleeps = false;
    m_writer_wake.notify_all();
    tell_change();
}

bool Outbox::closed() const {
    MutexLock lock(m_mutex);
    return m_closed;
}

uint64_t Outbox::last_call() const {
    MutexLock lock(m_mutex);
    return m_next_call - 1;
}

bool Outbox::has_waiters() const {
    MutexLock lock(m_mutex);
    return m_waiters > 0;
}

size_t Outbox::queued_bytes() const {
    MutexLock lock(m_mutex);
    return m_queued_bytes;
}

Outbox::Counters Outbox::counters() const {
    MutexLock lock(m_mutex);
    return m_counters;
}

OutFrame Outbox::take_free() {
    MutexLock lock(m_mutex);
    return free_frame();
}

OutFrame Outbox::free_frame() {
    if (m_free.empty()) return OutFrame{};
    OutFrame frame = std::move(m_free.back());
    m_free.pop_back();
    return frame;
}

void Outbox::recycle(OutFrame frame) {
    if (m_free.size() >= k_free_frames || frame.body.capacity() > k_free_buffer_bytes ||
        frame.payload.capacity() > k_free_buffer_bytes)
        return;
    frame.body.clear();
    frame.payload.clear();
    frame.external_payload = {};
    m_free.push_back(std::move(frame));
}

}  // namespace warpline::protocol
