// How a session gets another connection when its own is lost: attempts with exponential back-off and full jitter, a proof that
// the session is ours, and what both sides have received. Threads that wait do not notice but for the time.
#include <pthread.h>
#include <signal.h>

#include <algorithm>

#include "client/session/attempts.h"
#include "client/session/connection_to_server.h"
#include "client/session/session.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

using SteadyClock = std::chrono::steady_clock;

}  // namespace

bool ConnectionToServer::keeps() const {
    return m_established.load(std::memory_order_acquire) && m_settings.grace.count() > 0 && !m_leaving.load() &&
           !m_pump->refused();
}

void ConnectionToServer::leave() {
    {
        MutexLock lock(m_recovery_mutex);
        m_leaving.store(true);
    }
    m_recovery_wake.notify_all();
    {
        MutexLock lock(m_order_mutex);  // who is about to wait has seen it, or is told
    }
    m_order_changed.notify_all();
}

bool ConnectionToServer::pause(unsigned attempt, SteadyClock::time_point deadline) {
    auto until = SteadyClock::now();
    if (attempt > 0)
        until = std::min(until + random_pause_after(attempt - 1, m_settings.reconnect_first, m_settings.reconnect_longest),
                         deadline);
    MutexLock lock(m_recovery_mutex);
    while (!m_leaving.load() && m_recovery_wake.wait_until(m_recovery_mutex, until)) {
    }
    return !m_leaving.load();
}

void ConnectionToServer::recover(const std::string& why_lost) {
    (void)::pthread_setname_np(::pthread_self(), "wl-client-back");
    m_pump->join();
    const auto lost_at = SteadyClock::now();
    const auto deadline = lost_at + m_settings.grace;
    WL_LOG(warn, "client", "{}; the program pauses, and {} is tried for {} s", why_lost, m_address,
           std::chrono::duration_cast<std::chrono::seconds>(m_settings.grace).count());
    for (unsigned attempt = 0; pause(attempt, deadline); ++attempt) {
        std::string why;
        const auto resumed = resume(std::min(deadline, SteadyClock::now() + patience_of(attempt)), why);
        if (resumed.ok()) {
            WL_LOG(warn, "client", "connected to {} again after {:.1f} s, at attempt {}: the program goes on", m_address,
                   std::chrono::duration<double>(SteadyClock::now() - lost_at).count(), attempt + 1);
            return;
        }
        WL_LOG(debug, "client", "attempt {}: {} ({})", attempt + 1, why.empty() ? resumed.error().what : why,
               to_string(resumed.error().code));
        if (resumed.error().code == Code::unknown_handle) return end(resumed.error(), why);
        if (SteadyClock::now() >= deadline) {
            return end(Error{Code::connection_lost, "no connection within the grace time"},
                       log::format("{}, and no other connection within {} s (grace_seconds); at last: {}", why_lost,
                                   std::chrono::duration_cast<std::chrono::seconds>(m_settings.grace).count(),
                                   why.empty() ? resumed.error().what : why));
        }
    }
    end(Error{Code::shutting_down, "the process ends"}, why_lost);
}

Result<void> ConnectionToServer::resume(SteadyClock::time_point deadline, std::string& why) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now());
    const auto patience = std::clamp(left, std::chrono::milliseconds(1), m_settings.connect_timeout);
    const auto answer_by = SteadyClock::now() + patience;
    net::Socket socket = WL_TRY(net::dial(m_endpoint, patience, why));
    auto channel = WL_TRY(open_lane(std::move(socket), protocol::k_command_lane, ++m_epoch, patience, why));
    const auto answer = WL_TRY(protocol::ask_to_resume(*channel, {m_link.received_sequence(), false, m_session_id}, answer_by));
    if (answer.refused != Code::ok) {
        why = log::format("{}: {}", m_address, answer.reason);
        return Error{answer.refused, "the server does not continue the session"};
    }
    // The door answers for sessions that have gone, and has none.
    if (!channel->proved_by_key()) return Error{Code::malformed, "the session goes on where it is not"};
    const auto restarted = m_pump->restart(std::move(channel), [&] { return m_link.attach(answer.received); });
    if (restarted.ok()) {
        m_reconnects.fetch_add(1, std::memory_order_relaxed);
    } else if (restarted.error().code == Code::malformed) {
        why = log::format("{}: {}", m_address, restarted.error().what);
        return Error{Code::unknown_handle, "the server has lost what it had"};
    }
    return restarted;
}

void ConnectionToServer::end(const Error& error, const std::string& text) {
    m_session.say_lost(error, text);  // before any call can fail of it
    m_link.close(error, true);
    m_bulk.stop();
    m_session.on_lost(error, text);
    m_ended.set_value();
}

}  // namespace warpline::client
