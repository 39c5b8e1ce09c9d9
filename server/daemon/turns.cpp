// Who has had enough, and who comes next.
#include "server/daemon/turns.h"

#include <algorithm>

#include "common/log/log.h"

namespace warpline::server {

Turns::Clock::time_point Turns::next_look(size_t sessions) const {
    if (m_taken) return m_last_look + m_options.tick;
    return sessions > crowd_bound() ? m_last_look + m_options.rare_tick : Clock::time_point::max();
}

void Turns::look(const std::vector<Session*>& sessions, Clock::time_point now) {
    const size_t active = count_active(sessions, now);
    m_last_look = now;
    if (m_taken && active <= crowd_bound()) return end(sessions);
    const bool scarce = active > crowd_bound() && m_options.processors_scarce();
    if (!m_taken && scarce) return begin(sessions, now);
    if (!m_taken) return;

    std::vector<Session*> waiting;
    for (Session* session : sessions) {
        const bool waits = session->counters.turn.waits.load(std::memory_order_acquire) != 0;
        if (!session->is_served && waits) waiting.push_back(session);
    }
    std::sort(waiting.begin(), waiting.end(), [](const auto* one, const auto* other) { return one->served < other->served; });
    const auto served = [&] {
        return static_cast<size_t>(std::count_if(sessions.begin(), sessions.end(), [](auto* one) { return one->is_served; }));
    };
    const size_t at_a_time = served_at_a_time();
    if (scarce) take_from(sessions, active, waiting.size(), now);
    size_t free = scarce ? at_a_time - std::min(served(), at_a_time) : waiting.size();
    for (Session* session : waiting) {
        if (free-- == 0) break;
        give(*session, now);
    }
}

/// Notes what each has done since the last look. @return those who are at work
size_t Turns::count_active(const std::vector<Session*>& sessions, Clock::time_point now) {
    size_t active = 0;
    auto least = Clock::duration::max();
    for (Session* session : sessions) {
        const uint64_t calls = session->counters.calls.load(std::memory_order_relaxed);
        const bool waits = session->counters.turn.waits.load(std::memory_order_relaxed) != 0;
        const bool was_active =
            session->last_active != Clock::time_point{} && now - session->last_active < m_options.remembered;
        const bool did_something = calls != std::exchange(session->calls, calls);
        if (did_something || waits) {
            // Who comes back is not served for all the time that it was away, but before everybody else.
            if (!was_active) session->served = std::max(session->served, m_least_served - m_options.longest_turn);
            session->last_active = now;
        } else if (!was_active) {
            continue;
        }
        if (did_something && session->is_served && m_taken) session->served += now - m_last_look;
        least = std::min(least, session->served);
        ++active;
    }
    if (active > 0) m_least_served = least;
    return active;
}

void Turns::begin(const std::vector<Session*>& sessions, Clock::time_point now) {
    WL_LOG(info, "server", "more than {} sessions are at work on {} processors: they take turns, {} at a time", crowd_bound(),
           m_options.processors, served_at_a_time());
    m_taken = true;
    size_t served = 0;
    for (Session* session : sessions) {
        session->turn_began = now;
        session->is_served = served++ < served_at_a_time();
        if (!session->is_served) take_turn(session->counters.turn);
    }
}

void Turns::end(const std::vector<Session*>& sessions) {
    WL_LOG(info, "server", "no more than {} sessions are at work: all of them are served at a time again", crowd_bound());
    m_taken = false;
    for (Session* session : sessions) {
        session->is_served = true;
        give_turn(session->counters.turn);
    }
}

/// Ends turns for so many that want one: of who does nothing with it, then of who has had it for long enough.
void Turns::take_from(const std::vector<Session*>& sessions, size_t active, size_t wanted, Clock::time_point now) {
    const auto length = std::clamp<Clock::duration>(m_options.round * served_at_a_time() / std::max<size_t>(active, 1),
                                                    m_options.shortest_turn, m_options.longest_turn);
    std::vector<Session*> served, over;
    for (Session* session : sessions) {
        if (session->is_served) served.push_back(session);
    }
    const size_t free = served_at_a_time() - std::min(served.size(), served_at_a_time());
    const size_t surplus = served.size() - std::min(served.size(), served_at_a_time());
    size_t to_take = wanted - std::min(wanted, free) + surplus;
    const auto is_quiet = [&](const Session& one) { return now - one.last_active >= 2 * m_options.tick; };
    for (Session* session : served) {
        if (is_quiet(*session) || now - session->turn_began >= length) over.push_back(session);
    }
    std::sort(over.begin(), over.end(), [&](const auto* one, const auto* other) {
        if (is_quiet(*one) != is_quiet(*other)) return is_quiet(*one);
        return one->turn_began < other->turn_began;
    });
    for (Session* session : over) {
        if (to_take == 0) break;
        --to_take;
        session->is_served = false;
        take_turn(session->counters.turn);
    }
}

void Turns::give(Session& session, Clock::time_point now) {
    session.is_served = true;
    session.turn_began = now;
    ++m_given;
    give_turn(session.counters.turn);
}

}  // namespace warpline::server
