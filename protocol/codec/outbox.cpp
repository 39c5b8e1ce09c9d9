// Queueing what is to be sent: credit, batches, order.
#include "protocol/codec/outbox.h"

#include <algorithm>
#include <cstring>

namespace warpline::protocol {

namespace {

// One burst: enough for large TLS records, small enough that those who wait for the end of a part do not wait long.
constexpr size_t k_burst_bytes = 2u << 20;
// Frames that are kept for the next ones, with their buffers: about as many as wait for an acknowledgement at a time.
constexpr size_t k_free_frames = 128;
constexpr size_t k_free_bytes = 16u << 20;

}  // namespace

Outbox::Outbox(OutboxOptions options)
    : m_options(options), m_items(options.retain_limit_bytes), m_window_bytes(options.window_bytes) {}
Outbox::~Outbox() = default;

// --- calls ---

void Outbox::set_credit(CreditLimits limits) {
    MutexLock lock(m_mutex);
    m_credit.set_limits(limits);
    tell_change();
}

void Outbox::set_window(uint64_t bytes) {
    MutexLock lock(m_mutex);
    const bool wider = bytes > std::exchange(m_window_bytes, bytes);
    if (!wider) return;
    tell_change();
    const bool wake = part_is_ready() && writer_must_wake(Urgency::writer);
    lock.unlock();
    if (wake) m_writer_wake.notify_one();
}

Result<void> Outbox::progress(uint64_t calls, uint64_t bytes) {
    MutexLock lock(m_mutex);
    WL_TRY(m_credit.progress(calls, bytes));
    tell_change();
    const bool wake = part_is_ready() && writer_must_wake(Urgency::writer);
    lock.unlock();
    if (wake) m_writer_wake.notify_one();
    return {};
}

Result<void> Outbox::wait_for_turn(uint64_t cost, size_t payload_bytes) {
    if (payload_bytes > m_options.chunk_bytes) return Error{Code::bad_argument, "a payload this long must be streamed"};
    if (cost > m_credit.largest_item_bytes()) return Error{Code::quota, "a call is larger than the server grants"};
    // Calls behind a long payload may wait for it on the other side, holding their credit: half of it is the payload's.
    const auto reserved = [&]() WL_REQUIRES(m_mutex) { return m_transfers.empty() ? 0 : m_credit.limits().bytes / 2; };
    while (!m_closed && !m_credit.can_spend(cost, 1, reserved())) {
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

// --- long payloads ---

std::shared_ptr<Transfer> Outbox::add_transfer(const Transfer& transfer, Lent lent) {
    auto added = std::make_shared<Transfer>(transfer);
    m_transfers.push_back(added);
    if (lent == Lent::until_given_back) m_lent.push_back(added);
    m_writer_sleeps = false;  // the caller wakes it
    return added;
}

size_t Outbox::next_part_bytes() const {
    const Transfer& transfer = *m_transfers.front();
    uint64_t bytes =
        std::min<uint64_t>({m_options.chunk_bytes, m_options.part_bytes, transfer.payload.size() - transfer.cut_bytes});
    if (transfer.counts_credit) bytes = std::min(bytes, std::max<uint64_t>(m_credit.limits().bytes / 4, 1));
    return bytes;
}

/// True if a part of this size may leave now: one always may, when nothing is under way.
bool Outbox::in_window(uint64_t bytes) const {
    const uint64_t under_way = m_items.unacknowledged_bytes() + m_items.unsent_bytes();
    return under_way == 0 || under_way + bytes <= m_window_bytes;
}

/// True if cut_part() would have the next item: nothing else waits, and it may leave.
bool Outbox::part_is_ready() const {
    if (m_transfers.empty() || !m_items.attached() || !m_items.drained() || !m_items.has_room()) return false;
    if (!in_window(next_part_bytes())) return false;
    return !m_transfers.front()->counts_credit || m_credit.can_spend(next_part_bytes(), 0);
}

/// Makes the next part of the oldest transfer an item.
bool Outbox::cut_part() {
    if (!part_is_ready()) return false;
    Transfer& transfer = *m_transfers.front();
    const BytesView part = transfer.payload.subspan(transfer.cut_bytes, next_part_bytes());
    auto frame = make_part(free_frame(), transfer.call, transfer.cut_bytes, transfer.payload.size(), part);
    if (!frame.ok()) {
        // A payload that stops in the middle cannot be mended: the connection ends.
        close_locked(frame.error(), true);
        return false;
    }
    if (transfer.counts_credit) m_credit.spend(part.size(), 0);
    transfer.cut_bytes += part.size();
    const uint64_t number = push(FrameKind::bulk, std::move(*frame));
    if (transfer.cut_bytes < transfer.payload.size()) return true;
    transfer.last_number = number;
    m_transfers.pop_front();
    tell_change();
    return true;
}

Result<void> Outbox::wait_transferred(const Transfer& transfer) {
    MutexLock lock(m_mutex);
    return wait_until_sent(transfer, transfer.payload);
}

/// Whatever happens, nothing lies in that memory any more when it returns.
Result<void> Outbox::wait_until_sent(const Transfer& transfer, BytesView memory) {
    const auto is_sent = [&]() WL_REQUIRES(m_mutex) {
        return transfer.last_number != 0 && m_sent_ticket >= transfer.last_number;
    };
    while (m_abandoned ? m_writing : !is_sent()) wait_for_change();
    if (m_abandoned) return m_error;
    return copy_unacknowledged(transfer.last_number, memory);
}

void Outbox::give_back(BytesView memory) {
    const auto lies_there = [&](const std::shared_ptr<Transfer>& transfer) {
        return transfer->payload.data() < memory.data() + memory.size() &&
               memory.data() < transfer->payload.data() + transfer->payload.size();
    };
    MutexLock lock(m_mutex);
    for (;;) {
        const auto found = std::find_if(m_lent.begin(), m_lent.end(), lies_there);
        if (found == m_lent.end()) return;
        const std::shared_ptr<Transfer> transfer = *found;
        static_cast<void>(wait_until_sent(*transfer, memory));
        std::erase(m_lent, transfer);
    }
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
    while (!m_closed && queued() > m_options.max_queued_bytes) {
        if (writer_must_wake(Urgency::writer)) m_writer_wake.notify_one();
        wait_for_change();
    }
    if (m_closed) return m_error;
    return {};
}

Result<void> Outbox::wait_for_window(uint64_t bytes) {
    while (!m_closed && !in_window(bytes)) {
        if (writer_must_wake(Urgency::writer)) m_writer_wake.notify_one();
        wait_for_change();
    }
    if (m_closed) return m_error;
    return {};
}

void Outbox::close_batch() {
    if (m_batch.empty()) return;
    FramePtr frame = free_frame();
    m_batch.finish(frame->body, frame->payload);
    ++m_counters.batches;
    push(FrameKind::batch, std::move(frame));
}

uint64_t Outbox::push(FrameKind kind, FramePtr frame) {
    frame->header = FrameHeader{};
    frame->header.kind = kind;
    frame->header.body_bytes = static_cast<uint32_t>(frame->body.size());
    frame->header.payload_bytes = static_cast<uint32_t>(frame->payload_view().size());
    frame->header.payload_raw_bytes = frame->header.payload_bytes;
    const size_t bytes = frame->wire_bytes();
    if (is_sequenced(kind)) return m_items.push(std::move(frame), bytes);
    if (kind == FrameKind::close) {
        if (!m_last) m_last = std::move(frame);
        return 0;
    }
    m_first_bytes += bytes;
    m_first.push_back(std::move(frame));
    return 0;
}

Result<void> Outbox::add_frame(FrameKind kind, FramePtr frame, BytesView payload, Urgency urgency) {
    if (frame->body.size() > m_options.frame_limits.max_body_bytes || payload.size() > m_options.frame_limits.max_payload_bytes)
        return Error{Code::quota, "a message is larger than a frame may be"};
    if (!frame->payload.append(payload)) return k_no_frame_memory;
    MutexLock lock(m_mutex);
    if (is_sequenced(kind)) WL_TRY(wait_for_room());
    if (m_closed) return m_error;
    if (is_sequenced(kind)) close_batch();
    push(kind, std::move(frame));
    bool wake = writer_must_wake(urgency);
    lock.unlock();
    if (wake) m_writer_wake.notify_one();
    return {};
}

Result<void> Outbox::add_body(FrameKind kind, Buffer body, BytesView payload, Urgency urgency) {
    FramePtr frame = take_free();
    frame->body = std::move(body);
    return add_frame(kind, std::move(frame), payload, urgency);
}

void Outbox::add_pong(uint64_t echo_us) {
    MutexLock lock(m_mutex);
    if (!m_pong_due || echo_us != 0) m_pong_due = echo_us;
    bool wake = writer_must_wake(Urgency::writer);
    lock.unlock();
    if (wake) m_writer_wake.notify_one();
}

void Outbox::add_ping() {
    MutexLock lock(m_mutex);
    m_ping_due = true;
    bool wake = writer_must_wake(Urgency::writer);
    lock.unlock();
    if (wake) m_writer_wake.notify_one();
}

Result<Outbox::FramePtr> Outbox::make_part(FramePtr frame, uint64_t call, uint64_t offset, uint64_t total, BytesView part) {
    WL_TRY(build_body(frame->body, 1 + capnp::_::structSize<wire::Bulk>().total(), [&](capnp::MessageBuilder& message) {
        auto bulk = message.initRoot<wire::Bulk>();
        bulk.setCall(call);
        bulk.setOffset(offset);
        bulk.setTotal(total);
    }));
    frame->external_payload = part;
    return frame;
}

Result<uint64_t> Outbox::add_bulk(uint64_t call, uint64_t offset, uint64_t total, BytesView chunk) {
    if (chunk.empty() || chunk.size() > m_options.chunk_bytes)
        return Error{Code::bad_argument, "a part of a payload has a wrong size"};
    FramePtr frame = WL_TRY(make_part(take_free(), call, offset, total, chunk));
    MutexLock lock(m_mutex);
    WL_TRY(wait_for_window(chunk.size()));
    close_batch();
    uint64_t ticket = push(FrameKind::bulk, std::move(frame));
    bool wake = writer_must_wake(Urgency::writer);
    lock.unlock();
    if (wake) m_writer_wake.notify_one();
    return ticket;
}

bool Outbox::in_hand(uint64_t number) const { return m_writing && number >= m_in_hand_first && number <= m_in_hand_last; }

Result<void> Outbox::wait_sent(uint64_t ticket, BytesView memory) {
    MutexLock lock(m_mutex);
    while ((m_sent_ticket < ticket && !m_abandoned) || (m_abandoned && m_writing)) wait_for_change();
    if (m_abandoned) return m_error;
    return copy_unacknowledged(ticket, memory);
}

/// One frame each time that the lock is taken: others' calls go in between.
Result<void> Outbox::copy_unacknowledged(uint64_t last, BytesView memory) {
    for (uint64_t number = m_items.acknowledged() + 1; number <= last;
         number = std::max(number + 1, m_items.acknowledged() + 1)) {
        // Another connection may be sending it again.
        while (in_hand(number)) wait_for_change();
        if (m_abandoned) return m_error;
        FramePtr* frame = m_items.find(number);
        if (frame == nullptr) continue;
        const BytesView payload = (*frame)->external_payload;
        if (payload.data() < memory.data() || payload.data() >= memory.data() + memory.size()) continue;
        if (!(*frame)->payload.append(payload)) {
            // Sent again, it would be read where something else may be by then.
            close_locked(k_no_frame_memory, true);
            return k_no_frame_memory;
        }
        (*frame)->external_payload = {};
        m_mutex.unlock();
        m_mutex.lock();
    }
    return {};
}

Result<void> Outbox::send_payload(uint64_t call, BytesView payload) {
    if (payload.empty()) return {};
    std::shared_ptr<Transfer> transfer;
    {
        MutexLock lock(m_mutex);
        if (m_closed) return m_error;
        close_batch();
        transfer = add_transfer({call, payload}, Lent::until_return);
    }
    m_writer_wake.notify_one();
    return wait_transferred(*transfer);
}

// --- the writer's side ---

bool Outbox::has_output() const {
    if (!m_items.attached()) return false;
    if (!m_first.empty() || m_ping_due || m_pong_due || m_items.can_take()) return true;
    if (!m_items.drained()) return false;
    if (!m_batch.empty()) return m_items.has_room();
    return m_transfers.empty() ? m_last != nullptr : part_is_ready();
}

void Outbox::take_frame(OutFrame& frame, uint64_t acknowledgement, uint64_t now) {
    frame.header.acknowledgement = acknowledgement;
    frame.header.timestamp_us = now;
    ++m_counters.frames;
    m_counters.bytes += frame.wire_bytes();
    m_counters.payload_bytes += frame.header.payload_bytes;
    m_taken.push_back(&frame);
}

void Outbox::take_first() {
    for (FramePtr& frame : m_first) m_taken_once.push_back(std::move(frame));
    m_first.clear();
    m_first_bytes = 0;
}

void Outbox::take_heartbeat() {
    const auto add = [this](FrameKind kind, BytesView body) WL_REQUIRES(m_mutex) {
        FramePtr frame = free_frame();
        if (!frame->body.append(body)) return;
        frame->header = FrameHeader{};
        frame->header.kind = kind;
        frame->header.body_bytes = static_cast<uint32_t>(body.size());
        m_taken_once.push_back(std::move(frame));
    };
    if (std::exchange(m_ping_due, false)) add(FrameKind::ping, {});
    if (m_pong_due) add(FrameKind::pong, as_bytes(&*m_pong_due, sizeof *m_pong_due));
    m_pong_due.reset();
}

bool Outbox::take(std::vector<BytesView>& views, uint64_t acknowledgement) {
    MutexLock lock(m_mutex);
    if (m_abandoned || !has_output()) return false;
    const uint64_t now = timestamp_us();
    const uint64_t bytes_before = m_counters.bytes;
    take_first();
    take_heartbeat();
    for (FramePtr& frame : m_taken_once) take_frame(*frame, acknowledgement, now);
    m_in_hand_first = m_in_hand_last = 0;
    for (bool cut = false; m_counters.bytes - bytes_before < k_burst_bytes;) {
        if (m_items.drained() && m_items.has_room()) close_batch();
        if (!m_items.can_take()) {
            // What is called meanwhile waits for one part at most.
            if (cut || !cut_part()) break;
            cut = true;
            continue;
        }
        const auto next = m_items.take();
        OutFrame& frame = **next.item;
        frame.header.sequence = next.number;
        if (m_in_hand_first == 0) m_in_hand_first = next.number;
        m_in_hand_last = next.number;
        take_frame(frame, acknowledgement, now);
    }
    if (m_last && m_items.drained() && m_batch.empty() && m_transfers.empty()) {
        m_taken_once.push_back(std::move(m_last));
        take_frame(*m_taken_once.back(), acknowledgement, now);
    }
    if (m_taken.empty()) return false;
    ++m_counters.bursts;
    m_writing = true;
    lock.unlock();

    for (OutFrame* frame : m_taken) {
        encode_frame_header(frame->header, frame->wire_header);
        views.emplace_back(frame->wire_header, k_frame_header_bytes);
        if (!frame->body.empty()) views.push_back(frame->body.view());
        if (!frame->payload_view().empty()) views.push_back(frame->payload_view());
    }
    return true;
}

void Outbox::sent() {
    MutexLock lock(m_mutex);
    m_sent_ticket = std::max(m_sent_ticket, m_in_hand_last);
    m_taken.clear();
    m_writing = false;
    for (FramePtr& frame : std::exchange(m_taken_once, {})) recycle(std::move(frame));
    for (FramePtr& frame : std::exchange(m_acknowledged_early, {})) recycle(std::move(frame));
    tell_change();
}

bool Outbox::wait() {
    MutexLock lock(m_mutex);
    for (;;) {
        if (m_abandoned || !m_items.attached()) return false;
        if (has_output() || m_poked) {
            m_poked = false;
            return true;
        }
        if (m_closed && m_items.drained() && m_batch.empty() && m_transfers.empty()) return false;
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
    return !part_is_ready() && queued() + m_batch.body_bytes() + m_batch.payload_bytes() <= m_options.flush_limit_bytes;
}

// --- acknowledgement, end ---

/// A frame that the peer has; the writer may still be at it, if it was sent again.
void Outbox::release(FramePtr frame) {
    if (in_hand(frame->header.sequence)) {
        m_acknowledged_early.push_back(std::move(frame));
    } else {
        recycle(std::move(frame));
    }
}

Result<void> Outbox::acknowledge(uint64_t sequence) {
    MutexLock lock(m_mutex);
    // Under the lock: the analysis does not follow the call.
    WL_TRY(m_items.acknowledge(sequence, [this](FramePtr frame) WL_NO_THREAD_SAFETY_ANALYSIS { release(std::move(frame)); }));
    std::erase_if(m_lent, [&](const auto& lent) WL_NO_THREAD_SAFETY_ANALYSIS {
        return lent->last_number != 0 && lent->last_number <= m_items.acknowledged();
    });
    // Acknowledgements may be what sending waits for.
    tell_change();
    const bool wake = has_output() && writer_must_wake(Urgency::writer);
    lock.unlock();
    if (wake) m_writer_wake.notify_one();
    return {};
}

void Outbox::detach() {
    MutexLock lock(m_mutex);
    m_items.detach();
    m_ping_due = false;
    m_pong_due.reset();
    m_first.clear();
    m_first_bytes = 0;
    m_writer_sleeps = false;
    m_writer_wake.notify_all();
}

Result<void> Outbox::attach(uint64_t received) {
    MutexLock lock(m_mutex);
    WL_TRY(m_items.attach(received, [this](FramePtr frame) WL_NO_THREAD_SAFETY_ANALYSIS { release(std::move(frame)); }));
    tell_change();
    return {};
}

void Outbox::close(Error error, bool abandon) {
    MutexLock lock(m_mutex);
    close_locked(error, abandon);
}

void Outbox::close_locked(const Error& error, bool abandon) {
    if (!m_closed) m_error = error;
    m_closed = true;
    if (abandon) {
        m_abandoned = true;
        m_transfers.clear();
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
    return queued();
}

size_t Outbox::retained_bytes() const {
    MutexLock lock(m_mutex);
    return m_items.unacknowledged_bytes();
}

Outbox::Counters Outbox::counters() const {
    MutexLock lock(m_mutex);
    Counters counters = m_counters;
    counters.frames_again = m_items.sent_again();
    return counters;
}

Outbox::FramePtr Outbox::take_free() {
    MutexLock lock(m_mutex);
    return free_frame();
}

Outbox::FramePtr Outbox::free_frame() {
    if (m_free.empty()) return std::make_unique<OutFrame>();
    FramePtr frame = std::move(m_free.back());
    m_free.pop_back();
    m_free_bytes -= frame->body.capacity() + frame->payload.capacity();
    return frame;
}

void Outbox::recycle(FramePtr frame) {
    const size_t bytes = frame->body.capacity() + frame->payload.capacity();
    if (m_free.size() >= k_free_frames || m_free_bytes + bytes > k_free_bytes) return;
    m_free_bytes += bytes;
    frame->body.clear();
    frame->payload.clear();
    frame->external_payload = {};
    m_free.push_back(std::move(frame));
}

}  // namespace warpline::protocol
