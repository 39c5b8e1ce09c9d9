// When calls were executed, for a client that wants to know.
#pragma once

#include <atomic>
#include <chrono>
#include <vector>

#include "common/base/mutex.h"
#include "protocol/codec/executed.h"

namespace warpline::server {

class ClientPort;
class ServerCall;

/// Gathers when which call was executed, and tells the client: many at a time, behind the replies and never before one, so that
/// nobody waits for it. While nobody wants to know, a call pays for one look at a flag.
class ExecutedCalls {
public:
    using Clock = std::chrono::steady_clock;

    explicit ExecutedCalls(ClientPort& client) : m_client(client) {}

    /// The client wants to know. Before its first call.
    void begin() { m_on.store(true, std::memory_order_relaxed); }
    bool is_on() const { return m_on.load(std::memory_order_relaxed); }
    /// The time, if somebody wants to know it.
    Clock::time_point now() const { return is_on() ? Clock::now() : Clock::time_point(); }

    /// A call has been executed on this thread. @param began  of now() @thread any
    void add(const ServerCall& call, Clock::time_point began) WL_EXCLUDES(m_mutex) {
        if (is_on()) [[unlikely]]
            note(call, began);
    }
    /// Tells what has come together. @blocks no: while much is queued, it stays here @thread any
    void tell() WL_EXCLUDES(m_mutex);

private:
    void note(const ServerCall& call, Clock::time_point began) WL_EXCLUDES(m_mutex);

    ClientPort& m_client;
    std::atomic<bool> m_on{false};
    Mutex m_mutex;
    std::vector<protocol::ExecutedCall> m_calls WL_GUARDED_BY(m_mutex);  // that the client has not been told of
    uint64_t m_dropped WL_GUARDED_BY(m_mutex) = 0;                       // there was no room for them
    uint64_t m_told_dropped WL_GUARDED_BY(m_mutex) = 0;
};

}  // namespace warpline::server
