#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "common/base/mutex.h"
#include "protocol/codec/frame.h"

namespace warpline::protocol {

using Clock = std::chrono::steady_clock;

/// A frame on its way out: its header, and its bytes or a view of somebody else's.
struct OutFrame {
    FrameHeader header;
    Buffer body;
    Buffer payload;
    BytesView external_payload;  ///< instead of `payload`: valid until the frame has been handed to the socket
    uint64_t ticket = 0;         ///< place in the queue, for those who wait until it has been handed over
    std::byte wire_header[k_frame_header_bytes] = {};

    BytesView payload_view() const { return external_payload.data() ? external_payload : payload.view(); }
    size_t wire_bytes() const { return k_frame_header_bytes + header.body_bytes + header.payload_bytes; }
};

/// The receiving half of a lane's sequence: finds duplicates and gaps, knows what to acknowledge.
class ReceiveState {
public:
    enum class Verdict : uint8_t { accept, duplicate };

    /// @errors  malformed: a number is missing, or a kind has a number that must not have one, or the reverse
    Result<Verdict> accept(const FrameHeader& header);

    uint64_t received() const { return m_received; }
    /// Frames and bytes that came since the last acknowledgement left.
    bool acknowledgement_due() const { return m_unacknowledged_frames >= 256 || m_unacknowledged_bytes >= (4u << 20); }
    void acknowledgement_left() { m_unacknowledged_frames = 0, m_unacknowledged_bytes = 0; }

private:
    uint64_t m_received = 0;
    uint32_t m_unacknowledged_frames = 0;
    uint64_t m_unacknowledged_bytes = 0;
};

/// The sending half: numbers frames and keeps the unacknowledged ones, up to a bound. Past the bound, nothing is kept any more
/// and the lane cannot be resumed; that is the whole consequence.
class SendState {
public:
    explicit SendState(size_t retain_limit_bytes) : m_limit_bytes(retain_limit_bytes) {}

    /// The next number, for a frame of a sequenced kind; 0 for others.
    uint64_t next_sequence(FrameKind kind) { return is_sequenced(kind) ? m_next++ : 0; }

    /// Keeps a frame that has been handed to the socket (copying a payload that is not its own). Returns it if it is not kept,
    /// for its buffers.
    std::optional<OutFrame> retain(OutFrame frame);

    /// Drops what the other side has.
    ///
    /// @errors  malformed: acknowledges what was never sent
    Result<void> acknowledge(uint64_t sequence);

    /// Frames after this one, in order, for sending them again.
    ///
    /// @errors  connection_lost: they are not kept any more
    Result<const std::deque<OutFrame>*> unacknowledged_after(uint64_t sequence);

    bool resumable() const { return m_complete; }
    size_t retained_bytes() const { return m_retained_bytes; }
    uint64_t acknowledged() const { return m_acknowledged; }
    uint64_t last_sent() const { return m_next - 1; }

private:
    size_t m_limit_bytes;
    uint64_t m_next = 1;
    uint64_t m_acknowledged = 0;
    std::deque<OutFrame> m_retained;
    size_t m_retained_bytes = 0;
    bool m_complete = true;
};

/// What may be sent and not yet be executed.
struct CreditLimits {
    uint64_t bytes = 64u << 20;
    uint64_t calls = 65536;
};

/// The spender's account. The totals are cumulative, so that a report repeated or lost does no harm.
class CreditAccount {
public:
    void set_limits(CreditLimits limits) { m_limits = limits; }
    const CreditLimits& limits() const { return m_limits; }
    /// Larger items are refused: the grantor may keep reports back until a quarter of the window has come together, so that
    /// this is what is sure to become free.
    uint64_t largest_item_bytes() const { return m_limits.bytes - m_limits.bytes / 4; }
    bool can_spend(uint64_t bytes, uint64_t calls) const {
        return bytes_in_flight() + bytes <= m_limits.bytes && calls_in_flight() + calls <= m_limits.calls;
    }
    void spend(uint64_t bytes, uint64_t calls) { m_spent_bytes += bytes, m_spent_calls += calls; }

    /// @errors  malformed: more is done than was sent, or less than before
    Result<void> progress(uint64_t calls_done, uint64_t bytes_done);

    uint64_t bytes_in_flight() const { return m_spent_bytes - m_done_bytes; }
    uint64_t calls_in_flight() const { return m_spent_calls - m_done_calls; }

private:
    CreditLimits m_limits;
    uint64_t m_spent_bytes = 0;
    uint64_t m_spent_calls = 0;
    uint64_t m_done_bytes = 0;
    uint64_t m_done_calls = 0;
};

/// The grantor's account: checks that the peer stays within its credit, and says when progress is worth a message.
/// @thread  any: received() and done() may race
class CreditGrant {
public:
    struct Progress {
        uint64_t calls;
        uint64_t bytes;
    };

    explicit CreditGrant(CreditLimits limits) : m_limits(limits) {}

    /// @errors  quota: the peer sent more than it may
    Result<void> received(uint64_t bytes, uint64_t calls);

    /// Something received has been executed. A value when a quarter of a limit has come together: report it to the peer.
    std::optional<Progress> done(uint64_t bytes, uint64_t calls);

    /// The totals now, for a reply that leaves anyway.
    Progress report();

private:
    CreditLimits m_limits;
    Mutex m_mutex;
    uint64_t m_received_bytes WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_received_calls WL_GUARDED_BY(m_mutex) = 0;
    Progress m_done WL_GUARDED_BY(m_mutex){0, 0};
    Progress m_reported WL_GUARDED_BY(m_mutex){0, 0};
};

/// When to send a Ping and when to give a peer up (docs/wire-format.md#heartbeat).
struct HeartbeatOptions {
    std::chrono::milliseconds interval{1000};    ///< silence of ours after which a Ping is sent
    std::chrono::milliseconds dead_after{8000};  ///< silence of the peer's after which it counts as lost
};

class Heartbeat {
public:
    explicit Heartbeat(HeartbeatOptions options, Clock::time_point now)
        : m_options(options), m_last_tick(now), m_last_received(now), m_last_sent(now) {}

    enum class Action : uint8_t { none, ping, dead };
    /// What is due. Between two ticks at most one interval counts as the peer's silence: who was stopped for longer, with
    /// the whole process or by its own work, has not listened and asks again before it gives the peer up.
    Action tick(Clock::time_point now);
    void received(Clock::time_point now) {
        m_last_received = now;
        m_silence = {};
    }
    void sent(Clock::time_point now) { m_last_sent = now; }
    /// A Pong came back: `echo_us` is the time stamp of the Ping.
    void pong(uint64_t echo_us, uint64_t now_us);
    /// Smoothed round trip of the heartbeat; 0 before the first one. Includes the peer's receiving thread.
    uint64_t round_trip_us() const { return m_round_trip_us; }

private:
    HeartbeatOptions m_options;
    Clock::duration m_silence{};  // heard by the last tick
    Clock::time_point m_last_tick;
    Clock::time_point m_last_received;
    Clock::time_point m_last_sent;
    Clock::time_point m_last_ping{};
    uint64_t m_round_trip_us = 0;
};

/// The steady clock in microseconds, as frames carry it.
uint64_t timestamp_us();

}  // namespace warpline::protocol
