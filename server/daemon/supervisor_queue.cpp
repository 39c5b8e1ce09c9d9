// Where connections go, and who gets a worker.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/log/log.h"
#include "server/daemon/supervisor.h"

namespace warpline::server {

using Clock = std::chrono::steady_clock;

namespace {

/// Lanes that an opened session keeps until it has a worker. Its client sends one; who has seen the preamble may send others.
constexpr size_t k_max_early_lanes = 4;
/// How many attempts to continue a session may have come to nothing since the last one that did not.
constexpr uint32_t k_most_lost_epochs = 100'000;

bool is_of(const uint8_t (&session)[k_session_id_bytes], const protocol::Preamble& preamble) {
    return std::memcmp(session, preamble.session.data(), sizeof session) == 0;
}

/// Whether a session may have a lane that says this of itself: one that was overtaken, or was made up, is no business of its
/// worker's.
bool is_plausible(const WorkerProcess& worker, const protocol::Preamble& preamble) {
    if (preamble.lane == protocol::k_death_lane) return worker.state == WorkerState::session;
    // Which of a bulk lane's connections is the newest is known to the worker alone.
    if (protocol::is_bulk_lane(preamble.lane)) return worker.state == WorkerState::session && preamble.epoch > 0;
    if (preamble.lane != protocol::k_command_lane) return false;
    if (worker.state == WorkerState::greeting) return preamble.epoch == 0;
    return preamble.epoch > worker.epoch && preamble.epoch - worker.epoch <= k_most_lost_epochs;
}

}  // namespace

void Supervisor::route(Connection connection) {
    if (connection.preamble.kind == protocol::Preamble::Kind::door) return give_to_door(std::move(connection));
    for (const auto& worker : m_workers) {
        const bool serves = worker->state == WorkerState::session || worker->state == WorkerState::greeting;
        if (!serves || !is_of(worker->session_id, connection.preamble)) continue;
        if (is_plausible(*worker, connection.preamble)) {
            give(*worker, connection);
            return;
        }
        if (const uint64_t dropped = m_drop_notice.count(); dropped > 0) {
            WL_LOG(warn, "server", "{}: dropped: the session has a newer lane ({} dropped since the last such line)",
                   connection.peer, dropped);
        }
        close(connection.fd);
        return;
    }
    for (Opening& opening : m_openings) {
        if (!is_of(opening.session.session_id, connection.preamble)) continue;
        opening.lanes.push_back(std::move(connection));
        if (opening.lanes.size() <= k_max_early_lanes) return;
        close(opening.lanes.front().fd);
        opening.lanes.pop_front();
        return;
    }
    // Gone, and its client should know at once: who answers must prove who we are.
    give_to_door(std::move(connection));
}

/// Sessions that run, that begin, and that have been opened.
size_t Supervisor::sessions() const { return count(WorkerState::session) + count(WorkerState::greeting) + m_openings.size(); }

/// May a client have a session? Then it has a place from now on, and a worker as soon as one is ready.
OpenedMessage Supervisor::open(const OpenMessage& wish) {
    OpenedMessage answer{};
    answer.question = wish.question;
    const auto refuse = [&](Code code, const std::string& reason) {
        WL_LOG(info, "audit", "refused peer={} tenant=\"{}\" reason=\"{}\"", get_text(wish.peer), get_text(wish.tenant),
               reason);
        answer.refused = static_cast<uint32_t>(code);
        set_text(answer.reason, reason);
        return answer;
    };
    if (m_draining) return refuse(Code::shutting_down, "the server is shutting down");
    if (sessions() >= m_options.max_sessions) {
        return refuse(Code::quota,
                      log::format("the server is full: {} sessions are running (max_sessions)", m_options.max_sessions));
    }
    m_claims.take();
    Opening opening{};
    std::memcpy(opening.session.session_id, wish.session_id, sizeof wish.session_id);
    std::memcpy(opening.session.key, wish.key, sizeof wish.key);
    std::memcpy(opening.session.server, m_server, sizeof m_server);
    set_text(opening.session.tenant, get_text(wish.tenant));
    set_text(opening.session.peer, get_text(wish.peer));
    opening.driver_settings = wish.driver_settings;
    opening.deadline = Clock::now() + m_options.waiting_deadline;
    m_openings.push_back(std::move(opening));
    answer.expires_seconds =
        static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(m_options.waiting_deadline).count());
    return answer;
}

void Supervisor::drop(Opening& opening, const char* why) {
    WL_LOG(warn, "server", "{}: dropped: {}", get_text(opening.session.peer), why);
    for (const Connection& lane : opening.lanes) close(lane.fd);
    opening.lanes.clear();
}

/// Workers for the sessions that have none, by the settings of the driver.
std::map<uint64_t, size_t> Supervisor::workers_needed() const {
    std::map<uint64_t, size_t> needed;
    for (const Opening& opening : m_openings) ++needed[opening.driver_settings];
    return needed;
}

void Supervisor::hand_out_openings() {
    for (const auto& worker : m_workers) {
        if (worker->state != WorkerState::idle) continue;
        const auto next = std::find_if(m_openings.begin(), m_openings.end(), [&](const Opening& opening) {
            return opening.driver_settings == worker->driver_settings;
        });
        if (next == m_openings.end()) {
            // It was started for somebody who has gone.
            if (worker->driver_settings != 0) stop_worker(*worker, "nobody needs its driver's settings any more");
            continue;
        }
        const Opening opening = std::move(*next);
        m_openings.erase(next);
        worker->enter(WorkerState::greeting);
        worker->peer = get_text(opening.session.peer);
        worker->tenant = get_text(opening.session.tenant);
        worker->epoch = 0;
        std::memcpy(worker->session_id, opening.session.session_id, sizeof worker->session_id);
        const int cache = open_cache(opening.session);
        const auto assigned = worker->control().send(ControlKind::assign, opening.session, cache);
        if (cache >= 0) close(cache);
        if (!assigned.ok()) {
            for (const Connection& lane : opening.lanes) close(lane.fd);
            stop_worker(*worker, "its control channel is broken");
            continue;
        }
        for (const Connection& lane : opening.lanes) give(*worker, lane);
    }
}

}  // namespace warpline::server
