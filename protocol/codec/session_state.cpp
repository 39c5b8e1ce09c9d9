// Counting frames and credit.
#include "protocol/codec/session_state.h"

#include <algorithm>

namespace warpline::protocol {

uint64_t timestamp_us() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count());
}

Result<ReceiveState::Verdict> ReceiveState::accept(const FrameHeader& header) {
    if (!is_sequenced(header.kind)) {
        if (header.sequence != 0) return Error{Code::malformed, "a frame has a number that must have none"};
        return Verdict::accept;
    }
    if (header.sequence == 0) return Error{Code::malformed, "a frame has no number"};
    if (header.sequence <= m_received) return Verdict::duplicate;
    if (header.sequence != m_received + 1) return Error{Code::malformed, "a frame is missing"};
    m_received = header.sequence;
    ++m_unacknowledged_frames;
    m_unacknowledged_bytes += header.body_bytes + uint64_t{header.payload_raw_bytes};
    return Verdict::accept;
}

Result<void> CreditAccount::progress(uint64_t calls_done, uint64_t bytes_done) {
    if (calls_done > m_spent_calls || bytes_done > m_spent_bytes)
        return Error{Code::malformed, "more is reported done than was sent"};
    m_done_calls = std::max(m_done_calls, calls_done);
    m_done_bytes = std::max(m_done_bytes, bytes_done);
    return {};
}

Result<void> CreditGrant::received(uint64_t bytes, uint64_t calls) {
    MutexLock lock(m_mutex);
    // The peer knows of what was reported, not of what is done since.
    m_received_bytes += bytes;
    m_received_calls += calls;
    if (m_received_bytes - m_reported.bytes > m_limits.bytes)
        return Error{Code::quota, "the client sent more bytes than its credit"};
    if (m_received_calls - m_reported.calls > m_limits.calls)
        return Error{Code::quota, "the client sent more calls than its credit"};
    return {};
}

std::optional<CreditGrant::Progress> CreditGrant::done(uint64_t bytes, uint64_t calls) {
    MutexLock lock(m_mutex);
    m_done.bytes += bytes;
    m_done.calls += calls;
    bool due = m_done.bytes - m_reported.bytes >= std::min(m_limits.bytes / 4, m_report_bytes) ||
               m_done.calls - m_reported.calls >= std::min(m_limits.calls / 4, k_progress_calls);
    if (!due) return std::nullopt;
    m_reported = m_done;
    return m_done;
}

CreditGrant::Progress CreditGrant::report() {
    MutexLock lock(m_mutex);
    m_reported = m_done;
    return m_done;
}

}  // namespace warpline::protocol
