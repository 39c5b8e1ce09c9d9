// The supervisor's dealings with the door: its life, the sockets that it gets, the figures that it asks for.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "common/log/log.h"
#include "server/daemon/supervisor.h"

namespace warpline::server {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds k_first_door_retry{200};
constexpr std::chrono::milliseconds k_longest_door_retry{10'000};
/// A door that has lived for so long did not die of how it was started.
constexpr std::chrono::seconds k_door_is_well{30};

}  // namespace

DoorProcess* Supervisor::door() { return m_doors.empty() || m_doors.back()->leaving ? nullptr : m_doors.back().get(); }

/// Starts the door if there is none. While the server drains, too: who asks is told so.
void Supervisor::keep_door() {
    if (m_stop_now || door() != nullptr || Clock::now() < m_next_door) return;
    auto started = DoorProcess::spawn(m_arguments);
    if (started.ok()) {
        m_doors.push_back(std::move(*started));
        return;
    }
    WL_LOG(error, "server", "the door cannot be started: {} (errno {})", started.error().what, started.error().detail);
    m_next_door = Clock::now() + k_longest_door_retry;
}

/// Passes a socket on; ours is closed.
void Supervisor::give_to_door(const Waiting& connection) {
    const bool sent =
        door() != nullptr && door()->control().send(ControlKind::take, take_message(connection), connection.fd).ok();
    if (!sent) WL_LOG(warn, "server", "{}: dropped: the door does not take it", connection.peer);
    close(connection.fd);
}

void Supervisor::handle_door(DoorProcess& door) {
    // A door that floods us gets its turn like everybody else.
    for (int i = 0; i < 64; ++i) {
        auto message = door.control().receive(false);
        if (!message.ok() && message.error().code == Code::deadline) return;
        AskMessage ask;
        if (message.ok() && message->fd >= 0) close(message->fd);  // it has none to give
        if (!message.ok() || message->kind != ControlKind::ask || !message->read(ask)) {
            // Its end is closed: it exits, or it is no door any more. SIGCHLD brings the rest.
            door.leaving = true;
            door.kill_process();
            return;
        }
        // If its channel is full, who asks finds that nobody answers.
        static_cast<void>(door.control().send(ControlKind::figures, figures(ask)).ok());
    }
}

/// Counts who has a session, and who will have one soon, so that clients that look for the emptiest server at the same time do
/// not all find the same one.
FiguresMessage Supervisor::figures(const AskMessage& ask) {
    const auto now = Clock::now();
    FiguresMessage figures{};
    figures.question = ask.question;
    figures.max_sessions = m_options.max_sessions;
    figures.sessions = static_cast<uint32_t>(count(WorkerState::session) + count(WorkerState::greeting) + m_waiting.size() +
                                             m_claims.count(now));
    if (!m_draining && figures.sessions < std::min(ask.claim_below, m_options.max_sessions)) {
        m_claims.keep(now);
        ++figures.sessions;
        figures.claimed = 1;
    }
    figures.workers_ready = static_cast<uint32_t>(count(WorkerState::idle));
    figures.draining = m_draining ? 1 : 0;
    figures.device_count = m_offer.device_count;
    figures.driver_version = m_offer.driver_version;
    figures.software = m_offer.software;
    return figures;
}

void Supervisor::reap_doors() {
    for (auto it = m_doors.begin(); it != m_doors.end();) {
        int status = 0;
        if (waitpid((*it)->pid(), &status, WNOHANG) != (*it)->pid()) {
            ++it;
            continue;
        }
        (*it)->forget_process();
        if (!(*it)->asked_to_stop) {
            if (Clock::now() - (*it)->since > k_door_is_well) m_failed_doors = 0;
            const auto wait = std::min(k_longest_door_retry, k_first_door_retry * (1u << std::min(m_failed_doors++, 10u)));
            m_next_door = Clock::now() + wait;
            WL_LOG(error, "server", "the door ended ({}); it is started again in {} ms", describe_status(status), wait.count());
        }
        it = m_doors.erase(it);
    }
}

/// The next door has the certificates and settings of now; this one finishes what it has in hand.
void Supervisor::renew_door() {
    DoorProcess* before = door();
    if (before == nullptr) return;
    before->leaving = before->asked_to_stop = true;
    if (!before->control().send_text(ControlKind::stop, "renewed").ok()) before->kill_process();
}

}  // namespace warpline::server
