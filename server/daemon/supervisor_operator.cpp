// The supervisor's dealings with who looks after it: `gpu-server status` and `gpu-server drain`.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "common/log/log.h"
#include "server/control/operator_socket.h"
#include "server/daemon/supervisor.h"

namespace warpline::server {

using Clock = std::chrono::steady_clock;

namespace {

/// Connections at a time; who waits for the end of a drain has one for long.
constexpr size_t k_most_operators = 16;
/// Sessions that are told of one by one.
constexpr size_t k_most_sessions_told = 256;

int64_t seconds_since(Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - time).count();
}

std::string uuid_text(const uint8_t (&uuid)[16]) {
    std::string text = "GPU";
    for (size_t i = 0; i < sizeof uuid; ++i) {
        if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += log::format("{:02x}", uuid[i]);
    }
    return text;
}

nlohmann::json device_json(const DeviceRow& device) {
    return {{"ordinal", device.ordinal},
            {"name", get_text(device.name)},
            {"uuid", uuid_text(device.uuid)},
            {"pci_bus_id", get_text(device.pci_bus_id)},
            {"compute_capability", log::format("{}.{}", device.compute_major, device.compute_minor)},
            {"multiprocessors", device.multiprocessors},
            {"total_bytes", device.total_bytes}};
}

nlohmann::json session_json(WorkerProcess& worker) {
    return {{"id", session_text(worker.session_id)},
            {"tenant", worker.tenant},
            {"program", worker.program},
            {"peer", worker.peer},
            {"seconds", seconds_since(worker.session_start)},
            {"worker_pid", worker.pid()},
            {"calls", worker.counters().calls.load()},
            {"found_bytes", worker.counters().found_bytes.load()},
            {"device_bytes", worker.counters().device_bytes.load()}};
}

}  // namespace

/// A server without that socket serves all the same; only its operator has to use signals.
void Supervisor::listen_to_operators() {
    const auto listening = listen_for_operators(address());
    if (listening.ok()) {
        m_operator_listener = *listening;
    } else {
        WL_LOG(warn, "server", "`gpu-server status` and `drain` will not find this server: {} (errno {})",
               listening.error().what, listening.error().detail);
    }
}

void Supervisor::accept_operators() {
    for (;;) {
        net::Socket socket(accept4(m_operator_listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket.valid()) return;
        if (!is_operator(socket.fd())) {
            WL_LOG(warn, "audit", "refused peer=operator reason=\"another user's process asks as an operator\"");
        } else if (m_operators.size() < k_most_operators) {
            m_operators.push_back(std::make_shared<net::Socket>(std::move(socket)));
        }
    }
}

/// False if the connection has ended, or is to.
bool Supervisor::hear_operator(const std::shared_ptr<net::Socket>& socket) {
    char request[32];
    const ssize_t length = recv(socket->fd(), request, sizeof request, 0);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    const std::string_view asked(request, length > 0 ? static_cast<size_t>(length) : 0);
    if (asked != "status" && asked != "drain") return false;
    const bool drained_before = m_draining;
    if (asked == "drain" && !m_draining) start_drain(Clock::time_point::max(), "until they end");
    if (asked == "drain") return answer_operator(*socket, drained_before);
    with_load(false, [this, drained_before, waits = std::weak_ptr(socket)] {
        if (const auto there = waits.lock()) answer_operator(*there, drained_before);
    });
    return true;
}

bool Supervisor::answer_operator(net::Socket& socket, bool drained_before) {
    nlohmann::json answer = status_json();
    answer["was_draining"] = drained_before;
    // Names of programs may be in any encoding.
    const std::string text = answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(text.size());
}

/// Empty if those who come now get a session, or a worker for one soon. To be full is no reason: clients are told so, and have
/// other servers to go to, which they would not find if nobody told them of full ones.
std::string Supervisor::why_not_ready() const {
    if (m_draining) return log::format("it drains, and {} of its sessions have not ended", count(WorkerState::session));
    const bool driver_fails = m_failed_starts > 0 && count(WorkerState::idle) == 0;
    if (driver_fails) return log::format("the last {} workers have died before their driver had started", m_failed_starts);
    if (!m_announced) return "its driver has not started yet";
    return "";
}

nlohmann::json Supervisor::status_json() {
    nlohmann::json devices = nlohmann::json::array();
    const LoadMessage* now_busy = load();
    for (uint32_t i = 0; i < std::min<uint32_t>(m_offer.device_count, k_max_devices); ++i) {
        devices.push_back(device_json(m_offer.devices[i]));
        const DeviceFigures* figures = now_busy != nullptr && i < now_busy->device_count ? &now_busy->devices[i] : nullptr;
        const bool knows_percent = figures != nullptr && figures->utilisation_percent >= 0;
        const bool knows_memory = figures != nullptr && figures->total_bytes > 0;
        devices.back()["utilisation_percent"] = knows_percent ? nlohmann::json(figures->utilisation_percent) : nullptr;
        devices.back()["free_bytes"] = knows_memory ? nlohmann::json(figures->free_bytes) : nullptr;
    }
    nlohmann::json sessions = nlohmann::json::array();
    for (const auto& worker : m_workers) {
        if (worker->state == WorkerState::session && sessions.size() < k_most_sessions_told)
            sessions.push_back(session_json(*worker));
    }
    const FiguresMessage now = figures({});
    return {{"address", address()},
            {"pid", getpid()},
            {"version", WARPLINE_VERSION},
            {"uptime_seconds", seconds_since(m_started)},
            {"ready", why_not_ready().empty()},
            {"not_ready_because", why_not_ready()},
            {"draining", m_draining},
            {"sessions", count(WorkerState::session)},
            {"places_taken", now.sessions},
            {"max_sessions", m_options.max_sessions},
            {"workers_ready", now.workers_ready},
            {"workers_starting", count(WorkerState::starting)},
            {"workers_leaving", count(WorkerState::leaving)},
            {"sessions_waiting", m_openings.size()},
            {"turns", {{"taken", m_turns.are_taken()}, {"at_a_time", m_turns.served_at_a_time()}, {"given", m_turns.given()}}},
            {"driver",
             {{"version", m_offer.driver_version},
              {"kind", m_offer.software != 0 ? "software" : "nvidia"},
              {"path", get_text(m_offer.driver_path)}}},
            {"devices", devices},
            {"upload_cache", cache_json()},
            {"running", sessions}};
}

}  // namespace warpline::server
