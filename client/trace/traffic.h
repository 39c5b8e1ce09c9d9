// What a session's connections carry, and what its server says of its calls, as events of the trace.
#pragma once

#include <array>
#include <atomic>
#include <unordered_map>
#include <vector>

#include "client/trace/event.h"
#include "client/trace/server_clock.h"
#include "common/base/bytes.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "compress/wish.h"
#include "protocol/codec/preamble.h"
#include "protocol/codec/traffic.h"

namespace warpline::protocol {
class Outbox;
}

namespace warpline::client::trace {

/// Watches all lanes of one session. Lives as long as the process.
class Traffic final : public protocol::TrafficObserver {
public:
    /// The session is agreed on. Asks for a few round trips at once, so that the server's clock is known from the beginning.
    /// @blocks no
    void measure(protocol::Outbox& outbox);
    /// The server's account of the calls that it has executed: Event.executed. @errors malformed
    Result<void> executed(BytesView list, size_t count, uint64_t dropped) WL_EXCLUDES(m_mutex);

    void taken(uint16_t lane, std::span<protocol::OutFrame* const> frames) override WL_EXCLUDES(m_mutex);
    void sent(uint16_t lane) override;
    void received(uint16_t lane, const protocol::Frame& frame) override WL_EXCLUDES(m_mutex);
    void blocked(protocol::BlockedBy by, std::chrono::steady_clock::time_point since) override;

private:
    void add_shares(BytesView payload, Event& event) const;
    void note_clock(int64_t now_ns) WL_REQUIRES(m_mutex);
    void hear_clock(const protocol::Frame& frame, uint64_t now_ns) WL_EXCLUDES(m_mutex);

    std::array<std::vector<Event>, protocol::k_max_lanes> m_in_hand;  // each its lane's writer's
    std::atomic<protocol::Outbox*> m_asks{nullptr};                   // while round trips are wanted
    std::atomic<compress::CodecSet> m_codecs{0};                      // that the session chooses from
    Mutex m_mutex;
    ServerClock m_clock WL_GUARDED_BY(m_mutex);
    std::unordered_map<uint32_t, uint64_t> m_executed_until_ns WL_GUARDED_BY(m_mutex);  // by the server's thread
    unsigned m_round_trips WL_GUARDED_BY(m_mutex) = 0;
    int64_t m_hello_sent_ns WL_GUARDED_BY(m_mutex) = 0;
};

}  // namespace warpline::client::trace
