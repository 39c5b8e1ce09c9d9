// From the start of the process to the end of its session.
#include "server/worker/worker.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>

#include "common/config/switches.h"
#include "common/log/log.h"
#include "common/net/tls.h"
#include "protocol/codec/preamble.h"
#include "server/control/confinement.h"
#include "server/control/greeting.h"
#include "server/control/privileges.h"
#include "server/control/reception.h"
#include "server/control/worker_ends.h"
#include "server/driver/find_driver.h"
#include "server/driver/primary_context.h"
#include "server/worker/connection_from_client.h"
#include "server/worker/inventory_record.h"

namespace warpline::server {

namespace {

/// How long a client that is sent away has for reading why.
constexpr std::chrono::milliseconds k_goodbye_patience{1000};
/// How long the calls of a client that has said goodbye have to end: as long as it waits for us. A process that ends natively
/// takes along what it left behind, a kernel that never ends and the launches that wait for it included.
constexpr std::chrono::milliseconds k_last_calls_patience{2000};
/// How long a session is kept whose client has probably gone, and nobody will say so.
constexpr std::chrono::milliseconds k_doubtful_patience{5000};
/// How long the client of a session has to come and to say what it is.
constexpr std::chrono::milliseconds k_hello_deadline{10000};
/// Connections in TLS at a time: the client has one, and who has seen its preamble may send others.
constexpr size_t k_max_lane_handshakes = 8;

class Worker final : private ConnectionHost {
public:
    Worker(const config::Settings& settings, net::TlsContext tls)
        : m_settings(settings),
          m_control(k_worker_control_fd),
          m_wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
          m_tls(std::move(tls)) {}

    int run(pid_t supervisor);

private:
    bool prepare(pid_t supervisor, std::string& problem);
    bool become_confined(pid_t supervisor, std::string& problem);
    bool know_devices(std::string& problem);
    void warm_up();
    void watch_messages();
    bool serve(const ControlMessage& message);
    ConnectionFromClient::Options connection_options() const;
    bool wait_for_news();
    std::optional<std::chrono::steady_clock::time_point> next_deadline(bool& orphaned);
    bool has_session() const { return m_connection != nullptr && m_connection->has_session(); }
    bool handle_control();
    void take(const ControlMessage& message);
    void lend(const ControlMessage& message);
    void start_sharing();
    void greet_lane(const TakeMessage& take, const AssignMessage& session, net::Socket socket, Reception::Guest& guest);
    void handle_lanes();
    void begin(std::unique_ptr<net::Channel> channel);
    void resume(std::unique_ptr<net::Channel> channel, uint32_t epoch, const protocol::ResumeRequest& request);
    void end_session(const std::string& reason);
    void release(const std::string& reason);

    // ConnectionHost
    void begins(const BegunMessage& message) override;
    void session_sees(const std::vector<DeviceSnapshot>& visible) override;
    void closing() override;
    void orphaned(std::string reason, bool doubtful) override;
    void resumed() override;
    void program_died() override;
    void lane_given_up(uint16_t lane, uint64_t received) override;
    void over(std::string reason) override;
    std::optional<std::string> over_reason();
    std::string orphan_reason();
    void wake();

    const config::Settings& m_settings;
    ControlChannel m_control;
    const int m_wake;
    std::vector<OutputCapture::Source> m_output;
    std::unique_ptr<OutputCapture> m_messages;  // of a worker without a session: to the log, lest the driver fill the pipe
    std::unique_ptr<SharedCounters> m_counters;
    std::unique_ptr<Driver> m_driver;
    std::vector<DeviceSnapshot> m_devices;
    std::vector<CUdevice> m_warm;  // devices whose primary context exists already
    int m_inventory = -1;          // what this worker has found out for all; -1: it took over what another one has
    const net::TlsContext m_tls;
    Reception m_reception{k_max_lane_handshakes};
    AssignMessage m_assigned{};              // the session that we are to serve
    std::unique_ptr<UploadCache> m_uploads;  // of that session; null: nothing is kept
    std::unique_ptr<Sharing> m_sharing;      // likewise
    std::unique_ptr<ConnectionFromClient> m_connection;
    std::chrono::steady_clock::time_point m_hello_deadline;
    std::string m_stop_reason;  // the main thread's: the supervisor wants us to end

