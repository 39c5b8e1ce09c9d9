// The supervisor's dealings with its workers: the pool, their messages, their end.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "common/log/log.h"
#include "cuda/abi/driver_settings.h"
#include "server/control/operator_socket.h"
#include "server/daemon/gpu_table.h"
#include "server/daemon/service_manager.h"
#include "server/daemon/supervisor.h"

namespace warpline::server {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds k_first_retry{200};
constexpr std::chrono::milliseconds k_longest_retry{10'000};

}  // namespace

std::string session_text(const uint8_t (&id)[k_session_id_bytes]) {
    std::string text;
    for (uint8_t byte : id) text += log::format("{:02x}", byte);
    return text;
}

std::string describe_status(int status) {
    if (WIFSIGNALED(status)) return log::format("killed by signal {}", WTERMSIG(status));
    return log::format("exit status {}", WEXITSTATUS(status));
}

/// Starts a worker if not enough are ready or on their way. One at a time: on a busy machine the start of a process takes a
/// while, and others are heard meanwhile.
void Supervisor::keep_pool() {
    m_wants_worker = false;
    if (m_draining || m_stop_now) return;
    if (m_failed_starts > 0 && Clock::now() < m_next_start) return;
    // A connection that waits needs a worker of its own; while workers fail to start, one attempt at a time is enough.
    const size_t bound = size_t{m_options.max_sessions} + m_options.warm_workers + 1;
    // The first one tells us the devices, whatever the size of the pool; the others take over what it has found out.
    const bool one_first = m_failed_starts > 0 || m_inventory < 0;
    std::map<uint64_t, size_t> waiting = workers_needed();
    const size_t wanted = one_first ? 1 : m_options.warm_workers + waiting[0];
    if (available(0) >= wanted) m_refill_at = {};
    if (one_first || available(0) < waiting[0] || refill_is_due(wanted)) {
        if (available(0) < wanted && m_workers.size() < bound) {
            m_wants_worker = start_worker(0) && available(0) < wanted;
            return;
        }
    }
    if (one_first) return;
    for (const auto& [settings, count] : waiting) {
        if (settings != 0 && available(settings) < count && m_workers.size() < bound) {
            m_wants_worker = start_worker(settings);
            return;
        }
    }
}

/// A session that starts has the machine and the driver's locks to itself: who takes the place of its worker starts later.
bool Supervisor::refill_is_due(size_t wanted) {
    if (available(0) >= wanted) return false;
    if (m_refill_at == Clock::time_point{}) m_refill_at = Clock::now() + m_options.refill_pause;
    return Clock::now() >= m_refill_at;
}

/// More workers are ready than are kept: they were started for clients who have gone.
bool Supervisor::has_surplus() const {
    const auto idle = std::count_if(m_workers.begin(), m_workers.end(), [](const auto& worker) {
        return worker->state == WorkerState::idle && worker->driver_settings == 0;
    });
    return static_cast<size_t>(idle) > m_options.warm_workers;
}

/// Not at once: who begins anew comes back within moments.
void Supervisor::end_surplus() {
    const auto now = Clock::now();
    for (const auto& worker : m_workers) {
        if (!has_surplus()) return;
        if (worker->state != WorkerState::idle || worker->driver_settings != 0) continue;
        if (now - worker->since < m_options.surplus_idle) continue;
        WL_LOG(info, "server", "worker {} ends: more are ready than are kept (workers_ready)", worker->pid());
        stop_worker(*worker, "more workers are ready than are kept");
    }
}

bool Supervisor::start_worker(uint64_t driver_settings) {
    // A driver that counts the devices in another order knows them by other numbers.
    const bool own_order = (driver_settings & cuda::abi::k_order_by_bus) != 0;
    auto worker = WorkerProcess::spawn(m_arguments, driver_settings, own_order ? -1 : m_inventory);
    if (worker.ok()) {
        m_workers.push_back(std::move(*worker));
        return true;
    }
    WL_LOG(error, "server", "{} (errno {})", worker.error().what, worker.error().detail);
    ++m_failed_starts;
    m_next_start = Clock::now() + k_longest_retry;
    return false;
}

void Supervisor::handle_worker(WorkerProcess& worker) {
    // A worker that floods us gets its turn like everybody else.
    for (int i = 0; i < 16; ++i) {
        auto message = worker.control().receive(false);
        if (!message.ok()) {
            if (message.error().code == Code::deadline) return;
            // Its end of the channel is closed: it exits, or it is no worker any more. SIGCHLD brings the rest.
            if (worker.state != WorkerState::leaving) worker.enter(WorkerState::leaving);
            worker.signal(SIGKILL);
            return;
        }
        const bool first = message->kind == ControlKind::ready && worker.state == WorkerState::starting &&
                           worker.driver_settings == 0 && m_inventory < 0;
        if (message->fd >= 0 && first) {
            adopt_inventory(message->fd);
        } else if (message->kind == ControlKind::borrow && message->fd >= 0) {
            pass_request(worker, *message);
            continue;
        } else if (message->fd >= 0) {
            close(message->fd);  // workers have no other descriptor to give
        }
        handle_message(worker, *message);
    }
}

void Supervisor::handle_message(WorkerProcess& worker, const ControlMessage& message) {
    TextMessage text;
    switch (message.kind) {
        case ControlKind::ready: return handle_ready(worker, message);
        case ControlKind::begun: return handle_begun(worker, message);
        case ControlKind::failed:
            if (!message.read(text)) break;
            WL_LOG(error, "server", "worker {} cannot start: {}", worker.pid(), get_text(text.text));
            worker.end_reason = get_text(text.text);
            return;
        case ControlKind::released:
            if (!message.read(text) || worker.state != WorkerState::greeting) break;
            return handle_released(worker, get_text(text.text));
        case ControlKind::resumed: {
            ResumedMessage resumed;
            if (!message.read(resumed) || worker.state != WorkerState::session) break;
            worker.epoch = std::max(worker.epoch, resumed.epoch);
            return;
        }
        case ControlKind::ended:
            if (!message.read(text)) break;
            worker.end_reason = get_text(text.text);
            return;
        default: break;
    }
    WL_LOG(error, "server", "worker {} sent nonsense (kind {}) and is ended", worker.pid(),
           static_cast<uint32_t>(message.kind));
    worker.end_reason = "the worker sent nonsense to the supervisor";
    worker.signal(SIGKILL);
}

/// From a worker that has not seen a client yet. Sealed, so that none that has seen one can change it.
void Supervisor::adopt_inventory(int fd) {
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0) {
        m_inventory = fd;
        return;
    }
    WL_LOG(error, "server", "the inventory of the devices cannot be sealed (errno {}); each worker takes its own", errno);
    close(fd);
}

