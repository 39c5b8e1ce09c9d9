// The supervisor's dealings with turns: when to look, and at whom.
#include <algorithm>
#include <vector>

#include "server/daemon/supervisor.h"

namespace warpline::server {

using Clock = std::chrono::steady_clock;

/// Max: there is nobody who could need turns.
Clock::time_point Supervisor::next_turns() const {
    return m_options.takes_turns ? m_turns.next_look(count(WorkerState::session)) : Clock::time_point::max();
}

void Supervisor::look_at_turns() {
    const auto now = Clock::now();
    if (next_turns() > now) return;
    std::vector<Turns::Session*> sessions;
    for (const auto& worker : m_workers) {
        if (worker->state == WorkerState::session) sessions.push_back(&worker->turns());
        if (worker->state == WorkerState::leaving) give_turn(worker->counters().turn);  // what is left of it is over soon
    }
    m_turns.look(sessions, now);
}

}  // namespace warpline::server