    /// A connection whose client has the session's key.
    struct Lane {
        std::array<uint8_t, k_session_id_bytes> session;
        uint16_t number;
        uint32_t epoch;
        std::unique_ptr<net::Channel> channel;
        std::optional<protocol::ResumeRequest> request;  // none: the session begins with it
    };

    Mutex m_mutex;
    std::deque<Lane> m_lanes WL_GUARDED_BY(m_mutex);  // that have come, and are not looked at yet
    std::deque<std::pair<uint16_t, uint64_t>> m_lanes_given_up
        WL_GUARDED_BY(m_mutex);  // likewise: number, and what was received
    std::optional<std::string> m_over WL_GUARDED_BY(m_mutex);
    std::optional<std::chrono::steady_clock::time_point> m_close_deadline WL_GUARDED_BY(m_mutex);
    std::optional<std::chrono::steady_clock::time_point> m_orphan_deadline WL_GUARDED_BY(m_mutex);  // there is no connection
    std::string m_lost_by WL_GUARDED_BY(m_mutex);                                                   // … because of this
};

int Worker::run(pid_t supervisor) {
    // Two ways to learn that the supervisor is gone, because each has a gap: the signal if it died before we asked for it, the
    // channel while we are busy.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) return 1;
    for (int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_IGN);  // writes tell of it
    // What a terminal or systemd sends to all of us is for the supervisor to act on: it drains, and tells us.
    for (int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
    std::string problem;
    if (!prepare(supervisor, problem)) {
        static_cast<void>(m_control.send_text(ControlKind::failed, problem));
        return 1;
    }
    // Where it is not set yet. Not before the driver is ready: NVIDIA's runs a setuid program where device nodes are missing.
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const auto confined = confine_process();
    if (!confined.ok()) {
        WL_LOG(warn, "server", "workers run without a system-call filter: {} (errno {})", confined.error().what,
               confined.error().detail);
    }
    ReadyMessage ready = summarise(*m_driver, m_devices);
    const bool told = m_control.send(ControlKind::ready, ready, m_inventory).ok();
    if (m_inventory >= 0) close(m_inventory);
    if (!told) return 1;
    for (;;) {
        auto message = m_control.receive(true);
        if (!message.ok()) return 0;
        if (message->kind == ControlKind::stop) return 0;
        if (message->kind == ControlKind::assign && !serve(*message)) return 0;
        // A lane that comes when its session is over already.
        if (message->kind == ControlKind::take || message->kind == ControlKind::lend) net::Socket late(message->fd);
    }
}

bool Worker::prepare(pid_t supervisor, std::string& problem) {
    auto counters = SharedCounters::open(k_worker_counters_fd);
    if (!counters.ok()) {
        problem = counters.error().what;
        return false;
    }
    m_counters = std::move(*counters);
    const auto output = OutputCapture::redirect_stdout();
    if (!output.ok()) {
        problem = output.error().what;
        return false;
    }
    m_output = {{*output, 1, -1}, {k_worker_messages_fd, 2, k_worker_log_fd}};
    // A driver that is our own client library would connect to a server: to us.
    for (const char* name : {"WARPLINE_SERVERS", "WARPLINE_CONFIG"}) unsetenv(name);
    const auto chosen = m_settings.text_list("devices");
    if (!chosen.empty() && chosen != std::vector<std::string>{"all"}) {
        std::string list;
        for (const std::string& device : chosen) list += (list.empty() ? "" : ",") + device;
        setenv("CUDA_VISIBLE_DEVICES", list.c_str(), 1);
    }
    if (!become_confined(supervisor, problem)) return false;
    watch_messages();
    m_driver = find_driver(m_settings.path("driver"), problem);
    if (m_driver == nullptr) return false;
    if (!know_devices(problem)) return false;
    warm_up();
    return true;
}

/// Before there is a second thread, or a driver.
bool Worker::become_confined(pid_t supervisor, std::string& problem) {
    if (!give_up_privileges(m_settings, Privileges::worker, problem).ok()) return false;
    // After the change of users, which undoes it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == supervisor) return true;
    problem = "the supervisor is gone";
    return false;
}

/// Takes over what another worker has found out about the devices, or finds it out for all.
bool Worker::know_devices(std::string& problem) {
    auto devices = read_inventory(k_worker_inventory_fd);
    const bool known = devices.ok() && !devices->empty();
    if (!known) devices = take_inventory(*m_driver, true);
    if (!devices.ok()) {
        problem = log::format("{}: {} (CUDA error {})", m_driver->path(), devices.error().what, devices.error().detail);
        return false;
    }
    m_devices = std::move(*devices);
    if (m_devices.empty()) problem = log::format("{} has no device", m_driver->path());
    if (known || m_devices.empty()) return known;
    const auto written = write_inventory(m_devices);
    if (!written.ok()) {
        problem = written.error().what;
        return false;
    }
    m_inventory = *written;
    return true;
}

/// Makes the contexts that a session shall find.
void Worker::warm_up() {
    const std::string& where = m_settings.text("ready_contexts");
    for (const DeviceSnapshot& device : m_devices) {
        if (where == "none" || (where == "first" && device.driver_device != 0)) continue;
        if (!is_shared(device)) {
            if (m_inventory >= 0) {
                WL_LOG(info, "server",
                       "device {} gives a context to one process at a time (compute mode): workers make theirs when a program "
                       "goes there",
                       device.driver_device);
            }
            continue;
        }
        CUcontext context = nullptr;
        if (retain_primary(*m_driver, device.driver_device, context) == CUDA_SUCCESS) m_warm.push_back(device.driver_device);
    }
}

/// Contexts on devices that the session does not see would only take memory there.
void Worker::session_sees(const std::vector<DeviceSnapshot>& visible) {
    for (const CUdevice warm : m_warm) {
        const bool seen = std::any_of(visible.begin(), visible.end(),
                                      [warm](const DeviceSnapshot& device) { return device.driver_device == warm; });
        if (!seen && (*m_driver)->cuDevicePrimaryCtxRelease_v2 != nullptr) (*m_driver)->cuDevicePrimaryCtxRelease_v2(warm);
    }
}

void Worker::watch_messages() {
    m_messages = std::make_unique<OutputCapture>(std::vector{m_output[1]}, [](int, BytesView) {});
}

/// Serves the session that the supervisor gives us. False if the worker has to exit: the session began, or it shall stop.
bool Worker::serve(const ControlMessage& message) {
    if (!message.read(m_assigned)) return false;
    if (message.fd >= 0) m_uploads = UploadCache::open(message.fd);
    start_sharing();
    log::set_process_name(log::format("worker {} {}", getpid(), get_text(m_assigned.peer)));
    {
        MutexLock lock(m_mutex);
        m_over.reset();
        m_close_deadline.reset();
        m_orphan_deadline.reset();
        m_lanes.clear();
        m_lanes_given_up.clear();
    }
    m_hello_deadline = std::chrono::steady_clock::now() + k_hello_deadline;
    while (wait_for_news()) {
    }
    const std::string reason = m_stop_reason.empty() ? over_reason().value_or("the supervisor is gone") : m_stop_reason;
    const bool had_session = has_session();
    if (m_connection)
        m_connection->say_goodbye(m_stop_reason.empty() ? Code::ok : Code::shutting_down, reason, k_goodbye_patience);
    if (had_session) {
        end_session(reason);
        return false;
    }
    m_connection.reset();
    m_uploads.reset();
    m_sharing.reset();
    m_assigned = {};
    if (!m_messages) watch_messages();
    release(reason);
    return m_stop_reason.empty();
}

void Worker::start_sharing() {
    Sharing::ServerId server;
    Sharing::SessionId session;
    std::copy_n(m_assigned.server, server.size(), server.begin());
    std::copy_n(m_assigned.session_id, session.size(), session.begin());
    m_sharing = std::make_unique<Sharing>(server, session, [this](const ShareRequest& request, int fd) {
        return m_control.send(ControlKind::borrow, request, fd).ok();
    });
}

ConnectionFromClient::Options Worker::connection_options() const {
    ConnectionFromClient::Options options;
    options.credit = {m_settings.bytes("credit_bytes"), static_cast<uint64_t>(m_settings.integer("credit_calls"))};
    options.heartbeat =
        protocol::HeartbeatOptions::of(m_settings.seconds("heartbeat_seconds"), m_settings.seconds("heartbeat_lost_seconds"),
                                       m_settings.seconds("heartbeat_stopped_seconds"));
    options.grace = m_settings.seconds("grace_seconds");
    options.memory_credit_bytes = m_settings.bytes("memory_credit");
    options.session_memory_bytes = m_settings.bytes("session_memory");
    options.session.max_staging_bytes = m_settings.bytes("staging_memory");
    options.session.sharing = m_sharing.get();
    options.output = m_output;
    options.uploads = m_uploads.get();
    options.compression = m_settings.boolean("compression");
    options.tell_executed = m_settings.boolean("tell_executed");
    options.bulk_lanes = static_cast<uint16_t>(m_settings.integer("bulk_lanes"));
    std::string problem;
    const config::Switches switches(m_settings, problem);
    if (!problem.empty()) WL_LOG(warn, "worker", "{}", problem);
    options.compact_calls = switches.uses(config::Optimisation::compact);
    options.fits_link = switches.uses(config::Optimisation::parts);
    options.idle_threads_read = switches.uses(config::Optimisation::reading);
    options.shares_memory = switches.uses(config::Optimisation::shm);
    if (switches.uses(config::Optimisation::spin)) options.session.look_first = options.spin = config::spin_of(m_settings);
    options.tenant = get_text(m_assigned.tenant);
    char name[256] = {};
    if (gethostname(name, sizeof name - 1) == 0) options.server_name = name;
    return options;
}

/// The first lane of the session is there.
void Worker::begin(std::unique_ptr<net::Channel> channel) {
    m_messages.reset();
    auto started = ConnectionFromClient::start(std::move(channel), *m_driver, m_devices, m_counters->counters(), *this,
                                               connection_options());
    if (!started.ok()) return over(started.error().what);
    m_connection = std::move(*started);
    m_hello_deadline = std::chrono::steady_clock::now() + k_hello_deadline;
}

std::optional<std::chrono::steady_clock::time_point> Worker::next_deadline(bool& orphaned) {
    if (!has_session()) return m_hello_deadline;
    MutexLock lock(m_mutex);
    orphaned = m_orphan_deadline.has_value() && !m_close_deadline;
    return m_close_deadline ? m_close_deadline : m_orphan_deadline;
}

/// Waits for the supervisor or the connection. False when the session is over.
bool Worker::wait_for_news() {
    pollfd watched[2] = {{m_control.fd(), POLLIN, 0}, {m_wake, POLLIN, 0}};
    const bool had_session = has_session();
    bool orphaned = false;
    const auto deadline = next_deadline(orphaned);
    int timeout_ms = -1;
    if (deadline) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
        timeout_ms = static_cast<int>(std::max<int64_t>(left.count() + 1, 0));
    }
    const int ready = poll(watched, 2, timeout_ms);
    if (ready < 0) return true;
    // Hello may have come meanwhile: its deadline is another one's then.
    if (ready == 0 && deadline && had_session == has_session()) {
        over(orphaned       ? orphan_reason()
             : had_session  ? "the client has finished, and left calls behind that wait"
             : m_connection ? "the client said nothing after TLS"
                            : "the client did not come after it had opened the session");
    }
    if (watched[1].revents != 0) {
        uint64_t count = 0;
        static_cast<void>(!read(m_wake, &count, sizeof count));
    }
    if (watched[0].revents != 0 && !handle_control()) return false;
    handle_lanes();
    return !over_reason().has_value();
}

bool Worker::handle_control() {
    auto message = m_control.receive(false);
    if (!message.ok()) return message.error().code == Code::deadline;
    TextMessage text;
    if (message->kind == ControlKind::stop) {
        m_stop_reason = message->read(text) ? get_text(text.text) : "stopped";
        return false;
    }
    if (message->kind == ControlKind::take) take(*message);
    if (message->kind == ControlKind::lend) lend(*message);
    return true;
}

/// Another session of the tenant asks for what this one shares.
void Worker::lend(const ControlMessage& message) {
    ShareRequest request{};
    net::Socket answer_to(message.fd);
    if (message.read(request) && answer_to.valid() && m_sharing) m_sharing->lend(request, std::move(answer_to));
}

/// A connection that names our session. Whether it is the client's shows in TLS, which costs this thread nothing.
void Worker::take(const ControlMessage& message) {
    TakeMessage take{};
    net::Socket socket(message.fd);
    if (!message.read(take) || !socket.valid()) return;
    std::string host(host_of(get_text(take.peer)));
    const size_t dropped = m_reception.admit(std::move(socket), std::move(host),
                                             [this, take, session = m_assigned](net::Socket taken, Reception::Guest& guest) {
                                                 greet_lane(take, session, std::move(taken), guest);
                                             });
    if (dropped > 0) WL_LOG(warn, "session", "{}: others that name the session are dropped", get_text(take.peer));
}

/// On a thread of the connection's own.
void Worker::greet_lane(const TakeMessage& take, const AssignMessage& session, net::Socket socket, Reception::Guest& guest) {
    net::PresharedKey key;
    std::memcpy(key.key.data(), session.key, sizeof session.key);
    key.identity = lane_identity(take);
    std::string why;
    auto channel = greet_by_key(m_tls, take, std::move(socket), key, why);
    guest.is_known();
    if (!channel.ok()) {
        WL_LOG(warn, "session", "{}: a connection that names the session is refused: {}", get_text(take.peer), why);
        return;
    }
    Lane lane{{}, take.lane, take.epoch, std::move(*channel), std::nullopt};
    std::memcpy(lane.session.data(), session.session_id, sizeof session.session_id);
    if (take.epoch > 0 || take.lane == protocol::k_death_lane) {
        lane.request = read_resume(*lane.channel);
        if (!lane.request) return;
        // Each of the two has a lane of its own: a watcher does not continue sessions.
        if (lane.request->dead != (take.lane == protocol::k_death_lane)) return;
    }
    {
        MutexLock lock(m_mutex);
        m_lanes.push_back(std::move(lane));
    }
    wake();
}

void Worker::handle_lanes() {
    std::deque<Lane> lanes;
    std::deque<std::pair<uint16_t, uint64_t>> given_up;
    {
        MutexLock lock(m_mutex);
        lanes.swap(m_lanes);
        given_up.swap(m_lanes_given_up);
    }
    for (Lane& lane : lanes) {
        if (std::memcmp(lane.session.data(), m_assigned.session_id, lane.session.size()) != 0) continue;
        if (!lane.request && !m_connection) {
            begin(std::move(lane.channel));
        } else if (lane.request && has_session() && protocol::is_bulk_lane(lane.number)) {
            m_connection->resume_bulk(std::move(lane.channel), lane.number, lane.epoch, *lane.request);
        } else if (lane.request && has_session()) {
            resume(std::move(lane.channel), lane.epoch, *lane.request);
        }
    }
    for (const auto& [lane, received] : given_up)
        if (has_session()) m_connection->give_up_bulk(lane, received);
}

void Worker::lane_given_up(uint16_t lane, uint64_t received) {
    {
        MutexLock lock(m_mutex);
        m_lanes_given_up.emplace_back(lane, received);
    }
    wake();
}

void Worker::begins(const BegunMessage& message) { static_cast<void>(m_control.send(ControlKind::begun, message)); }

void Worker::closing() {
    {
        MutexLock lock(m_mutex);
        m_close_deadline = std::chrono::steady_clock::now() + k_last_calls_patience;
    }
    wake();
}

void Worker::orphaned(std::string reason, bool doubtful) {
    // To the connection of a program that was killed nobody comes back. Whoever stands between and restarts is given a moment.
    const std::chrono::milliseconds grace = m_settings.seconds("grace_seconds");
    const auto patience = doubtful ? std::min(grace, k_doubtful_patience) : grace;
    WL_LOG(warn, "session", "the connection is lost ({}); the session is kept for {} ms", reason, patience.count());
    {
        MutexLock lock(m_mutex);
        m_orphan_deadline = std::chrono::steady_clock::now() + patience;
        m_lost_by = std::move(reason);
    }
    wake();
}

std::string Worker::orphan_reason() {
    MutexLock lock(m_mutex);
    return log::format("the connection was lost ({}), and the client did not come back (grace_seconds)", m_lost_by);
}

void Worker::resume(std::unique_ptr<net::Channel> channel, uint32_t epoch, const protocol::ResumeRequest& request) {
    const std::string peer = channel->peer_address();
    if (!m_connection->resume(std::move(channel), epoch, request)) return;
    static_cast<void>(m_control.send(ControlKind::resumed, ResumedMessage{epoch}));
    WL_LOG(info, "session", "the session goes on over a connection from {}", peer);
}

void Worker::resumed() {
    MutexLock lock(m_mutex);
    m_orphan_deadline.reset();
}

void Worker::program_died() {
    {
        MutexLock lock(m_mutex);
        // Who has said goodbye and left calls behind may be gone before they are executed; they have a deadline of their own.
        if (m_close_deadline) return;
    }
    over("the program was killed");
}

void Worker::over(std::string reason) {
    {
        MutexLock lock(m_mutex);
        if (!m_over) m_over = std::move(reason);
    }
    wake();
}

std::optional<std::string> Worker::over_reason() {
    MutexLock lock(m_mutex);
    return m_over;
}

void Worker::wake() {
    const uint64_t one = 1;
    static_cast<void>(!write(m_wake, &one, sizeof one));
}

void Worker::release(const std::string& reason) { static_cast<void>(m_control.send_text(ControlKind::released, reason)); }

/// The process ends without further ado: the driver frees what the session had, and nothing can be left behind.
void Worker::end_session(const std::string& reason) {
    m_connection->count_bytes();
    static_cast<void>(m_control.send_text(ControlKind::ended, reason));
    std::fflush(stderr);
    _exit(0);
}

}  // namespace

int worker_main(const config::Settings& settings, pid_t supervisor) {
    log::set_output(k_worker_log_fd);
    auto tls = net::TlsContext::create_for_keys(net::TlsRole::server);
    if (!tls.ok()) {
        WL_LOG(error, "server", "a worker cannot start: {}", tls.error().what);
        return 1;
    }
    // Never destroyed: a worker leaves by _exit, with threads inside the driver.
    auto* worker = new Worker(settings, std::move(*tls));
    const int status = worker->run(supervisor);
    std::fflush(stderr);
    _exit(status);
}

}  // namespace warpline::server
