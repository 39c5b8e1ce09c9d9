// A thread for each connection, few in number and short of life, and one that speaks with the supervisor.
#include "server/door/door.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <variant>

#include "common/base/mutex.h"
#include "common/log/log.h"
#include "common/net/tls.h"
#include "protocol/codec/preamble.h"
#include "protocol/session/open.h"
#include "protocol/session/status.h"
#include "server/control/confinement.h"
#include "server/control/drop_notice.h"
#include "server/control/greeting.h"
#include "server/control/process_user.h"
#include "server/control/reception.h"
#include "server/control/worker_ends.h"
#include "server/door/unix_tenants.h"

namespace warpline::server {

namespace {

using Clock = std::chrono::steady_clock;

/// Connections in TLS at a time. Each is a thread that mostly waits.
constexpr size_t k_max_handshakes = 512;
/// Conversations after TLS.
constexpr size_t k_max_conversations = 256;
/// For the first question, which comes right behind TLS.
constexpr std::chrono::milliseconds k_first_question{5'000};
/// For all questions of a connection.
constexpr std::chrono::milliseconds k_conversation{30'000};
/// For the supervisor, which answers at once if it lives.
constexpr std::chrono::milliseconds k_figures_timeout{5'000};
/// A client that looks for the emptiest of many servers asks again when others were faster.
constexpr unsigned k_max_questions = 64;

template <size_t N>
bool fill_random(uint8_t (&bytes)[N]) {
    return getrandom(bytes, N, 0) == static_cast<ssize_t>(N);
}

class Door {
public:
    explicit Door(const config::Settings& settings)
        : m_settings(settings), m_control(k_helper_control_fd), m_wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

    int run(pid_t supervisor);

private:
    using Answer = std::variant<std::monostate, FiguresMessage, OpenedMessage>;

    Result<void> prepare(std::string& problem);
    /// Handles all that the supervisor has sent. False if it is gone.
    bool hear_supervisor();
    template <typename Message>
    bool take_answer(const ControlMessage& message) WL_EXCLUDES(m_mutex);
    bool take_sheet(const ControlMessage& message) WL_EXCLUDES(m_mutex);
    void admit(const ControlMessage& message);
    void note_dropped(const TakeMessage& take, size_t count) WL_EXCLUDES(m_mutex);
    void note_refused(const TakeMessage& take, const Error& error, const std::string& why) WL_EXCLUDES(m_mutex);

    void converse(const TakeMessage& take, net::Socket socket, Reception::Guest& guest);
    void tell_gone(const TakeMessage& take, net::Channel& channel);
    void answer_questions(const TakeMessage& take, net::Channel& channel);
    Result<void> answer_one(const TakeMessage& take, net::Channel& channel, Clock::time_point deadline);
    Result<Bytes> tell_status(const protocol::Frame& frame, const std::string& tenant);
    Result<Bytes> open_session(const protocol::Frame& frame, const TakeMessage& take, const std::string& tenant);
    /// Asks the supervisor: `message.question` is filled in.
    template <typename Reply, typename Message>
    std::optional<Reply> ask(ControlKind kind, Message& message, std::vector<protocol::DeviceSheet>* sheets = nullptr)
        WL_EXCLUDES(m_mutex);

    bool begin_conversation() WL_EXCLUDES(m_mutex);
    void end_conversation() WL_EXCLUDES(m_mutex);
    void connection_ended() WL_EXCLUDES(m_mutex);
    bool is_idle() WL_EXCLUDES(m_mutex);

    const config::Settings& m_settings;
    ControlChannel m_control;
    const int m_wake;
    std::optional<net::TlsContext> m_tls;
    UnixTenants m_unix_tenants;
    std::string m_name;       // of this machine
    bool m_stopping = false;  // the main thread's
    Reception m_reception{k_max_handshakes};

    Mutex m_mutex;
    ConditionVariable m_answered;
    DropNotice m_drop_notice WL_GUARDED_BY(m_mutex);
    DropNotice m_refusal_notice WL_GUARDED_BY(m_mutex);
    size_t m_connections WL_GUARDED_BY(m_mutex) = 0;
    size_t m_conversations WL_GUARDED_BY(m_mutex) = 0;  // those of them that are known
    uint64_t m_last_question WL_GUARDED_BY(m_mutex) = 0;
    std::map<uint64_t, Answer> m_questions WL_GUARDED_BY(m_mutex);                           // asked, not yet taken
    std::map<uint64_t, std::vector<protocol::DeviceSheet>> m_sheets WL_GUARDED_BY(m_mutex);  // that come before the answer
};

int Door::run(pid_t supervisor) {
    for (int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_IGN);  // writes tell of it
    // What a terminal or systemd sends to all of us is for the supervisor to act on.
    for (int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
    std::string problem;
    if (!prepare(problem).ok()) {
        static_cast<void>(m_control.send_text(ControlKind::failed, problem));
        return 1;
    }
    // After the change of users, which undoes it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) return 1;
    // A supervisor that is stopped must not stop the threads that ask it.
    fcntl(m_control.fd(), F_SETFL, O_NONBLOCK);
    char name[256] = {};
    if (gethostname(name, sizeof name - 1) == 0) m_name = name;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (const auto confined = confine_process(); !confined.ok()) {
        WL_LOG(warn, "server", "the door runs without a system-call filter: {} (errno {})", confined.error().what,
               confined.error().detail);
    }
    if (!m_control.send(ControlKind::answers).ok()) return 0;
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

/// Reads the key while we may, and becomes somebody who may not.
Result<void> Door::prepare(std::string& problem) {
    // Other processes of the same user, a worker that a session took over for one, do not look into this one's memory.
    prctl(PR_SET_DUMPABLE, 0);
    const auto credentials =
        WL_TRY(net::load_credentials(m_settings.path("ca"), m_settings.path("certificate"), m_settings.path("key"), problem));
    m_tls = WL_TRY(net::TlsContext::create(net::TlsRole::server, credentials, problem));
    // "self" is who we are now.
    m_unix_tenants = WL_TRY(UnixTenants::parse(m_settings.text_list("unix_tenants"), problem));
    WL_TRY(become_user({m_settings.text("door_user"), "the door", "door_user"}, problem));
    prctl(PR_SET_DUMPABLE, 0);
    return {};
}

template <typename Message>
bool Door::take_answer(const ControlMessage& message) {
    Message answer{};
    if (!message.read(answer)) return false;
    MutexLock lock(m_mutex);
    const auto question = m_questions.find(answer.question);
    if (question != m_questions.end()) question->second = answer;
    m_answered.notify_all();
    return true;
}

bool Door::take_sheet(const ControlMessage& message) {
    TellSheetMessage told;
    if (!message.read_used(told)) return false;
    protocol::DeviceSheet sheet;
    sheet.name = get_text(told.row.name);
    std::copy(std::begin(told.row.uuid), std::end(told.row.uuid), sheet.uuid.begin());
    sheet.pci_bus_id = get_text(told.row.pci_bus_id);
    sheet.total_bytes = told.row.total_bytes;
    sheet.compute_major = told.row.compute_major;
    sheet.compute_minor = told.row.compute_minor;
    sheet.multiprocessors = told.row.multiprocessors;
    sheet.answers.assign(told.answers, told.answers + told.bytes);
    for (uint32_t i = 0; i < told.process_count; ++i)
        sheet.processes.push_back({get_text(told.processes[i].host), told.processes[i].pid, told.processes[i].bytes});
    MutexLock lock(m_mutex);
    const auto question = m_sheets.find(told.question);
    if (question != m_sheets.end()) question->second.push_back(std::move(sheet));
    return true;
}

bool Door::hear_supervisor() {
    for (;;) {
        auto message = m_control.receive(false);
        if (!message.ok()) return message.error().code == Code::deadline;
        switch (message->kind) {
            case ControlKind::take: admit(*message); break;
            case ControlKind::stop: m_stopping = true; break;
            case ControlKind::ping: static_cast<void>(m_control.send(ControlKind::pong).ok()); break;
            case ControlKind::figures:
                if (!take_answer<FiguresMessage>(*message)) return false;
                break;
            case ControlKind::tell_sheet:
                if (!take_sheet(*message)) return false;
                break;
            case ControlKind::opened:
                if (!take_answer<OpenedMessage>(*message)) return false;
                break;
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
        ++m_connections;
    }
    // Ends with whoever has it last, whether a thread could be started or not.
    const std::shared_ptr<void> presence(nullptr, [this](void*) { connection_ended(); });
    const size_t dropped = m_reception.admit(
        std::move(socket), std::string(host_of(get_text(take.peer))),
        [this, take, presence](net::Socket taken, Reception::Guest& guest) { converse(take, std::move(taken), guest); });
    if (dropped > 0) note_dropped(take, dropped);
}

/// Many at once are one line.
void Door::note_dropped(const TakeMessage& take, size_t count) {
    uint64_t all = 0;
    {
        MutexLock lock(m_mutex);
        for (; count > 0; --count) all += m_drop_notice.count();
    }
    if (all == 0) return;
    WL_LOG(
        warn, "server",
        "{}: others are dropped: too many connections are in TLS, or speak with the door ({} dropped since the last such line)",
        get_text(take.peer), all);
}

/// Whose certificate is refused is told in any case; of those who do not get so far, one in a second.
void Door::note_refused(const TakeMessage& take, const Error& error, const std::string& why) {
    uint64_t refused = 1;
    if (error.code != Code::auth_failed) {
        MutexLock lock(m_mutex);
        refused = m_refusal_notice.count();
    }
    if (refused == 0) return;
    WL_LOG(info, "audit", "refused peer={} reason=\"{} ({})\"{}", get_text(take.peer), why, to_string(error.code),
           refused > 1 ? log::format(" ({} since the last such line)", refused) : "");
}

bool Door::begin_conversation() {
    MutexLock lock(m_mutex);
    if (m_conversations >= k_max_conversations) return false;
    ++m_conversations;
    return true;
}

void Door::end_conversation() {
    MutexLock lock(m_mutex);
    --m_conversations;
}

void Door::connection_ended() {
    {
        MutexLock lock(m_mutex);
        --m_connections;
    }
    const uint64_t one = 1;
    static_cast<void>(!write(m_wake, &one, sizeof one));
}

bool Door::is_idle() {
    MutexLock lock(m_mutex);
    return m_connections == 0;
}

void Door::converse(const TakeMessage& take, net::Socket socket, Reception::Guest& guest) {
    std::string why;
    const auto who_is = [this](const net::PeerUser& user, std::string& reason) {
        return m_unix_tenants.tenant_of(user, reason);
    };
    const auto channel =
        take.plain != 0 ? greet_user(take, std::move(socket), who_is, why) : greet(*m_tls, std::move(socket), why);
    guest.is_known();
    if (!channel.ok()) return note_refused(take, channel.error(), why);
    if (!begin_conversation()) return note_dropped(take, 1);
    if (take.preamble_kind == static_cast<uint16_t>(protocol::Preamble::Kind::lane)) {
        tell_gone(take, **channel);
    } else {
        answer_questions(take, **channel);
    }
    end_conversation();
}

/// Somebody wants to continue a session that this server does not have, any more or ever.
void Door::tell_gone(const TakeMessage& take, net::Channel& channel) {
    const auto request = read_resume(channel);
    if (!request) return;
    // A preamble that was damaged on the way names a session that never was. Who gets no answer comes again.
    if (std::memcmp(request->session.data(), take.session_id, sizeof take.session_id) != 0) {
        WL_LOG(warn, "session",
               "{}: what the connection began with was damaged on the way: it names another session than {} does",
               get_text(take.peer), channel.peer_name());
        return;
    }
    WL_LOG(info, "audit", "refused peer={} tenant=\"{}\" reason=\"it names a session that has ended\"", get_text(take.peer),
           channel.peer_name());
    const auto answer = protocol::encode_resume_answer({0, Code::unknown_handle, "this session has ended on the server"});
    if (answer.ok()) send_and_end(channel, *answer);
}

void Door::answer_questions(const TakeMessage& take, net::Channel& channel) {
    const auto deadline = Clock::now() + k_conversation;
    for (unsigned answered = 0; answered < k_max_questions; ++answered) {
        const auto outcome = answer_one(take, channel, answered == 0 ? Clock::now() + k_first_question : deadline);
        if (outcome.ok()) continue;
        // Who has got an answer may leave as he likes.
        if (answered > 0 && outcome.error().code == Code::connection_lost) return;
        WL_LOG(info, "audit", "refused peer={} tenant=\"{}\" reason=\"it speaks with the door, and then: {} ({})\"",
               get_text(take.peer), channel.peer_name(), outcome.error().what, to_string(outcome.error().code));
        return;
    }
}

Result<void> Door::answer_one(const TakeMessage& take, net::Channel& channel, Clock::time_point deadline) {
    const auto frame =
        WL_TRY(protocol::read_single_frame([&](MutableBytesView bytes) { return channel.read_exact(bytes, deadline); }));
    Bytes answer;
    switch (frame.header.kind) {
        case protocol::FrameKind::status: answer = WL_TRY(tell_status(frame, channel.peer_name())); break;
        case protocol::FrameKind::open: answer = WL_TRY(open_session(frame, take, channel.peer_name())); break;
        default: return Error{Code::malformed, "a frame that nobody says at the door"};
    }
    const BytesView pieces[] = {answer};
    return channel.write(pieces);
}

Result<Bytes> Door::tell_status(const protocol::Frame& frame, const std::string& tenant) {
    const auto request = WL_TRY(protocol::decode_status_request(frame));
    AskMessage question{};
    question.claim_below = request.claim_below;
    question.wants_load = request.wants_load ? 1 : 0;
    question.wants_sheets = request.wants_sheets ? 1 : 0;
    set_text(question.tenant, tenant);
    protocol::ServerStatus status;
    const auto now = ask<FiguresMessage>(ControlKind::ask, question, &status.sheets);
    if (!now) return Error{Code::deadline, "the supervisor does not answer"};
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
    for (uint32_t i = 0; i < std::min<uint32_t>(now->load.device_count, k_max_devices); ++i) {
        const DeviceFigures& device = now->load.devices[i];
        protocol::DeviceLoad load{std::nullopt, device.total_bytes, device.free_bytes};
        if (device.utilisation_percent >= 0) load.utilisation_percent = static_cast<uint32_t>(device.utilisation_percent);
        status.devices.push_back(load);
    }
    return protocol::encode_status(status);
}

Result<Bytes> Door::open_session(const protocol::Frame& frame, const TakeMessage& take, const std::string& tenant) {
    const auto request = WL_TRY(protocol::decode_open(frame));
    OpenMessage wish{};
    if (!fill_random(wish.session_id) || !fill_random(wish.key)) return Error{Code::internal, "no random numbers"};
    wish.driver_settings = request.driver_settings;
    set_text(wish.tenant, tenant);
    set_text(wish.peer, get_text(take.peer));
    const auto verdict = ask<OpenedMessage>(ControlKind::open, wish);
    if (!verdict) return Error{Code::deadline, "the supervisor does not answer"};
    protocol::OpenAnswer answer;
    answer.refused =
        verdict->refused <= static_cast<uint32_t>(Code::internal) ? static_cast<Code>(verdict->refused) : Code::internal;
    answer.reason = get_text(verdict->reason);
    answer.expires_seconds = verdict->expires_seconds;
    std::memcpy(answer.session.data(), wish.session_id, sizeof wish.session_id);
    std::memcpy(answer.key.data(), wish.key, sizeof wish.key);
    return protocol::encode_open_answer(answer);
}

template <typename Reply, typename Message>
std::optional<Reply> Door::ask(ControlKind kind, Message& message, std::vector<protocol::DeviceSheet>* sheets) {
    const auto deadline = Clock::now() + k_figures_timeout;
    MutexLock lock(m_mutex);
    message.question = ++m_last_question;
    const auto place = m_questions.try_emplace(message.question).first;
    const auto sheets_place = m_sheets.try_emplace(message.question).first;
    if (m_control.send(kind, message).ok()) {
        while (std::holds_alternative<std::monostate>(place->second) && m_answered.wait_until(m_mutex, deadline)) {
        }
    }
    const Answer answer = place->second;
    if (sheets != nullptr) *sheets = std::move(sheets_place->second);
    m_questions.erase(place);
    m_sheets.erase(sheets_place);
    const Reply* reply = std::get_if<Reply>(&answer);
    return reply != nullptr ? std::optional(*reply) : std::nullopt;
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