void Supervisor::forget_inventory() {
    if (m_inventory >= 0) close(m_inventory);
    m_inventory = -1;
}

void Supervisor::handle_ready(WorkerProcess& worker, const ControlMessage& message) {
    ReadyMessage ready;
    if (!message.read(ready) || worker.state != WorkerState::starting) return worker.signal(SIGKILL);
    worker.enter(WorkerState::idle);
    m_failed_starts = 0;
    if (m_draining) return stop_worker(worker, "the server is shutting down");
    if (worker.driver_settings == 0) {
        // Sheets are of devices by their places.
        if (std::memcmp(m_offer.devices, ready.devices, sizeof ready.devices) != 0) m_sheets_at = {};
        m_offer = ready;
        m_has_offer = true;
    }
    announce();
}

/// Lets clients come, once somebody can answer them and somebody can serve them.
void Supervisor::announce() {
    if (m_announced || !m_has_offer || door() == nullptr || awaits_keeper()) return;
    m_announced = true;
    std::fputs(gpu_table(m_offer).c_str(), stdout);
    std::string addresses;
    for (const ListenSocket& listener : m_listeners) addresses += (addresses.empty() ? "" : ", ") + listener.address();
    std::fprintf(stdout, "Listening on %s, at most %u sessions.\n", addresses.c_str(), m_options.max_sessions);
    std::fflush(stdout);
    tell_ready_fd();
    tell_service_manager("READY=1");
}

/// The first one: the operator knows the server by it.
const std::string& Supervisor::address() const { return m_listeners.front().address(); }

