// Long payloads: cut into parts for the lanes, or queued in parts, and whose memory they lie in.
#include <algorithm>

#include "protocol/codec/outbox.h"

namespace warpline::protocol {

namespace {

/// The server reports what it has executed after four parts: so many in flight are more than what it has not told yet.
constexpr uint64_t k_kept_by_calls_parts = 16;

}  // namespace

// --- payloads that are cut here ---

Result<uint64_t> Outbox::add_streamed_call(const CallHeader& header, unsigned max_words, FillArgs fill, NoteNumber on_number,
                                           BytesView payload, Lent lent) {
    std::shared_ptr<Transfer> transfer;
    Writers writers;
    CallImage image;
    WL_TRY(image.build(header, max_words, payload.size(), fill));
    {
        MutexLock lock(m_mutex);
        // Parts that leave before what must be executed before them would take its credit.
        WL_TRY(wait_for_turn(image.message().size(), 0, true));
        size_t cost = WL_TRY(m_batch.append_streamed(header, image, payload.size()));
        const uint64_t number = call_added(cost);
        on_number(number);
        close_batch();
        transfer = add_transfer({.call = number, .payload = payload, .counts_credit = true, .any_lane = true}, lent);
        writers = writers_with_output();
    }
    wake(writers);
    if (lent == Lent::until_return) WL_TRY(wait_transferred(*transfer));
    return transfer->call;
}

Result<void> Outbox::send_payload(uint64_t call, BytesView payload) {
    if (payload.empty()) return {};
    std::shared_ptr<Transfer> transfer;
    Writers writers;
    {
        MutexLock lock(m_mutex);
        if (m_closed) return m_error;
        close_batch();
        transfer = add_transfer({.call = call, .payload = payload}, Lent::until_return);
        writers = writers_with_output();
    }
    wake(writers);
    return wait_transferred(*transfer);
}

std::shared_ptr<Transfer> Outbox::add_transfer(const Transfer& transfer, Lent lent) {
    auto added = std::make_shared<Transfer>(transfer);
    if (added->counts_credit && makes_offers()) choose_offers(*added);
    m_transfers.push_back(added);
    if (lent == Lent::until_given_back) m_lent.push_back(added);
    std::erase_if(m_wanted, [](const auto& wanted) { return wanted.expired(); });
    m_wanted.push_back(added);
    tell_hashes();
    return added;
}

/// The part that this lane cuts next: of the oldest payload that has one for it. The command lane is spared while there are
/// others. Credit is spent in the order of the payloads' bytes, also for what is only offered: the server takes them in that
/// order, and what waits for what lies before it must not have the credit for that.
Outbox::Cut Outbox::next_cut(uint16_t lane) const {
    const bool takes_any = lane != k_command_lane || m_bulk_lanes_up == 0;
    const bool takes_ordered = lane == k_command_lane;
    for (const auto& transfer : m_transfers) {
        if (!(transfer->any_lane ? takes_any : takes_ordered)) continue;
        const auto until = [&](uint64_t offset, uint64_t end) WL_NO_THREAD_SAFETY_ANALYSIS {
            // No part has bytes of two chunks.
            if (transfer->counts_credit && makes_offers()) end = std::min(end, offset - offset % m_chunk_bytes + m_chunk_bytes);
            return static_cast<size_t>(std::min<uint64_t>(part_bytes_of(lane), end - offset));
        };
        if (!transfer->owed.empty()) {
            const auto [begin, end] = transfer->owed.front();
            return {transfer.get(), begin, until(begin, end), false};
        }
        if (transfer->cut_bytes == transfer->payload.size()) continue;
        if (transfer->hash_leads) return {};
        if (transfer->hashes_first && transfer->cut_bytes >= transfer->plain_bytes) return {};
        size_t bytes = until(transfer->cut_bytes, transfer->payload.size());
        if (transfer->counts_credit) bytes = std::min(bytes, most_part_bytes());
        return {transfer.get(), transfer->cut_bytes, bytes, transfer->counts_credit};
    }
    return {};
}

/// A quarter of the credit; where chunks are offered, whole pieces of them.
size_t Outbox::most_part_bytes() const {
    const uint64_t quarter = std::max<uint64_t>(m_credit.limits().bytes / 4, 1);
    return makes_offers() ? quarter & ~(k_least_credit_part_bytes - 1) : quarter;
}

/// True if there is no room in shared memory, and will be when the server has executed what it has. What it has executed and
/// still keeps there waits in streams, for anything: then the next part travels as bytes.
bool Outbox::room_will_come(uint16_t lane) const {
    const SharedOut* const shared = m_encoding.shared();
    if (shared == nullptr || lane != k_command_lane || shared->has_room()) return false;
    return m_credit.bytes_in_flight() >= k_kept_by_calls_parts * shared->part_bytes();
}

/// True if cut_part() would have the next item: nothing else waits on this lane, and it may leave.
bool Outbox::part_is_ready(uint16_t lane) const {
    const OutLane& out = m_lanes[lane];
    if (m_transfers.empty() || !out.items.attached() || !out.items.drained() || !out.items.has_room()) return false;
    const Cut cut = next_cut(lane);
    if (cut.transfer == nullptr || !out.in_window(cut.bytes) || !leaves_before_answer(out, cut.bytes)) return false;
    return !cut.spends || (m_credit.can_spend(cut.bytes, 0) && !room_will_come(lane));
}

/// Makes the next part an item of this lane.
bool Outbox::cut_part(uint16_t lane) {
    if (!part_is_ready(lane)) return false;
    const Cut cut = next_cut(lane);
    Transfer& transfer = *cut.transfer;
    const BytesView part = transfer.payload.subspan(cut.offset, cut.bytes);
    const bool keep = transfer.counts_credit && makes_offers() && OfferPolicy::keeps(slowness());
    auto frame = make_part(free_frame(), {transfer.call, cut.offset, transfer.payload.size(), keep}, part);
    if (!frame.ok()) {
        // A payload that stops in the middle cannot be mended: the session ends.
        close_locked(frame.error(), true);
        return false;
    }
    if (cut.spends) m_credit.spend(part.size(), 0);
    if (transfer.owed.empty()) {
        transfer.cut_bytes += part.size();
        offer_rest_of(transfer);
    } else if ((transfer.owed.front().first += part.size()) == transfer.owed.front().second) {
        transfer.owed.pop_front();
    }
    transfer.last_numbers[lane] = push(FrameKind::bulk, std::move(*frame), lane);
    if (transfer.is_cut()) all_is_cut(transfer);
    tell_hashes();
    return true;
}

void Outbox::all_is_cut(const Transfer& transfer) {
    std::erase_if(m_transfers, [&](const auto& waiting) { return waiting.get() == &transfer; });
    m_waiting.tell();
    // Calls may have all of the credit again.
    if (batch_may_leave() && writer_must_wake(Urgency::writer)) m_writer_wake[k_command_lane].notify_one();
}

bool Outbox::is_sent(const Transfer& transfer) const {
    for (uint16_t lane = 0; lane < k_max_lanes; ++lane)
        if (m_lanes[lane].sent_number < transfer.last_numbers[lane]) return false;
    return transfer.is_cut() && !transfer.being_hashed;
}

bool Outbox::is_acknowledged(const Transfer& transfer) const {
    for (uint16_t lane = 0; lane < k_max_lanes; ++lane)
        if (m_lanes[lane].items.acknowledged() < transfer.last_numbers[lane]) return false;
    return transfer.is_cut() && !transfer.being_hashed;
}

bool Outbox::somebody_writes() const {
    return std::any_of(m_lanes.begin(), m_lanes.end(), [](const OutLane& lane) { return lane.writing; });
}

Result<void> Outbox::wait_transferred(const Transfer& transfer) {
    const BlockedNote note(m_options.observer, BlockedBy::payload);
    MutexLock lock(m_mutex);
    return wait_until_sent(transfer, transfer.payload);
}

/// Whatever happens, nothing lies in that memory any more when it returns.
Result<void> Outbox::wait_until_sent(const Transfer& transfer, BytesView memory) {
    m_waiting.wait(m_mutex, [&]() WL_NO_THREAD_SAFETY_ANALYSIS {
        return m_abandoned ? !somebody_writes() && !transfer.being_hashed : is_sent(transfer);
    });
    // Parts may move to a lane that has been looked through.
    for (unsigned looked_at = m_lanes_given_up + 1; looked_at != m_lanes_given_up;) {
        looked_at = m_lanes_given_up;
        if (m_abandoned) return m_error;
        for (uint16_t lane = 0; lane < k_max_lanes; ++lane)
            WL_TRY(copy_unacknowledged(lane, transfer.last_numbers[lane], memory));
    }
    return {};
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

// --- lanes that do not come back ---

Result<void> Outbox::give_up(uint16_t lane, uint64_t received, Buffer told) {
    MutexLock lock(m_mutex);
    if (!is_bulk_lane(lane) || m_lanes[lane].given_up) return Error{Code::malformed, "a lane that cannot be given up"};
    OutLane& out = m_lanes[lane];
    if (out.items.attached() || out.writing) return Error{Code::internal, "a lane is given up while it is in use"};
    const uint16_t heir = idlest_lane();
    const uint64_t sent = out.items.highest_sent();
    uint64_t first = 0;
    // Under the lock: the analysis does not follow the calls.
    const auto had = [&](FramePtr frame) WL_NO_THREAD_SAFETY_ANALYSIS { release(out, std::move(frame)); };
    const auto moves = [&](FramePtr frame) WL_NO_THREAD_SAFETY_ANALYSIS {
        const uint64_t number = push(FrameKind::bulk, std::move(frame), heir);
        if (first == 0) first = number;
    };
    WL_TRY(out.items.give_up(received, had, moves));
    out.given_up = true;
    out.saved_bytes = 0;
    ++m_lanes_given_up;
    m_counters.frames_again += sent - received;
    note_moved(lane, received, heir, first);
    if (!told.empty() && !m_closed) {
        FramePtr frame = free_frame();
        frame->body = std::move(told);
        close_batch();
        push(FrameKind::event, std::move(frame));
    }
    std::erase_if(m_lent, [&](const auto& lent) WL_NO_THREAD_SAFETY_ANALYSIS { return is_acknowledged(*lent); });
    m_waiting.tell();
    const Writers writers = writers_with_output();
    lock.unlock();
    wake(writers);
    return {};
}

/// The frames behind `received` have numbers of another lane now, from `first` on without a gap.
void Outbox::note_moved(uint16_t lane, uint64_t received, uint16_t heir, uint64_t first) {
    for (const auto& wanted : m_wanted) {
        const auto transfer = wanted.lock();
        if (!transfer) continue;
        const uint64_t last = std::exchange(transfer->last_numbers[lane], 0);
        if (last > received) transfer->last_numbers[heir] = std::max(transfer->last_numbers[heir], first + last - received - 1);
    }
}

// --- payloads that come in parts ---

/// The lane for a part: of the bulk lanes that have a connection the one with the least under way.
uint16_t Outbox::idlest_lane() const {
    uint16_t idlest = k_command_lane;
    for (uint16_t lane = 1; lane < k_max_lanes; ++lane) {
        if (!m_lanes[lane].items.attached()) continue;
        if (idlest == k_command_lane || m_lanes[lane].under_way_bytes() < m_lanes[idlest].under_way_bytes()) idlest = lane;
    }
    return idlest;
}

Result<uint16_t> Outbox::wait_for_window(uint64_t bytes) {
    for (;;) {
        if (m_closed) return m_error;
        const uint16_t lane = idlest_lane();
        if (m_lanes[lane].in_window(bytes)) return lane;
        if (writer_must_wake(Urgency::writer, lane)) m_writer_wake[lane].notify_one();
        ++m_window_waits;
        m_waiting.wait(m_mutex,
                       [&]() WL_NO_THREAD_SAFETY_ANALYSIS { return m_closed || m_lanes[idlest_lane()].in_window(bytes); });
        --m_window_waits;
    }
}

Result<FramePtr> Outbox::make_part(FramePtr frame, const BulkHeader& header, BytesView part) {
    WL_TRY(build_body(frame->body, 1 + capnp::_::structSize<wire::Bulk>().total(), [&](capnp::MessageBuilder& message) {
        auto bulk = message.initRoot<wire::Bulk>();
        bulk.setCall(header.call);
        bulk.setOffset(header.offset);
        bulk.setTotal(header.total);
        bulk.setKeep(header.keep);
    }));
    frame->external_payload = part;
    return frame;
}

size_t Outbox::part_bytes_of(uint16_t lane) const {
    const SharedOut* const shared = m_encoding.shared();
    const bool is_command = lane == k_command_lane;
    if (shared != nullptr && is_command) return shared->part_bytes();
    const uint32_t most = is_command ? std::min(m_options.part_bytes, m_options.chunk_bytes) : m_options.bulk_part_bytes;
    const uint32_t fit = m_lanes[lane].part_bytes;
    return fit == 0 ? most : std::min(fit, most);
}

size_t Outbox::part_bytes() const {
    MutexLock lock(m_mutex);
    return part_bytes_of(idlest_lane());
}

Result<void> Outbox::add_bulk(uint64_t call, uint64_t offset, uint64_t total, Place part, Urgency urgency) {
    const SharedOut* const shared = m_encoding.shared();
    const size_t most = std::max<size_t>(m_options.bulk_part_bytes, m_options.part_bytes);
    if (part.size() == 0 || part.size() > std::max(most, shared != nullptr ? shared->part_bytes() : 0))
        return Error{Code::bad_argument, "a part of a payload has a wrong size"};
    FramePtr frame = WL_TRY(make_part(take_free(), {call, offset, total}, part.bytes()));
    frame->lent = std::move(part);
    MutexLock lock(m_mutex);
    const uint16_t lane = WL_TRY(wait_for_window(frame->payload_view().size()));
    push(FrameKind::bulk, std::move(frame), lane);
    const bool wake = writer_must_wake(lane == k_command_lane ? urgency : Urgency::writer, lane);
    lock.unlock();
    if (wake) m_writer_wake[lane].notify_one();
    return {};
}

/// Of an outbox that is abandoned: nothing is sent again. What the writer has in hand stays until sent().
void Outbox::give_back_lent(OutLane& lane) {
    uint64_t number = lane.items.acknowledged() + 1;
    for (FramePtr* frame = nullptr; (frame = lane.items.find(number)) != nullptr; ++number)
        if (!lane.in_hand(number)) (*frame)->lent.clear();
}

/// One frame each time that the lock is taken: others' calls go in between.
Result<void> Outbox::copy_unacknowledged(uint16_t lane, uint64_t last, BytesView memory) {
    OutLane& out = m_lanes[lane];
    for (uint64_t number = out.items.acknowledged() + 1; number <= last;
         number = std::max(number + 1, out.items.acknowledged() + 1)) {
        // Another connection may be sending it again.
        m_waiting.wait(m_mutex, [&] { return !out.in_hand(number); });
        if (m_abandoned) return m_error;
        FramePtr* frame = out.items.find(number);
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

}  // namespace warpline::protocol
