// What a lane's writer takes from the outbox.
#include <algorithm>
#include <utility>

#include "common/base/run_queue.h"
#include "common/base/scope_guard.h"
#include "protocol/codec/outbox.h"

namespace warpline::protocol {

namespace {

// One burst: enough for large TLS records, small enough that those who wait for the end of a part do not wait long.
constexpr size_t k_burst_bytes = 2u << 20;
// Many calls in the time that a burst or a nap took: more are coming.
constexpr uint64_t k_many_calls = 32;

// Where all processors are busy the writer takes more from others, and everything is late. A program that waits after so many
// calls gains nothing from it: what it would begin earlier has no processor either.
constexpr int k_scarce = 8;
constexpr uint64_t k_scarcely_many_calls = 2048;

// Naps that were in vain become shorter by so much: a few later, they are the shortest.
constexpr int k_shorter = 4;

// Long naps cost little, and to be woken for what somebody else takes along costs both a change of threads.
constexpr unsigned k_long_idle_naps = 16;

// More of them wait only where somebody else is about to write.
constexpr size_t k_flushed_places = 4;

}  // namespace

/// Close goes when everything else has, on all lanes.
bool Outbox::close_is_next() const {
    return m_last != nullptr && m_batch.empty() && m_backlog.empty() && m_transfers.empty() &&
           std::all_of(m_lanes.begin(), m_lanes.end(), [](const OutLane& lane) { return lane.items.drained(); });
}

bool Outbox::has_output(uint16_t lane) const {
    const OutLane& out = m_lanes[lane];
    if (!out.items.attached()) return false;
    if (out.ping_due || out.pong_due || out.items.can_take()) return true;
    if (lane == k_command_lane && !m_first.empty()) return true;
    if (!out.items.drained()) return false;
    if (lane == k_command_lane && batch_may_leave()) return out.items.has_room();
    return part_is_ready(lane) || (lane == k_command_lane && close_is_next());
}

/// What take() gathers.
struct Outbox::Burst {
    OutLane& lane;
    std::vector<OutFrame*>& frames;
    uint64_t acknowledgement;
    uint64_t now_us = timestamp_us();
    uint64_t bytes = 0;
};

void Outbox::take_frame(Burst& burst, OutFrame& frame) {
    frame.header.acknowledgement = burst.acknowledgement;
    frame.header.timestamp_us = burst.now_us;
    encode_frame_header(frame.header, frame.wire_header);
    frame.was_awaited = burst.lane.had_nothing_to_do;
    if (frame.raw_bytes() >= k_telling_bytes) burst.lane.had_nothing_to_do = false;
    burst.frames.push_back(&frame);
    burst.bytes += frame.raw_bytes();
    ++m_counters.frames;
    m_counters.payload_bytes += frame.header.payload_bytes;
}

void Outbox::take_first(OutLane& lane) {
    for (FramePtr& frame : m_first) lane.taken_once.push_back(std::move(frame));
    m_first.clear();
    m_first_bytes = 0;
}

void Outbox::take_heartbeat(OutLane& lane) {
    const auto add = [&](FrameKind kind, BytesView body) WL_REQUIRES(m_mutex) {
        FramePtr frame = free_frame();
        if (!frame->body.append(body)) return;
        frame->header = FrameHeader{};
        frame->header.kind = kind;
        frame->header.body_bytes = static_cast<uint32_t>(body.size());
        lane.taken_once.push_back(std::move(frame));
    };
    if (std::exchange(lane.ping_due, false)) add(FrameKind::ping, {});
    if (lane.pong_due) add(FrameKind::pong, as_bytes(&*lane.pong_due, sizeof *lane.pong_due));
    lane.pong_due.reset();
}

bool Outbox::take(uint16_t lane, std::vector<BytesView>& views, uint64_t acknowledgement) {
    std::vector<OutFrame*> frames;
    if (!take(lane, frames, acknowledgement)) return false;
    for (const OutFrame* frame : frames) frame->append_views(views);
    return true;
}

bool Outbox::take(uint16_t lane, std::vector<OutFrame*>& frames, uint64_t acknowledgement) {
    MutexLock lock(m_mutex);
    if (m_abandoned || !has_output(lane)) return false;
    OutLane& out = m_lanes[lane];
    Burst burst{out, frames, acknowledgement};
    if (lane == k_command_lane) take_first(out);
    take_heartbeat(out);
    for (FramePtr& frame : out.taken_once) take_frame(burst, *frame);
    out.in_hand_first = out.in_hand_last = 0;
    for (bool cut = false; burst.bytes < k_burst_bytes;) {
        if (lane == k_command_lane && out.items.drained() && out.items.has_room()) close_batch();
        if (!out.items.can_take()) {
            // What is called meanwhile waits for one part at most.
            if (cut || !cut_part(lane)) break;
            cut = true;
            continue;
        }
        const auto next = out.items.take();
        OutFrame& frame = **next.item;
        frame.header.sequence = next.number;
        if (out.in_hand_first == 0) out.in_hand_first = next.number;
        out.in_hand_last = next.number;
        take_frame(burst, frame);
    }
    if (lane == k_command_lane && close_is_next()) {
        out.taken_once.push_back(std::move(m_last));
        take_frame(burst, *out.taken_once.back());
    }
    if (burst.bytes == 0) return false;
    ++m_counters.bursts;
    if (lane == k_command_lane) note_flush(out);
    out.in_hand_bytes = burst.bytes;
    out.writing = true;
    return true;
}

/// Of what has been handed to the socket: how many bytes that were, by what encoding has saved.
void Outbox::count_saved(OutLane& lane) {
    uint64_t saved_bytes = 0, shared_bytes = 0;
    for (uint64_t number = lane.in_hand_first; number != 0 && number <= lane.in_hand_last; ++number)
        if (FramePtr* frame = lane.items.find(number)) {
            saved_bytes += (*frame)->saved_bytes;
            shared_bytes += (*frame)->shared_bytes;
        }
    // What lies in shared memory does not travel, and is under way all the same.
    lane.saved_bytes += saved_bytes;
    for (const FramePtr& frame : lane.acknowledged_early) {
        saved_bytes += frame->saved_bytes;
        shared_bytes += frame->shared_bytes;
    }
    saved_bytes += shared_bytes;
    m_counters.bytes += lane.in_hand_bytes - saved_bytes;
    lane.wire_bytes += lane.in_hand_bytes - saved_bytes;
}

void Outbox::sent(uint16_t lane) {
    MutexLock lock(m_mutex);
    OutLane& out = m_lanes[lane];
    if (out.writing) count_saved(out);
    out.sent_number = std::max(out.sent_number, out.in_hand_last);
    out.writing = false;
    for (FramePtr& frame : std::exchange(out.taken_once, {})) recycle(std::move(frame));
    for (FramePtr& frame : std::exchange(out.acknowledged_early, {})) recycle(std::move(frame));
    if (m_abandoned) give_back_lent(out);
    m_waiting.tell();
    // Close waits on the command lane for what leaves on the others.
    const Writers writers = m_last != nullptr ? writers_with_output() : 0;
    lock.unlock();
    wake(writers);
}

/// True if nothing but calls that nobody waits for would leave now.
bool Outbox::may_nap(const OutLane& lane) const {
    if (m_options.nap.count() == 0 || m_closed || lane.poked || lane.ping_due || lane.pong_due) return false;
    if (!m_first.empty() || !m_transfers.empty() || !m_waiting.empty() || !lane.items.drained()) return false;
    return m_backlog.empty() && m_batch.expanded_bytes() < m_options.batch_body_bytes / (m_options.processors_scarce() ? 1 : 2);
}

/// Lets calls gather for a moment. Who adds one does not wake the writer meanwhile.
void Outbox::nap(OutLane& lane) {
    const uint64_t calls = calls_since_nap();
    m_idle_naps = calls == 0 ? m_idle_naps + 1 : 0;
    // A program that calls a little and waits, in turns, sends all by itself: the writer would be in its way, and on its core.
    // What is there now may be the beginning of the next turn, whose thread has no processor at the moment.
    const bool scarce = m_options.processors_scarce();
    const auto shortest = m_options.nap * (scarce ? k_scarce : 1);
    const bool slept = std::exchange(m_slept, false);
    const bool in_vain = calls < many_calls() * m_flushes || (scarce && calls == 0);
    if (in_vain && m_batch.empty()) {
        m_nap = std::min(2 * m_nap, m_options.longest_nap * (m_options.processors_crowded() ? k_scarce : 1));
    } else if (calls > 0 && !(scarce && slept)) {  // what woke it is one call, which says nothing of those that follow
        m_nap /= k_shorter;
    }
    m_nap = std::max(m_nap, shortest);
    m_napped_at = m_flushed_to = m_next_call;
    m_flushes = 0;
    lane.writer_naps = true;
    m_writer_wake[k_command_lane].wait_until(m_mutex, Clock::now() + (m_batch.empty() ? m_nap : shortest));
    lane.writer_naps = false;
}

/// Another thread takes what there is while the writer has nothing to do, or has been woken and is not there yet.
void Outbox::note_flush(const OutLane& lane) {
    if (!lane.writer_waits) return;
    ++m_flushes;
    m_flushed_to = m_next_call;
}

uint64_t Outbox::many_calls() const { return m_options.processors_scarce() ? k_scarcely_many_calls : k_many_calls; }

/// So many naps without a call are followed by sleep. Where processors are scarce, a program that pauses for as long as a long
/// nap has no turn, as a rule: who wakes for nothing meanwhile empties the caches of those who have theirs.
unsigned Outbox::idle_naps() const {
    const bool scarce = m_options.processors_scarce();
    if (scarce && m_nap > m_options.nap * k_scarce) return std::min(m_options.idle_naps, 1u);
    return scarce || m_nap <= m_options.nap ? m_options.idle_naps : k_long_idle_naps * m_options.idle_naps;
}

bool Outbox::few_came_since_flush() const { return m_next_call - m_flushed_to < many_calls(); }

bool Outbox::wait(uint16_t lane) {
    const bool is_command = lane == k_command_lane;
    // Here and not in nap(): to ask takes longer than whoever adds a call may wait for the lock.
    if (is_command && m_options.nap.count() != 0) static_cast<void>(processors_are_scarce());
    MutexLock lock(m_mutex);
    OutLane& out = m_lanes[lane];
    out.writer_waits = true;
    ScopeGuard goes([&out] { out.writer_waits = false; });  // the lock's guard is older: it is held
    if (is_command && calls_since_nap() >= k_many_calls && may_nap(out)) nap(out);
    for (;;) {
        if (m_abandoned || !out.items.attached()) return false;
        // What has come since another thread took all is about to be taken by it, too, as a rule.
        if (is_command && m_flushes > 0 && few_came_since_flush() && may_nap(out)) {
            nap(out);
            continue;
        }
        if (has_output(lane) || out.poked) {
            out.poked = false;
            return true;
        }
        // Bulk lanes end with the session; until then the other side may have something to be acknowledged.
        const bool over = m_closed && is_command && !m_last;
        if (over && out.items.drained() && m_batch.empty() && m_backlog.empty() && m_transfers.empty()) return false;
        if (next_cut(lane).transfer == nullptr && m_window_waits == 0) out.had_nothing_to_do = true;
        if (is_command && may_nap(out) && (calls_since_nap() == 0 ? m_idle_naps : 0) < idle_naps()) {
            nap(out);
            continue;
        }
        out.writer_sleeps = true;
        m_writer_wake[lane].wait(m_mutex);
        m_slept |= is_command;
        out.writer_sleeps = false;
    }
}

void Outbox::poke(uint16_t lane) {
    MutexLock lock(m_mutex);
    m_lanes[lane].poked = true;
    const bool wake = writer_must_wake(Urgency::writer, lane);
    lock.unlock();
    if (wake) m_writer_wake[lane].notify_one();
}

bool Outbox::small_enough_to_flush(uint16_t lane) const {
    MutexLock lock(m_mutex);
    if (part_is_ready(lane)) return false;
    if (lane != k_command_lane) return m_lanes[lane].items.drained();
    if (!m_backlog.empty()) return false;
    const size_t parts_bytes = sends_places() ? k_flushed_places * m_encoding.shared()->part_bytes() : 0;
    return queued() + m_batch.body_bytes() + m_batch.payload_bytes() <= m_options.flush_limit_bytes + parts_bytes;
}

}  // namespace warpline::protocol