/// Tells whoever started us that clients may come.
void Supervisor::tell_ready_fd() {
    if (m_options.ready_fd < 0) return;
    const std::string line = log::format("ready {}\n", address());
    if (write(m_options.ready_fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
        WL_LOG(warn, "server", "nobody reads --ready-fd {}", m_options.ready_fd);
    }
    if (m_options.ready_fd > STDERR_FILENO) close(m_options.ready_fd);
}

void Supervisor::handle_begun(WorkerProcess& worker, const ControlMessage& message) {
    BegunMessage begun;
    if (!message.read(begun)) return worker.signal(SIGKILL);
    if (worker.state == WorkerState::leaving) return;  // told to stop before we knew
    if (worker.state != WorkerState::greeting) return worker.signal(SIGKILL);
    worker.program = get_text(begun.program);
    worker.host = get_text(begun.host);
    worker.client_pid = static_cast<uint32_t>(begun.pid);
    worker.enter(WorkerState::session);
    worker.session_start = worker.since;
    WL_LOG(info, "audit", "session start id={} tenant=\"{}\" peer={} host=\"{}\" program=\"{}\" client_pid={} worker={}",
           session_text(worker.session_id), worker.tenant, worker.peer, get_text(begun.host), worker.program, begun.pid,
           worker.pid());
}

/// Nothing has come of its session: its client did not come, or was refused.
void Supervisor::handle_released(WorkerProcess& worker, const std::string& why) {
    WL_LOG(info, "audit", "refused peer={} tenant=\"{}\" reason=\"{}\"", worker.peer, worker.tenant, why);
    worker.peer.clear();
    worker.tenant.clear();
    worker.enter(WorkerState::idle);
    if (m_draining) stop_worker(worker, "the server is shutting down");
}

void Supervisor::stop_worker(WorkerProcess& worker, const char* why) {
    if (worker.end_reason.empty()) worker.end_reason = why;
    worker.enter(WorkerState::leaving);
    worker.asked_to_stop = true;
    if (!worker.control().send_text(ControlKind::stop, why).ok()) worker.signal(SIGKILL);
}

void Supervisor::reap() {
    for (auto it = m_workers.begin(); it != m_workers.end();) {
        int status = 0;
        if (waitpid((*it)->pid(), &status, WNOHANG) != (*it)->pid()) {
            ++it;
            continue;
        }
        (*it)->forget_process();
        (*it)->copy_last_messages();
        handle_worker(**it);  // its last words
        buried(**it, status);
        it = m_workers.erase(it);
    }
    reap_doors();
    reap_gauge();
    reap_keeper();
}

void Supervisor::buried(WorkerProcess& worker, int status) {
    if (worker.session_start != Clock::time_point{}) return audit_end(worker, status);
    if (worker.state == WorkerState::greeting) {
        WL_LOG(warn, "audit", "refused peer={} tenant=\"{}\" reason=\"the worker ended: {}\"", worker.peer, worker.tenant,
               describe_status(status));
        return;
    }
    if (worker.asked_to_stop || m_draining) return;
    ++m_failed_starts;
    const auto wait = std::min(k_longest_retry, k_first_retry * (1u << std::min(m_failed_starts, 10u)));
    m_next_start = Clock::now() + wait;
    WL_LOG(error, "server", "a worker ended before it served anybody ({}); the next one starts in {} ms",
           describe_status(status), wait.count());
    if (!m_announced) {
        // Nobody has been served yet and the first attempt failed: whoever starts us should hear of it now.
        m_exit_status = 1;
        m_stop_now = true;
    }
}

void Supervisor::audit_end(WorkerProcess& worker, int status) {
    const SessionCounters& totals = worker.counters();
    const double seconds = std::chrono::duration<double>(Clock::now() - worker.session_start).count();
    std::string reason = worker.end_reason.empty() ? describe_status(status) : worker.end_reason;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) reason += " (" + describe_status(status) + ")";
    WL_LOG(info, "audit",
           "session end id={} tenant=\"{}\" peer={} program=\"{}\" seconds={:.3f} calls={} received_bytes={} sent_bytes={} "
           "found_bytes={} round_trip_us={} missed_pings={} reason=\"{}\"",
           session_text(worker.session_id), worker.tenant, worker.peer, worker.program, seconds, totals.calls.load(),
           totals.received_bytes.load(), totals.sent_bytes.load(), totals.found_bytes.load(), totals.round_trip_us.load(),
           totals.missed_pings.load(), reason);
}

/// After SIGHUP: the idle workers hold the old certificates and settings; new ones take their place.
void Supervisor::renew_pool() {
    if (m_draining) return;
    forget_inventory();  // the devices that are offered may be others now
    renew_door();
    stop_gauge();
    WL_LOG(info, "server", "SIGHUP: workers that serve nobody are replaced; running sessions keep what they have");
    replace_idle_workers();
}

void Supervisor::replace_idle_workers() {
    for (const auto& worker : m_workers) {
        if (worker->state == WorkerState::idle || worker->state == WorkerState::starting) stop_worker(*worker, "renewed");
    }
}

}  // namespace warpline::server
