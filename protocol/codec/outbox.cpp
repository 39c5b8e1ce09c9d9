// Queueing what is to be sent: credit, batches, order.
#include "protocol/codec/outbox.h"

#include <algorithm>
#include <cstring>

#include "common/base/distance.h"

namespace warpline::protocol {

namespace {

// Frames that are kept for the next ones, with their buffers: about as many as wait for an acknowledgement at a time.
constexpr size_t k_free_frames = 128;
constexpr size_t k_free_bytes = 16u << 20;

}  // namespace

Outbox::Outbox(OutboxOptions options) : m_options(options) {
    for (size_t lane = 0; lane < k_max_lanes; ++lane) {
        m_lanes.emplace_back(options.retain_limit_bytes, options.window_bytes);
        if (lane != k_command_lane) m_lanes.back().items.detach();
    }
}
Outbox::~Outbox() = default;

// --- calls ---

Result<uint64_t> Outbox::add_call(const CallHeader& header, unsigned max_words, FillArgs fill, NoteNumber on_number,
                                  BytesView payload, Urgency urgency) {
    CallImage image;
    WL_TRY(image.build(header, max_words, payload.size(), fill));
    return add_call(header, image, on_number, payload, urgency);
}

Result<uint64_t> Outbox::add_call(const CallHeader& header, const CallImage& image, NoteNumber on_number, BytesView payload,
                                  Urgency urgency) {
    MutexLock lock(m_mutex);
    WL_TRY(wait_for_turn(image.message().size() + payload.size(), payload.size(), false));
    size_t cost = WL_TRY(m_batch.append(header, image, payload));
    uint64_t number = call_added(cost);
    on_number(number);
    // A long nap is meant for a program that calls little between two waits.
    const bool naps_well = command().writer_naps && (m_nap <= m_options.nap || few_came_since_flush());
    const bool wake = !naps_well && batch_may_leave() && writer_must_wake(urgency);
    lock.unlock();
    if (wake) m_writer_wake[k_command_lane].notify_one();
    return number;
}

void Outbox::remember_calls(uint16_t most_calls) {
    MutexLock lock(m_mutex);
    m_batch.remember(most_calls);
}

void Outbox::set_credit(CreditLimits limits) {
    MutexLock lock(m_mutex);
    m_credit.set_limits(limits);
    m_waiting.tell();
}

void Outbox::set_window(uint16_t lane, uint64_t bytes, uint32_t part_bytes) {
    MutexLock lock(m_mutex);
    m_lanes[lane].part_bytes = part_bytes;
    const bool wider = bytes > std::exchange(m_lanes[lane].window_bytes, bytes);
    if (!wider) return;
    m_waiting.tell();
    const Writers writers = writers_with_output();
    lock.unlock();
    wake(writers);
}

Result<void> Outbox::slots_freed(uint64_t slots) {
    if (slots == 0) return {};
    SharedOut* const shared = m_encoding.shared();
    if (shared == nullptr) return malformed("shared memory is given back where there is none");
    WL_TRY(shared->freed(slots));
    MutexLock lock(m_mutex);
    const Writers writers = m_transfers.empty() ? 0 : writers_with_output();
    lock.unlock();
    wake(writers);
    return {};
}

Result<void> Outbox::progress(uint64_t calls, uint64_t bytes) {
    MutexLock lock(m_mutex);
    const uint64_t before = m_credit.calls_in_flight();
    WL_TRY(m_credit.progress(calls, bytes));
    if (m_credit.calls_in_flight() < before) m_runs_ahead = false;
    m_waiting.tell();
    tell_hashes();
    const Writers writers = m_transfers.empty() && m_backlog.empty() && m_batch.empty() ? 0 : writers_with_output();
    lock.unlock();
    wake(writers);
    return {};
}

/// True if the open batch must be closed before a call is added. What has no credit yet must not grow beyond what will be
/// given.
bool Outbox::batch_is_full(uint64_t cost, size_t payload_bytes) const {
    const CreditLimits& limits = m_credit.limits();
    const bool costs_much = m_batch_cost.bytes + cost > limits.bytes / 4 || m_batch_cost.calls + 1 > limits.calls / 4;
    if (m_options.backlog_bytes != 0 && costs_much) return true;
    return m_batch.expanded_bytes() + (cost - payload_bytes) > m_options.batch_body_bytes ||
           m_batch.payload_bytes() + payload_bytes > m_options.batch_payload_bytes;
}

/// See OutboxOptions::calls_ahead.
void Outbox::stay_near() {
    const auto is_near = [&]() WL_NO_THREAD_SAFETY_ANALYSIS {
        return m_closed || m_runs_ahead || calls_ahead() < m_options.calls_ahead;
    };
    if (m_options.calls_ahead == 0 || is_near() || !m_options.processors_crowded()) return;
    if (const uint64_t round_trip = round_trip_us(); round_trip == 0 || round_trip >= k_far_round_trip_us) return;
    const BlockedNote note(m_options.observer, BlockedBy::credit);
    if (writer_must_wake(Urgency::writer)) m_writer_wake[k_command_lane].notify_one();
    if (!m_waiting.wait_until(m_mutex, is_near, Clock::now() + m_options.stays_near_for)) m_runs_ahead = true;
}

/// @param at_once  with credit for all that is queued, so that nothing of it stays behind
Result<void> Outbox::wait_for_turn(uint64_t cost, size_t payload_bytes, bool at_once) {
    if (payload_bytes > m_options.chunk_bytes) return Error{Code::bad_argument, "a payload this long must be streamed"};
    if (cost > m_credit.largest_item_bytes()) return Error{Code::quota, "a call is larger than the server grants"};
    stay_near();
    const auto may_go = [&]() WL_NO_THREAD_SAFETY_ANALYSIS {
        if (m_closed) return true;
        if (!at_once && m_backlog_bytes + m_batch.body_bytes() + m_batch.payload_bytes() < m_options.backlog_bytes) return true;
        return can_spend({m_backlog_cost.bytes + m_batch_cost.bytes + cost, m_backlog_cost.calls + m_batch_cost.calls + 1});
    };
    if (!may_go()) [[unlikely]] {
        const BlockedNote note(m_options.observer, BlockedBy::credit);
        do {
            ++m_counters.credit_waits;
            // What is in the batch must leave, or no credit ever comes back.
            if (writer_must_wake(Urgency::writer)) m_writer_wake[k_command_lane].notify_one();
            m_waiting.wait(m_mutex, may_go);
        } while (!may_go());
    }
    if (m_closed) return m_error;
    if (!m_batch.empty() && batch_is_full(cost, payload_bytes)) close_batch();
    if (m_batch.empty()) m_batch.begin(m_next_call);
    return {};
}

uint64_t Outbox::call_added(size_t cost) {
    m_batch_cost.bytes += cost;
    ++m_batch_cost.calls;
    ++m_counters.calls;
    return m_next_call++;
}

bool Outbox::writer_must_wake(Urgency urgency, uint16_t lane) {
    if (urgency == Urgency::caller) return false;
    const bool naps = std::exchange(m_lanes[lane].writer_naps, false);
    return std::exchange(m_lanes[lane].writer_sleeps, false) || naps;
}

/// True if it sleeps, and has something to do: the caller wakes it, best when it has let go of the lock. A nap is only for
/// calls that nobody waits for.
bool Outbox::writer_is_wanted(uint16_t lane) {
    const OutLane& out = m_lanes[lane];
    const bool rests = out.writer_sleeps || (out.writer_naps && !may_nap(out));
    return rests && has_output(lane) && writer_must_wake(Urgency::writer, lane);
}

/// All of those.
Outbox::Writers Outbox::writers_with_output() {
    Writers writers = 0;
    for (uint16_t lane = 0; lane < k_max_lanes; ++lane)
        if (writer_is_wanted(lane)) writers |= 1u << lane;
    return writers;
}

void Outbox::wake(Writers writers) {
    for (uint16_t lane = 0; writers != 0; ++lane, writers >>= 1)
        if (writers & 1) m_writer_wake[lane].notify_one();
}

// --- other frames ---

Result<void> Outbox::wait_for_room() {
    const auto is_room = [&]() WL_NO_THREAD_SAFETY_ANALYSIS { return m_closed || queued() <= m_options.max_queued_bytes; };
    if (!is_room() && writer_must_wake(Urgency::writer)) m_writer_wake[k_command_lane].notify_one();
    m_waiting.wait(m_mutex, is_room);
    if (m_closed) return m_error;
    return {};
}

/// Makes a frame of the open batch, which is queued when there is credit for it.
void Outbox::close_batch() {
    if (!m_batch.empty()) {
        FramePtr frame = free_frame();
        m_batch.finish(frame->body, frame->payload);
        ++m_counters.batches;
        m_backlog_bytes += frame->body.size() + frame->payload.size();
        m_backlog_cost.bytes += m_batch_cost.bytes;
        m_backlog_cost.calls += m_batch_cost.calls;
        m_backlog.push_back({std::move(frame), std::exchange(m_batch_cost, Cost{})});
    }
    release_backlog();
}

void Outbox::release_backlog() {
    while (!m_backlog.empty() && can_spend(m_backlog.front().cost)) {
        Backlogged& first = m_backlog.front();
        m_credit.spend(first.cost.bytes, first.cost.calls);
        m_backlog_bytes -= first.frame->body.size() + first.frame->payload.size();
        m_backlog_cost.bytes -= first.cost.bytes;
        m_backlog_cost.calls -= first.cost.calls;
        push(FrameKind::batch, std::move(first.frame));
        m_backlog.pop_front();
        if (!m_waiting.empty()) m_waiting.tell();
    }
}

/// True if close_batch() would have something for the writer.
bool Outbox::batch_may_leave() const {
    if (!m_backlog.empty()) return can_spend(m_backlog.front().cost);
    return !m_batch.empty() && can_spend(m_batch_cost);
}

uint64_t Outbox::push(FrameKind kind, FramePtr frame, uint16_t lane) {
    frame->header = FrameHeader{};
    frame->saved_bytes = 0;
    frame->way = k_tells_nothing;
    frame->header.kind = kind;
    frame->header.body_bytes = static_cast<uint32_t>(frame->body.size());
    frame->header.payload_bytes = static_cast<uint32_t>(frame->payload_view().size());
    frame->header.payload_raw_bytes = frame->header.payload_bytes;
    const size_t bytes = frame->raw_bytes();
    if (is_sequenced(kind)) return m_lanes[lane].items.push(std::move(frame), bytes);
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
    const bool wake = writer_must_wake(urgency);
    lock.unlock();
    if (wake) m_writer_wake[k_command_lane].notify_one();
    return {};
}

Result<void> Outbox::add_body(FrameKind kind, Buffer body, BytesView payload, Urgency urgency) {
    FramePtr frame = take_free();
    frame->body = std::move(body);
    return add_frame(kind, std::move(frame), payload, urgency);
}

void Outbox::add_pong(uint16_t lane, uint64_t echo_us, Urgency urgency) {
    MutexLock lock(m_mutex);
    std::optional<uint64_t>& due = m_lanes[lane].pong_due;
    if (!due || echo_us != 0) due = echo_us;
    const bool wake = writer_must_wake(urgency, lane);
    lock.unlock();
    if (wake) m_writer_wake[lane].notify_one();
}

void Outbox::add_ping(uint16_t lane) {
    MutexLock lock(m_mutex);
    m_lanes[lane].ping_due = true;
    const bool wake = writer_must_wake(Urgency::writer, lane);
    lock.unlock();
    if (wake) m_writer_wake[lane].notify_one();
}

// --- acknowledgement, end ---

/// A frame that the peer has; the writer may still be at it, if it was sent again.
void Outbox::release(OutLane& lane, FramePtr frame) {
    if (lane.in_hand(frame->header.sequence)) {
        lane.delivery.frame(k_tells_nothing, frame->raw_bytes());
        lane.acknowledged_early.push_back(std::move(frame));
    } else {
        lane.saved_bytes -= frame->saved_bytes;
        if (frame->raw_bytes() >= k_telling_bytes) lane.delivery.frame(frame->way, frame->raw_bytes());
        recycle(std::move(frame));
    }
}

Result<void> Outbox::acknowledge(uint16_t lane, uint64_t sequence) {
    MutexLock lock(m_mutex);
    OutLane& out = m_lanes[lane];
    // Under the lock: the analysis does not follow the call.
    WL_TRY(
        out.items.acknowledge(sequence, [&](FramePtr frame) WL_NO_THREAD_SAFETY_ANALYSIS { release(out, std::move(frame)); }));
    out.delivery.acknowledged(Clock::now());
    std::erase_if(m_lent, [&](const auto& lent) WL_NO_THREAD_SAFETY_ANALYSIS { return is_acknowledged(*lent); });
    // Acknowledgements may be what sending waits for.
    m_waiting.tell();
    const bool wake = writer_is_wanted(lane);
    lock.unlock();
    if (wake) m_writer_wake[lane].notify_one();
    return {};
}

void Outbox::detach(uint16_t lane) {
    MutexLock lock(m_mutex);
    OutLane& out = m_lanes[lane];
    if (lane != k_command_lane && out.items.attached()) --m_bulk_lanes_up;
    out.items.detach();
    out.ping_due = false;
    out.pong_due.reset();
    if (lane == k_command_lane) {
        m_first.clear();
        m_first_bytes = 0;
    }
    out.writer_sleeps = false;
    m_writer_wake[lane].notify_all();
    // What it has not cut is another one's.
    m_waiting.tell();
    const Writers writers = writers_with_output();
    lock.unlock();
    wake(writers);
}

Result<void> Outbox::attach(uint16_t lane, uint64_t received) {
    MutexLock lock(m_mutex);
    OutLane& out = m_lanes[lane];
    const bool was_up = out.items.attached();
    if (out.given_up) return Error{Code::malformed, "a connection for a lane that was given up"};
    WL_TRY(out.items.attach(received, [&](FramePtr frame) WL_NO_THREAD_SAFETY_ANALYSIS { release(out, std::move(frame)); }));
    // What is sent again may be encoded in another way.
    for (uint64_t number = out.items.acknowledged() + 1; FramePtr* frame = out.items.find(number); ++number)
        (*frame)->saved_bytes = 0;
    out.saved_bytes = 0;
    out.delivery.restart();
    if (lane != k_command_lane && !was_up) ++m_bulk_lanes_up;
    m_waiting.tell();
    return {};
}

void Outbox::close(Error error, bool abandon) {
    MutexLock lock(m_mutex);
    close_locked(error, abandon);
}

void Outbox::close_locked(const Error& error, bool abandon) {
    if (!m_closed) m_error = error;
    m_closed = true;
    m_first_answer_due = false;
    // What is not hashed yet is sent as it is: nobody takes further chunks from next_to_hash().
    for (const auto& transfer : m_transfers) transfer->hashes_first = transfer->samples = transfer->hash_leads = false;
    if (abandon) {
        m_abandoned = true;
        m_transfers.clear();
        for (OutLane& lane : m_lanes) give_back_lent(lane);
    }
    for (OutLane& lane : m_lanes) lane.writer_sleeps = false;
    for (ConditionVariable& writer : m_writer_wake) writer.notify_all();
    m_waiting.tell();
    tell_hashes();
}

bool Outbox::closed() const {
    MutexLock lock(m_mutex);
    return m_closed;
}

bool Outbox::has_waiters() const {
    MutexLock lock(m_mutex);
    return !m_waiting.empty() || m_hash_waits;
}

bool Outbox::may_have_left(uint64_t call) const {
    MutexLock lock(m_mutex);
    return call + m_batch_cost.calls + m_backlog_cost.calls < m_next_call;
}

size_t Outbox::queued_bytes() const {
    MutexLock lock(m_mutex);
    return queued();
}

size_t Outbox::retained_bytes() const {
    MutexLock lock(m_mutex);
    size_t bytes = 0;
    for (const OutLane& lane : m_lanes) bytes += lane.items.unacknowledged_bytes();
    return bytes;
}

uint64_t Outbox::wire_bytes(uint16_t lane) const {
    MutexLock lock(m_mutex);
    return m_lanes[lane].wire_bytes;
}

uint64_t Outbox::delivered_bytes(uint16_t lane) const {
    MutexLock lock(m_mutex);
    const OutLane& out = m_lanes[lane];
    const uint64_t kept = out.items.unacknowledged_bytes() - out.saved_bytes;
    return out.wire_bytes - std::min(out.wire_bytes, kept);
}

Deliveries Outbox::deliveries(uint16_t lane) const {
    MutexLock lock(m_mutex);
    return m_lanes[lane].delivery.deliveries();
}

void Outbox::renew_delivery(uint16_t lane, uint8_t way) {
    MutexLock lock(m_mutex);
    m_lanes[lane].delivery.renew(way);
}

Outbox::Counters Outbox::counters() const {
    MutexLock lock(m_mutex);
    Counters counters = m_counters;
    for (const OutLane& lane : m_lanes) counters.frames_again += lane.items.sent_again();
    counters.calls_alike = m_batch.alike();
    return counters;
}

FramePtr Outbox::take_free() {
    MutexLock lock(m_mutex);
    return free_frame();
}

FramePtr Outbox::free_frame() {
    if (m_free.empty()) return std::make_unique<OutFrame>();
    FramePtr frame = std::move(m_free.back());
    m_free.pop_back();
    m_free_bytes -= frame->body.capacity() + frame->payload.capacity();
    return frame;
}

void Outbox::recycle(FramePtr frame) {
    frame->lent.clear();
    const size_t bytes = frame->body.capacity() + frame->payload.capacity();
    if (m_free.size() >= k_free_frames || m_free_bytes + bytes > k_free_bytes) return;
    m_free_bytes += bytes;
    frame->body.clear();
    frame->payload.clear();
    frame->external_payload = {};
    m_free.push_back(std::move(frame));
}

}  // namespace warpline::protocol
