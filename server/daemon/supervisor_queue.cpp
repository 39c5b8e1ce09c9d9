// The supervisor's queue: who gets a worker, and who is turned away.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

#include "common/log/log.h"
#include "server/daemon/supervisor.h"

namespace warpline::server {

void Supervisor::route(Waiting connection) {
    using Kind = protocol::Preamble::Kind;
    if (connection.preamble.kind == Kind::status) return give_to_door(connection);
    if (connection.preamble.kind == Kind::further_connection) {
        for (const auto& worker : m_workers) {
            if (worker->state == WorkerState::session &&
                std::memcmp(worker->session_id.data(), connection.preamble.session.data(), worker->session_id.size()) == 0) {
                give(*worker, connection);
                return;
            }
        }
        // Gone, and its client should know at once: who answers must prove who we are.
        return give_to_door(connection);
    }
    if (m_draining) {
        WL_LOG(info, "server", "{}: dropped: the server is shutting down", connection.peer);
        close(connection.fd);
        return;
    }
    m_claims.take();
    m_waiting.push_back(std::move(connection));
    if (m_waiting.size() > m_options.max_waiting) drop_waiting();
}

/// Drops the newest connection of the host that has the most of those that wait.
void Supervisor::drop_waiting() {
    std::map<std::string_view, size_t> by_host;
    for (const Waiting& waiting : m_waiting) ++by_host[host_of(waiting.peer)];
    const auto busiest =
        std::max_element(by_host.begin(), by_host.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto newest = std::find_if(m_waiting.rbegin(), m_waiting.rend(),
                                     [&](const Waiting& waiting) { return host_of(waiting.peer) == busiest->first; });
    if (const uint64_t dropped = m_drop_notice.count(); dropped > 0) {
        WL_LOG(warn, "server", "{}: dropped: {} connections wait for a worker already ({} dropped since the last such line)",
               newest->peer, m_options.max_waiting, dropped);
    }
    close(newest->fd);
    m_waiting.erase(std::next(newest).base());
}

/// Workers that are in TLS and Hello with a host.
size_t Supervisor::greetings_from(std::string_view host) const {
    return static_cast<size_t>(std::count_if(m_workers.begin(), m_workers.end(), [&](const auto& worker) {
        return worker->state == WorkerState::greeting && host_of(worker->peer) == host;
    }));
}

/// Workers for those who wait and may have one, by the settings of the driver.
std::map<uint64_t, size_t> Supervisor::workers_needed() const {
    std::map<uint64_t, size_t> needed;
    std::map<std::string_view, size_t> greetings;
    size_t all = count(WorkerState::greeting);
    for (const Waiting& waiting : m_waiting) {
        const std::string_view host = host_of(waiting.peer);
        const auto [place, first] = greetings.try_emplace(host, 0);
        if (first) place->second = greetings_from(host);
        if (!may_greet(place->second, all)) continue;
        ++place->second;
        ++all;
        ++needed[waiting.preamble.driver_settings];
    }
    return needed;
}

bool Supervisor::is_waited_for(uint64_t driver_settings) const {
    return std::any_of(m_waiting.begin(), m_waiting.end(),
                       [&](const Waiting& waiting) { return waiting.preamble.driver_settings == driver_settings; });
}

/// Whether a host may have another worker for TLS and Hello. The first one always: who comes once does not wait for the sake of
/// those who come often.
bool Supervisor::may_greet(size_t greetings_of_host, size_t greetings) const {
    if (greetings_of_host == 0) return true;
    return greetings_of_host < m_options.max_greetings_per_host && greetings < m_options.max_greetings;
}

/// Who is next for a worker whose driver has these settings: of those who may, the first of the host that has the fewest.
std::deque<Supervisor::Waiting>::iterator Supervisor::next_waiting(uint64_t driver_settings) {
    auto next = m_waiting.end();
    const size_t all = count(WorkerState::greeting);
    size_t fewest = std::numeric_limits<size_t>::max();
    for (auto it = m_waiting.begin(); it != m_waiting.end() && fewest > 0; ++it) {
        if (it->preamble.driver_settings != driver_settings) continue;
        const size_t greetings = greetings_from(host_of(it->peer));
        if (greetings >= fewest || !may_greet(greetings, all)) continue;
        fewest = greetings;
        next = it;
    }
    return next;
}

void Supervisor::hand_out_waiting() {
    for (const auto& worker : m_workers) {
        if (worker->state != WorkerState::idle) continue;
        const auto next = next_waiting(worker->driver_settings);
        if (next == m_waiting.end()) {
            // It was started for somebody who has gone.
            if (worker->driver_settings != 0 && !is_waited_for(worker->driver_settings))
                stop_worker(*worker, "nobody needs its driver's settings any more");
            continue;
        }
        const Waiting connection = std::move(*next);
        m_waiting.erase(next);
        worker->enter(WorkerState::greeting);
        worker->peer = connection.peer;
        if (!give(*worker, connection)) stop_worker(*worker, "its control channel is broken");
    }
}

}  // namespace warpline::server
