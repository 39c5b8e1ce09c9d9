// Sequence numbers, acknowledgements and credit of a connection.
#pragma once

#include <chrono>
#include <optional>

#include "common/base/mutex.h"
#include "protocol/codec/delivery_meter.h"
#include "protocol/codec/frame.h"

namespace warpline::protocol {

using Clock = std::chrono::steady_clock;

/// The receiving half of a session's sequence: finds duplicates and gaps, knows what to acknowledge. Goes on from connection to
/// connection.
class ReceiveState {
public:
    enum class Verdict : uint8_t { accept, duplicate };

    /// @errors  malformed: a number is missing, or a kind has a number that must not have one, or the reverse
    Result<Verdict> accept(const FrameHeader& header);

    uint64_t received() const { return m_received; }
    /// Frames and bytes that came since the last acknowledgement left.
    bool acknowledgement_due() const { return m_unacknowledged_frames >= 64 || m_unacknowledged_bytes >= m_due_bytes; }
    /// So many bytes are worth an acknowledgement of their own.
    void acknowledge_after(uint64_t bytes) { m_due_bytes = bytes; }
    void acknowledgement_left() { m_unacknowledged_frames = 0, m_unacknowledged_bytes = 0; }

private:
    uint64_t m_received = 0;
    uint32_t m_unacknowledged_frames = 0;
    uint64_t m_unacknowledged_bytes = 0;
    uint64_t m_due_bytes = k_acknowledged_bytes;
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
    /// @param reserved_bytes  of the window, for others
    bool can_spend(uint64_t bytes, uint64_t calls, uint64_t reserved_bytes = 0) const {
        return bytes_in_flight() + bytes <= m_limits.bytes - reserved_bytes && calls_in_flight() + calls <= m_limits.calls;
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

/// Calls whose execution is worth a message of its own. A peer that stays near (OutboxOptions::calls_ahead) waits for it.
inline constexpr uint64_t k_progress_calls = 1024;

/// The grantor's account: checks that the peer stays within its credit, and says when progress is worth a message.
/// @thread  any: received() and done() may race
class CreditGrant {
public:
    struct Progress {
        uint64_t calls;
        uint64_t bytes;
    };

    explicit CreditGrant(CreditLimits limits) : m_limits(limits) {}

    /// Progress is worth a message after so many bytes, k_progress_calls, or a quarter of a limit. Before the first call.
    void report_after(uint64_t bytes) { m_report_bytes = bytes; }

    /// @errors  quota: the peer sent more than it may
    Result<void> received(uint64_t bytes, uint64_t calls);

    /// Something received has been executed. A value when enough has come together: report it to the peer.
    std::optional<Progress> done(uint64_t bytes, uint64_t calls);

    /// The totals now, for a reply that leaves anyway.
    Progress report();

private:
    CreditLimits m_limits;
    uint64_t m_report_bytes = ~uint64_t{0};
    Mutex m_mutex;
    uint64_t m_received_bytes WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_received_calls WL_GUARDED_BY(m_mutex) = 0;
    Progress m_done WL_GUARDED_BY(m_mutex){0, 0};
    Progress m_reported WL_GUARDED_BY(m_mutex){0, 0};
};

/// The steady clock in microseconds, as frames carry it.
uint64_t timestamp_us();

}  // namespace warpline::protocol
