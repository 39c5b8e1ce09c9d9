// Telling the client what was executed, within bounds.
#include "server/session/executed_calls.h"

#include <algorithm>

#include "common/log/log.h"
#include "server/objects/client_port.h"
#include "server/objects/send_event.h"
#include "server/session/call.h"

namespace warpline::server {

namespace {

constexpr size_t k_tell_at = 1024;               // calls that are worth an event
constexpr size_t k_most_kept = 16 * 1024;        // while the client takes no more; later ones are only counted
constexpr size_t k_most_queued_bytes = 1 << 20;  // before what the client waits for: then telling waits

/// Each thread that executes calls has a number of its own, in the order of their first calls.
uint16_t number_of_this_thread() {
    static std::atomic<uint16_t> next{1};
    thread_local const uint16_t number = next.fetch_add(1, std::memory_order_relaxed);
    return number;
}

uint64_t nanoseconds(ExecutedCalls::Clock::duration time) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

}  // namespace

void ExecutedCalls::note(const ServerCall& call, Clock::time_point began) {
    const Clock::time_point end = call.answered() == Clock::time_point() ? Clock::now() : call.answered();
    const protocol::ExecutedCall executed{call.number(), static_cast<uint16_t>(call.id()), number_of_this_thread(),
                                          nanoseconds(began.time_since_epoch()),
                                          nanoseconds(std::max(end - began, Clock::duration::zero()))};
    size_t count = 0;
    {
        MutexLock lock(m_mutex);
        if (m_calls.size() < k_most_kept) {
            m_calls.push_back(executed);
        } else {
            ++m_dropped;
        }
        count = m_calls.size();
    }
    if (count % k_tell_at == 0) tell();
}

void ExecutedCalls::tell() {
    if (!is_on()) return;
    while (m_client.outbox().queued_bytes() < k_most_queued_bytes) {
        std::vector<protocol::ExecutedCall> told;
        uint64_t dropped = 0;
        {
            MutexLock lock(m_mutex);
            const size_t count = std::min(m_calls.size(), protocol::k_most_executed_calls);
            if (count == 0 && m_dropped == m_told_dropped) return;
            told.assign(m_calls.begin(), m_calls.begin() + static_cast<ptrdiff_t>(count));
            m_calls.erase(m_calls.begin(), m_calls.begin() + static_cast<ptrdiff_t>(count));
            dropped = m_told_dropped = m_dropped;
        }
        const auto sent = send_event(
            m_client.outbox(),
            [&](wire::Event::Builder event) {
                auto executed = event.initExecuted();
                executed.setCalls(static_cast<uint32_t>(told.size()));
                executed.setDropped(dropped);
            },
            protocol::encode_executed(told));
        if (!sent.ok()) {
            WL_LOG(debug, "session", "executed calls cannot be told: {}", sent.error().what);
            return;
        }
    }
}

}  // namespace warpline::server
