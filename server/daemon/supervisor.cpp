// The loop that routes connections and looks after workers.
#include "server/daemon/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "common/log/log.h"
#include "server/daemon/listen_socket.h"
#include "server/daemon/service_manager.h"

namespace warpline::server {

using Clock = std::chrono::steady_clock;

namespace {

/// How long connections wait when we are out of descriptors: they stay in the kernel's queue meanwhile.
constexpr std::chrono::milliseconds k_accept_pause{200};
/// Up to so many connections that have not said what they want are nothing unusual.
constexpr size_t k_calm_lobby = 8;

/// Each session needs a few descriptors here, and the usual soft limit is 1024.
void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Result<std::unique_ptr<Supervisor>> Supervisor::create(const SupervisorOptions& options, std::vector<std::string> arguments,
                                                       std::string& which) {
    sigset_t handled;
    sigemptyset(&handled);
    for (int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&handled, number);
    sigprocmask(SIG_BLOCK, &handled, nullptr);
    for (int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_IGN);  // writes tell of it
    raise_descriptor_limit();
    // Whoever waits for the end of that pipe must not have to wait for the workers too.
    if (options.ready_fd > STDERR_FILENO) fcntl(options.ready_fd, F_SETFD, FD_CLOEXEC);
    std::vector<ListenSocket> listeners;
    for (const std::string& address : options.listen) {
        which = address;
        listeners.push_back(WL_TRY(ListenSocket::open(address, options.unix_mode)));
    }
    const int signals = signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals < 0) return Error{Code::io, "signalfd failed", static_cast<uint32_t>(errno)};
    return std::unique_ptr<Supervisor>(new Supervisor(options, std::move(arguments), std::move(listeners), signals));
}

Supervisor::Supervisor(const SupervisorOptions& options, std::vector<std::string> arguments,
                       std::vector<ListenSocket> listeners, int signals)
    : m_options(options),
      m_arguments(std::move(arguments)),
      m_listeners(std::move(listeners)),
      m_signals(signals),
      m_certificates(m_options.certificates),
      m_lobby(options.max_lobby, options.lobby_deadline) {}

Supervisor::~Supervisor() {
    for (const Opening& opening : m_openings) {
        for (const Connection& lane : opening.lanes) close(lane.fd);
    }
    for (const Connection& connection : m_for_door) close(connection.fd);
    if (m_operator_listener >= 0) close(m_operator_listener);
    close(m_signals);
    forget_inventory();
}

int Supervisor::run() {
    choose_name();
    listen_to_operators();
    keep_keeper();
    keep_door();
    keep_pool();
    while (step()) {
    }
    return m_exit_status;
}

int Supervisor::poll_timeout_ms() {
    if (m_wants_worker) return 0;
    auto next = m_lobby.next_deadline();
    for (const Opening& opening : m_openings) next = std::min(next, opening.deadline);
    const bool surplus = has_surplus();
    for (const auto& worker : m_workers) {
        if (surplus && worker->state == WorkerState::idle) next = std::min(next, worker->since + m_options.surplus_idle);
        if (worker->state == WorkerState::leaving) next = std::min(next, worker->since + m_options.stop_deadline);
        if (worker->start_is_watched()) next = std::min(next, worker->since + m_options.start_notice);
    }
    if (m_accept_again > Clock::now()) next = std::min(next, m_accept_again);
    if (m_draining) next = std::min(next, m_drain_deadline);
    if (!m_draining && m_refill_at > Clock::now()) next = std::min(next, m_refill_at);
    if (!m_draining && m_failed_starts > 0) next = std::min(next, m_next_start);
    if (!m_await_load.empty()) next = std::min(next, m_await_load.front().deadline);
    for (const auto& door : m_doors) next = std::min(next, door_deadline(*door));
    if (m_next_door > Clock::now()) next = std::min(next, m_next_door);
    if (may_renew_certificates()) next = std::min(next, m_renew_certificates_at);
    if (awaits_keeper()) next = std::min(next, m_started + m_options.keeper_start);
    next = std::min(next, next_turns());
    if (m_options.keeps_uploads && m_keeper == nullptr && m_next_keeper > Clock::now()) next = std::min(next, m_next_keeper);
    if (next == Clock::time_point::max()) return -1;
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count() + 1;
    return static_cast<int>(std::clamp<int64_t>(wait, 0, 60'000));
}

/// One turn of the loop. False when there is nothing left to do.
bool Supervisor::step() {
    if (m_stop_now || (m_draining && m_workers.empty())) return false;
    std::vector<pollfd> watched{{m_signals, POLLIN, 0}};
    const bool accepting = m_announced && Clock::now() >= m_accept_again;
    const size_t first_listener = watched.size();
    for (const ListenSocket& listener : m_listeners) watched.push_back({accepting ? listener.fd() : -1, POLLIN, 0});
    const size_t first_worker = watched.size();
    const size_t worker_count = m_workers.size();
    for (const auto& worker : m_workers) watched.push_back({worker->control().fd(), POLLIN, 0});
    const size_t first_in_lobby = watched.size();
    for (size_t i = 0; i < m_lobby.size(); ++i) watched.push_back({m_lobby.fd(i), POLLIN | POLLRDHUP, 0});
    const size_t first_door = watched.size();
    const size_t door_count = m_doors.size();
    const auto room_for_those_who_wait = static_cast<short>(m_for_door.empty() ? 0 : POLLOUT);
    for (const auto& each : m_doors)
        watched.push_back(
            {each->control().fd(), static_cast<short>(POLLIN | (each.get() == door() ? room_for_those_who_wait : 0)), 0});
    const size_t operators = watched.size();
    for (const auto& socket : m_operators) watched.push_back({socket->fd(), POLLIN, 0});
    watched.push_back({m_operator_listener, POLLIN, 0});
    watched.push_back({m_gauge != nullptr ? m_gauge->control().fd() : -1, POLLIN, 0});
    const size_t keeper = watched.size();
    watched.push_back({m_keeper != nullptr ? m_keeper->control().fd() : -1, POLLIN, 0});
    watched.push_back({m_certificates.fd(), POLLIN, 0});

    const int ready = poll(watched.data(), watched.size(), poll_timeout_ms());
    if (ready < 0 && errno != EINTR) {
        WL_LOG(error, "server", "poll failed: errno={}", errno);
        m_exit_status = 1;
        return false;
    }
    if (ready > 0) {
        // Before those who come: what a session has told of itself decides whom it takes.
        for (size_t i = 0; i < worker_count; ++i) {
            if (watched[first_worker + i].revents != 0) handle_worker(*m_workers[i]);
        }
        for (size_t i = 0; i < door_count; ++i) {
            if ((watched[first_door + i].revents & POLLOUT) != 0) give_those_who_wait();
            if ((watched[first_door + i].revents & ~POLLOUT) != 0) handle_door(*m_doors[i]);
        }
        hear_lobby(&watched[first_in_lobby]);
        for (size_t i = 0; i < m_listeners.size(); ++i) {
            if (watched[first_listener + i].revents != 0) accept_connections(m_listeners[i]);
        }
        // From the end, because connections leave while we go.
        for (size_t i = m_operators.size(); i-- > 0;) {
            if (watched[operators + i].revents != 0 && !hear_operator(m_operators[i]))
                m_operators.erase(m_operators.begin() + static_cast<std::ptrdiff_t>(i));
        }
        if (watched[keeper].revents != 0) handle_keeper();
        if (watched[keeper - 1].revents != 0) handle_gauge();
        if (watched[keeper - 2].revents != 0) accept_operators();
        if (watched[keeper + 1].revents != 0 && m_certificates.has_changed())
            m_renew_certificates_at = Clock::now() + m_options.certificates_settle;
        if (watched[0].revents != 0) handle_signals();
    }
    look_at_turns();
    expire();
    hand_out_openings();
    end_surplus();
    renew_certificates();
    keep_keeper();
    keep_door();
    keep_pool();
    return true;
}

void Supervisor::hear_lobby(const pollfd* watched) {
    // From the end, because connections leave it while we go.
    for (size_t i = m_lobby.size(); i-- > 0;) {
        if (watched[i].revents == 0) continue;
        auto guest =
            m_lobby.hear(i, (watched[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0, m_lobby.size() <= k_calm_lobby);
        if (guest) route({guest->fd, std::move(guest->peer), guest->preamble});
    }
}

void Supervisor::accept_connections(const ListenSocket& listener) {
    // So many at a time: those who are here are heard in between.
    for (int i = 0; i < 64; ++i) {
        const int fd = accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
                WL_LOG(warn, "server", "accept failed: errno={}; trying again in {} ms", errno, k_accept_pause.count());
                m_accept_again = Clock::now() + k_accept_pause;
            }
            return;
        }
        net::Socket socket(fd);
        std::string peer = socket.peer_address();
        m_lobby.admit(socket.release(), std::move(peer), listener.is_unix());
    }
}

TakeMessage Supervisor::take_message(const Connection& connection) {
    TakeMessage take{};
    std::memcpy(take.session_id, connection.preamble.session.data(), sizeof take.session_id);
    take.preamble_kind = static_cast<uint16_t>(connection.preamble.kind);
    take.lane = connection.preamble.lane;
    take.epoch = connection.preamble.epoch;
    take.plain = connection.preamble.plain ? 1 : 0;
    set_text(take.peer, connection.peer);
    return take;
}

/// Passes a socket on; ours is closed. False if the worker is gone.
bool Supervisor::give(WorkerProcess& worker, const Connection& connection) {
    const auto sent = worker.control().send(ControlKind::take, take_message(connection), connection.fd);
    close(connection.fd);
    if (!sent.ok()) WL_LOG(warn, "server", "{}: dropped: worker {} takes no socket", connection.peer, worker.pid());
    return sent.ok();
}

void Supervisor::expire() {
    const auto now = Clock::now();
    m_lobby.expire();
    announce();
    look_after_doors();
    if (!m_await_load.empty() && m_await_load.front().deadline <= now) answer_without_load();
    while (!m_openings.empty() && m_openings.front().deadline <= now) {
        drop(m_openings.front(), "no worker became free");
        m_openings.pop_front();
    }
    for (const auto& worker : m_workers) {
        if (worker->state == WorkerState::leaving && worker->since + m_options.stop_deadline <= now) worker->signal(SIGKILL);
        if (!worker->start_is_watched() || worker->since + m_options.start_notice > now) continue;
        worker->told_slow = true;
        WL_LOG(warn, "server",
               "worker {} has been starting for {} ms: the driver does not return from cuInit, or is slow to "
               "(without nvidia-persistenced it takes seconds for each GPU)",
               worker->pid(), m_options.start_notice.count());
    }
    if (m_draining && m_drain_deadline <= now) {
        for (const auto& worker : m_workers) {
            if (worker->state != WorkerState::leaving) stop_worker(*worker, "the server is shutting down");
        }
        m_drain_deadline = now + m_options.stop_deadline;
    }
}

void Supervisor::handle_signals() {
    signalfd_siginfo info;
    while (read(m_signals, &info, sizeof info) == sizeof info) {
        switch (info.ssi_signo) {
            case SIGCHLD: reap(); break;
            case SIGHUP: renew_pool(); break;
            default:
                if (std::exchange(m_asked_to_end, true)) {
                    WL_LOG(warn, "server", "stopping at once");
                    m_stop_now = true;
                } else {
                    start_drain(Clock::now() + m_options.drain,
                                log::format("within {} s; another signal stops at once", m_options.drain.count()));
                }
        }
    }
}

/// Again, it changes the deadline only.
void Supervisor::start_drain(Clock::time_point deadline, const std::string& how_long) {
    m_draining = true;
    tell_service_manager("STATUS=draining");
    m_drain_deadline = deadline;
    // The port stays open: sessions that lose their connection come back to it.
    for (Opening& opening : m_openings) drop(opening, "the server is shutting down");
    m_openings.clear();
    WL_LOG(info, "server", "draining: {} sessions may end {}", count(WorkerState::session), how_long);
    for (const auto& worker : m_workers) {
        if (worker->state != WorkerState::session && worker->state != WorkerState::leaving) {
            stop_worker(*worker, "the server is shutting down");
        }
    }
}

/// Workers that have a driver with these settings for a client, or will have one.
size_t Supervisor::available(uint64_t driver_settings) const {
    return static_cast<size_t>(std::count_if(m_workers.begin(), m_workers.end(), [&](const auto& worker) {
        return (worker->state == WorkerState::starting || worker->state == WorkerState::idle) &&
               worker->driver_settings == driver_settings;
    }));
}

size_t Supervisor::count(WorkerState state) const {
    return static_cast<size_t>(
        std::count_if(m_workers.begin(), m_workers.end(), [state](const auto& worker) { return worker->state == state; }));
}

}  // namespace warpline::server
