// The supervisor's dealings with the door: its life, the sockets that it gets, the figures that it asks for.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/log/log.h"
#include "server/control/worker_ends.h"
#include "server/daemon/supervisor.h"

namespace warpline::server {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds k_first_door_retry{200};
constexpr std::chrono::milliseconds k_longest_door_retry{10'000};
/// A door that has lived for so long did not die of how it was started.
constexpr std::chrono::seconds k_door_is_well{30};
/// Who looks at a deadline so much later has been stopped as well, or had no processor, and gives as much time again.
constexpr std::chrono::seconds k_late_ourselves{1};

}  // namespace

DoorProcess* Supervisor::door() {
    const auto found =
        std::find_if(m_doors.rbegin(), m_doors.rend(), [](const auto& door) { return door->answers && !door->leaving; });
    return found != m_doors.rend() ? found->get() : nullptr;
}

/// Starts the door if there is none. While the server drains, too: who asks is told so.
void Supervisor::keep_door() {
    const bool has_one = std::any_of(m_doors.begin(), m_doors.end(), [](const auto& door) { return !door->leaving; });
    if (m_stop_now || has_one || Clock::now() < m_next_door) return;
    start_door();
}

void Supervisor::start_door() {
    auto started = HelperProcess::start(m_arguments, k_door_argument);
    if (started.ok()) {
        m_doors.push_back(std::make_unique<DoorProcess>(*started));
        return;
    }
    WL_LOG(error, "server", "the door cannot be started: {} (errno {})", started.error().what, started.error().detail);
    m_next_door = Clock::now() + k_longest_door_retry;
}

/// Passes a socket on; ours is closed. While a door is being started, or has no turn on a busy machine, those who come wait.
void Supervisor::give_to_door(Connection connection) {
    uint32_t error = EAGAIN;
    if (door() != nullptr && m_for_door.empty()) {
        const auto message = take_message(connection);
        const auto sent = door()->control().try_send(ControlKind::take, as_bytes(&message, sizeof message), connection.fd);
        if (sent.ok()) {
            close(connection.fd);
            door()->was_given = true;
            return;
        }
        error = sent.error().detail;
    }
    if (error == EAGAIN) {
        m_for_door.push_back(std::move(connection));
        if (m_for_door.size() <= m_options.max_for_door) return;
        connection = std::move(m_for_door.front());
        m_for_door.pop_front();
    }
    if (const uint64_t dropped = m_drop_notice.count(); dropped > 0) {
        WL_LOG(warn, "server", "{}: dropped: the door does not take it (errno {}; {} dropped since the last such line)",
               connection.peer, error, dropped);
    }
    close(connection.fd);
}

/// Those who have waited for a door, in the order in which they came, as far as it takes them.
void Supervisor::give_those_who_wait() {
    for (Connection& connection : std::exchange(m_for_door, {})) give_to_door(std::move(connection));
}

void Supervisor::door_answers(DoorProcess& door) {
    door.answers = true;
    // Those before it finish what they have in hand.
    for (const auto& other : m_doors) {
        if (other.get() == &door || other->leaving) continue;
        other->leaving = other->asked_to_stop = true;
        if (!other->control().send_text(ControlKind::stop, "renewed").ok()) other->kill_process();
    }
    if (door.for_certificates) {
        WL_LOG(info, "server", "the certificates have changed, and are those of all who come from now on; sessions go on");
        // The key may lie elsewhere now, where they can look.
        if (!m_draining) replace_idle_workers();
        stop_gauge();
    }
    announce();
    give_those_who_wait();
}

void Supervisor::handle_door(DoorProcess& door) {
    // A door that floods us gets its turn like everybody else.
    for (int i = 0; i < 64; ++i) {
        auto message = door.control().receive(false);
        if (!message.ok() && message.error().code == Code::deadline) return;
        if (message.ok() && message->fd >= 0) close(message->fd);  // it has none to give
        door.heard_at = Clock::now();
        door.pinged_at = {};
        door.was_given = false;
        if (message.ok() && handle_message(door, *message)) continue;
        // Its end is closed: it exits, or it is no door any more. SIGCHLD brings the rest.
        door.leaving = true;
        door.kill_process();
        return;
    }
}

/// False: it is no door any more. If its channel is full, who asks finds that nobody answers.
bool Supervisor::handle_message(DoorProcess& door, const ControlMessage& message) {
    AskMessage question;
    OpenMessage wish;
    TextMessage text;
    // Of one that has ended only the reason is of use.
    if (door.reaped() && message.kind != ControlKind::failed) return true;
    switch (message.kind) {
        case ControlKind::answers: door_answers(door); return true;
        case ControlKind::pong: return true;
        case ControlKind::ask:
            if (!message.read(question)) return false;
            if (question.wants_load != 0 || question.wants_sheets != 0) {
                with_load(question.wants_sheets != 0, [this, question, pid = door.pid()] { tell_figures(pid, question); });
            } else {
                static_cast<void>(door.control().send(ControlKind::figures, figures(question)).ok());
            }
            return true;
        case ControlKind::open:
            if (!message.read(wish)) return false;
            static_cast<void>(door.control().send(ControlKind::opened, open(wish)).ok());
            return true;
        case ControlKind::failed:
            if (message.read(text)) note_unusable(door, get_text(text.text));
            return false;
        default: return false;
    }
}

/// Counts who has a session, and who will have one soon, so that clients that look for the emptiest server at the same time do
/// not all find the same one.
FiguresMessage Supervisor::figures(const AskMessage& ask) {
    const auto now = Clock::now();
    FiguresMessage figures{};
    figures.question = ask.question;
    figures.max_sessions = m_options.max_sessions;
    figures.sessions = static_cast<uint32_t>(sessions() + m_claims.count(now));
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
    if (const LoadMessage* now_busy = load(); ask.wants_load != 0 && now_busy != nullptr) figures.load = *now_busy;
    return figures;
}

/// To a door that may have ended since it asked.
void Supervisor::tell_figures(pid_t door_pid, const AskMessage& question) {
    for (const auto& door : m_doors) {
        if (door->pid() != door_pid) continue;
        if (question.wants_sheets != 0) tell_sheets(*door, question);
        static_cast<void>(door->control().send(ControlKind::figures, figures(question)).ok());
    }
}

/// Whether its channel takes it or not: a door that does not read does not live either.
void Supervisor::ping(DoorProcess& door) {
    if (door.pinged_at != Clock::time_point{}) return;
    door.pinged_at = Clock::now();
    static_cast<void>(door.control().send(ControlKind::ping).ok());
}

/// When there is something to be done about it.
Clock::time_point Supervisor::door_deadline(const DoorProcess& door) const {
    if (!door.answers) return door.heard_at + m_options.door_start;
    if (door.pinged_at == Clock::time_point{})
        return door.heard_at + (door.was_given ? m_options.door_busy_ping : m_options.door_ping);
    return door.pinged_at + m_options.door_silence;
}

/// Replaces a door that is stopped, or hangs. It has no session in its hands; who was speaking with it comes again.
void Supervisor::look_after_doors() {
    const auto now = Clock::now();
    for (const auto& door : m_doors) {
        const auto deadline = door_deadline(*door);
        if (now < deadline) continue;
        if (door->answers && door->pinged_at == Clock::time_point{}) {
            ping(*door);
            continue;
        }
        if (now > deadline + k_late_ourselves) {
            (door->answers ? door->pinged_at : door->heard_at) = now;
            continue;
        }
        const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(now - door->heard_at);
        WL_LOG(error, "server", "the door (process {}) has not answered for {} ms, and is replaced", door->pid(),
               silence.count());
        door->leaving = door->asked_to_stop = true;
        // In case it never ends.
        door->pinged_at = now + std::chrono::hours(24);
        door->kill_process();
    }
}

void Supervisor::reap_doors() {
    for (auto it = m_doors.begin(); it != m_doors.end();) {
        int status = 0;
        if (waitpid((*it)->pid(), &status, WNOHANG) != (*it)->pid()) {
            ++it;
            continue;
        }
        (*it)->forget_process();
        handle_door(**it);  // its last words
        if (!m_announced) {
            // Nobody has been served yet: whoever starts us should hear of it now.
            m_exit_status = 1;
            m_stop_now = true;
        } else if (!(*it)->asked_to_stop && !(*it)->told_why) {
            if (Clock::now() - (*it)->since > k_door_is_well) m_failed_doors = 0;
            const auto wait = std::min(k_longest_door_retry, k_first_door_retry * (1u << std::min(m_failed_doors++, 10u)));
            m_next_door = Clock::now() + wait;
            WL_LOG(error, "server", "the door ended ({}); {}", describe_status(status),
                   door() != nullptr ? "the one before goes on" : log::format("it is started again in {} ms", wait.count()));
        }
        it = m_doors.erase(it);
    }
}

/// The next door has the certificates and settings of now; this one goes on until that one answers.
void Supervisor::renew_door() {
    m_renew_certificates_at = {};
    if (!m_stop_now) start_door();
}

/// Not while a door is being started: it may have read what was there before, and answer later than one that has read what is
/// there now.
bool Supervisor::may_renew_certificates() {
    return m_renew_certificates_at != Clock::time_point{} && m_announced && door() != nullptr &&
           std::none_of(m_doors.begin(), m_doors.end(), [](const auto& door) { return !door->answers && !door->leaving; });
}

/// Whether they are usable is found out by a door that reads them; nothing happens if they are not.
void Supervisor::renew_certificates() {
    if (m_stop_now || !may_renew_certificates() || Clock::now() < m_renew_certificates_at) return;
    m_renew_certificates_at = {};
    const size_t doors = m_doors.size();
    start_door();
    if (m_doors.size() > doors) m_doors.back()->for_certificates = true;
}

void Supervisor::note_unusable(DoorProcess& door, const std::string& why) {
    if (!door.for_certificates || this->door() == nullptr) {
        WL_LOG(error, "server", "the door cannot open: {}", why);
        return;
    }
    door.told_why = true;
    WL_LOG(warn, "server",
           "the certificates have changed, and cannot be used: {}; those of before stay until they change again", why);
}

}  // namespace warpline::server
