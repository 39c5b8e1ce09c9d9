// A thread for each connection, few in number and short of life, and one that speaks with the supervisor.
#include "server/door/door.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <system_error>
#include <thread>

#include "common/base/mutex.h"
#include "common/log/log.h"
#include "common/net/tls.h"
#include "protocol/codec/preamble.h"
#include "protocol/session/status.h"
#include "server/control/confinement.h"
#include "server/control/drop_notice.h"
#include "server/control/greeting.h"
#include "server/control/worker_ends.h"

namespace warpline::server {

namespace {

using Clock = std::chrono::steady_clock;

/// Connections at a time; further ones are dropped. Each is a thread that mostly waits.
constexpr size_t k_max_connections = 256;
/// For TLS.
constexpr std::chrono::milliseconds k_handshake_timeout{5'000};
/// For all questions of a connection.
constexpr std::chrono::milliseconds k_conversation{30'000};
/// For the supervisor, which answers at once if it lives.
constexpr std::chrono::milliseconds k_figures_timeout{5'000};
/// A client that looks for the emptiest of many servers asks again when others were faster.
constexpr unsigned k_max_questions = 64;

class Door {
public:
    explicit Door(const config::Settings& settings)
        : m_settings(settings), m_control(k_door_control_fd), m_wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

    int run(pid_t supervisor);

private:
    /// Handles all that the supervisor has sent. False if it is gone.
    bool hear_supervisor();
    void admit(const ControlMessage& message);
    void drop(const TakeMessage& take);
    void converse(const TakeMessage& take, net::Socket socket);
    void tell_gone(const TakeMessage& take, net::Socket socket);
    void answer_questions(const TakeMessage& take, net::Socket socket);
    Result<void> answer_one(net::TlsChannel& channel, Clock::time_point deadline);
    std::optional<FiguresMessage> figures(uint32_t claim_below) WL_EXCLUDES(m_mutex);
    void connection_ended() WL_EXCLUDES(m_mutex);
    bool is_idle() WL_EXCLUDES(m_mutex);

    const config::Settings& m_settings;
    ControlChannel m_control;
    const int m_wake;
    std::optional<net::TlsContext> m_tls;
    std::string m_name;        // of this machine
    bool m_stopping = false;   // the main thread's
    DropNotice m_drop_notice;  // likewise

    Mutex m_mutex;
    ConditionVariable m_answered;
    size_t m_connections WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_last_question WL_GUARDED_BY(m_mutex) = 0;
    std::map<uint64_t, std::optional<FiguresMessage>> m_questions WL_GUARDED_BY(m_mutex);  // asked, not yet taken
};

int Door::run(pid_t supervisor) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) return 1;
    signal(SIGPIPE, SIG_IGN);
    // What a terminal or systemd sends to all of us is for the supervisor to act on.
    for (int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
    std::string problem;
    auto tls = server_tls(m_settings, problem);
    if (!tls.ok()) {
        WL_LOG(error, "server", "the door cannot open: {}", problem);
        return 1;
    }
    m_tls = std::move(*tls);
    // A supervisor that is stopped must not stop the threads that ask it.
    fcntl(m_control.fd(), F_SETFL, O_NONBLOCK);
    char name[256] = {};
    if (gethostname(name, sizeof name - 1) == 0) m_name = name;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (const auto confined = confine_process(); !confined.ok()) {
        WL_LOG(warn, "server", "the door runs without a system-call filter: {} (errno {})", confined.error().what,
               confined.error().detail);
    }
    // Threads end by their own deadlines, so a door that is to stop waits for the last one.
    while (!m_stopping || !is_idle()) {
        pollfd watched[2] = {{m_control.fd(), POLLIN, 0}, {m_wake, POLLIN, 0}};
        if (poll(watched, 2, -1) < 0) continue;
        uint64_t count = 0;
        if (watched[1].revents != 0) static_cast<void>(!read(m_wake, &count, sizeof count));
        if (watched[0].revents != 0 && !hear_supervisor()) return 0;
    }
    return 0;
}

bool Door::hear_supervisor() {
    for (;;) {
        auto message = m_control.receive(false);
        if (!message.ok()) return message.error().code == Code::deadline;
        switch (message->kind) {
            case ControlKind::take: admit(*message); break;
            case ControlKind::stop: m_stopping = true; break;
            case ControlKind::figures: {
                FiguresMessage figures;
                if (!message->read(figures)) return false;
                MutexLock lock(m_mutex);
                const auto question = m_questions.find(figures.question);
                if (question != m_questions.end()) question->second = figures;
                m_answered.notify_all();
                break;
            }
            default: return false;
        }
    }
}

void Door::admit(const ControlMessage& message) {
    TakeMessage take{};
    net::Socket socket(message.fd);
    if (!message.read(take) || !socket.valid()) return;
    {
        MutexLock lock(m_mutex);
        if (m_connections >= k_max_connections) return drop(take);
        ++m_connections;
    }
    try {
        std::thread([this, take, moved = std::move(socket)]() mutable {
            converse(take, std::move(moved));
            connection_ended();
        }).detach();
    } catch (const std::system_error&) {
        connection_ended();
        drop(take);
    }
}

/// Many at once are one line.
void Door::drop(const TakeMessage& take) {
    if (const uint64_t dropped = m_drop_notice.count(); dropped > 0) {
        WL_LOG(warn, "server", "{}: dropped: {} connections speak with the door already ({} dropped since the last such line)",
               get_text(take.peer), k_max_connections, dropped);
    }
}

void Door::connection_ended() {
    MutexLock lock(m_mutex);
    --m_connections;
    const uint64_t one = 1;
    static_cast<void>(!write(m_wake, &one, sizeof one));
}

bool Door::is_idle() {
    MutexLock lock(m_mutex);
    return m_connections == 0;
}

void Door::converse(const TakeMessage& take, net::Socket socket) {
    if (take.preamble_kind == static_cast<uint16_t>(protocol::Preamble::Kind::further_connection)) {
        tell_gone(take, std::move(socket));
    } else {
        answer_questions(take, std::move(socket));
    }
}

/// Somebody wants to continue a session that this server does not have, any more or ever.
void Door::tell_gone(const TakeMessage& take, net::Socket socket) {
    protocol::ResumeRequest request;
    const auto channel = greet_again(*m_tls, take, std::move(socket), request);
    if (!channel) return;
    WL_LOG(info, "audit", "refused peer={} tenant=\"{}\" reason=\"it names a session that has ended\"", get_text(take.peer),
           channel->peer_name());
    const auto answer = protocol::encode_resume_answer({0, Code::unknown_handle, "this session has ended on the server"});
    if (answer.ok()) send_and_end(*channel, *answer);
}

void Door::answer_questions(const TakeMessage& take, net::Socket socket) {
    std::string why;
    net::TlsChannel::Options options;
    options.handshake_timeout = k_handshake_timeout;
    const auto channel = net::TlsChannel::handshake(*m_tls, std::move(socket), "", options, why);
    if (!channel.ok()) {
        WL_LOG(info, "audit", "refused peer={} reason=\"{} ({})\"", get_text(take.peer), why, to_string(channel.error().code));
        return;
    }
    const auto deadline = Clock::now() + k_conversation;
    for (unsigned answered = 0; answered < k_max_questions; ++answered) {
        const auto outcome = answer_one(**channel, deadline);
        if (outcome.ok()) continue;
        // Who has got an answer may leave as he likes.
        if (answered > 0 && outcome.error().code == Code::connection_lost) return;
        WL_LOG(info, "audit", "refused peer={} tenant=\"{}\" reason=\"it asks for the status, and then: {} ({})\"",
               get_text(take.peer), (*channel)->peer_name(), outcome.error().what, to_string(outcome.error().code));
        return;
    }
}

Result<void> Door::answer_one(net::TlsChannel& channel, Clock::time_point deadline) {
    const auto frame = WL_TRY(protocol::read_single_frame(
        protocol::FrameKind::status, [&](MutableBytesView bytes) { return channel.read_exact(bytes, deadline); }));
    const auto request = WL_TRY(protocol::decode_status_request(frame));
    const auto now = figures(request.claim_below);
    if (!now) return Error{Code::deadline, "the supervisor does not answer"};
    protocol::ServerStatus status;
    status.server_name = m_name;
    status.server_version = WARPLINE_VERSION;
    status.sessions = now->sessions;
    status.max_sessions = now->max_sessions;
    status.workers_ready = now->workers_ready;
    status.draining = now->draining != 0;
    status.device_count = now->device_count;
    status.driver_version = now->driver_version;
    status.software_driver = now->software != 0;
    status.claimed = now->claimed != 0;
    const Bytes answer = WL_TRY(protocol::encode_status(status));
    const BytesView pieces[] = {answer};
    return channel.write(pieces);
}

std::optional<FiguresMessage> Door::figures(uint32_t claim_below) {
    const auto deadline = Clock::now() + k_figures_timeout;
    MutexLock lock(m_mutex);
    const uint64_t question = ++m_last_question;
    const auto [place, made] = m_questions.try_emplace(question);
    AskMessage ask{};
    ask.question = question;
    ask.claim_below = claim_below;
    if (m_control.send(ControlKind::ask, ask).ok()) {
        while (!place->second && m_answered.wait_until(m_mutex, deadline)) {
        }
    }
    const std::optional<FiguresMessage> answer = place->second;
    m_questions.erase(place);
    return answer;
}

}  // namespace

int door_main(const config::Settings& settings, pid_t supervisor) {
    // Never destroyed: a door leaves by _exit, with threads at work.
    auto* door = new Door(settings);
    const int status = door->run(supervisor);
    std::fflush(stderr);
    _exit(status);
}

}  // namespace warpline::server
