// The process that never ends: it decides who is served, and by which worker.
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/net/socket.h"
#include "protocol/codec/preamble.h"
#include "server/control/drop_notice.h"
#include "server/daemon/claims.h"
#include "server/daemon/file_watch.h"
#include "server/daemon/helper_process.h"
#include "server/daemon/listen_socket.h"
#include "server/daemon/lobby.h"
#include "server/daemon/turns.h"
#include "server/daemon/worker_process.h"

namespace warpline::server {

/// Bounds and times of the supervisor. Each has a name, a unit and a default; see docs/configuration.md for those that users
/// set.
struct SupervisorOptions {
    std::vector<std::string> listen{"0.0.0.0:14833"};
    unsigned unix_mode = 0600;  ///< of the files of Unix sockets
    uint32_t max_sessions = 64;
    uint32_t warm_workers = 1;  ///< workers kept ready; each holds a driver's memory
    std::chrono::seconds drain{30};
    std::string nvml = "auto";              ///< where the load of the devices is asked for; `none`: nowhere
    int ready_fd = -1;                      ///< -1: nobody waits for us
    bool takes_turns = true;                ///< sessions do, where processors are scarce
    bool keeps_uploads = false;             ///< for the next time that their tenants send them (the keeper)
    std::vector<std::string> certificates;  ///< the files that the door reads: a new one does when they have changed

    // Bounds without a switch: what a peer can make us hold before we know who it is.
    size_t max_lobby = 256;    ///< connections that have not said what they want
    size_t max_for_door = 64;  ///< connections that wait for a door that is being started
    std::chrono::milliseconds lobby_deadline{5'000};
    std::chrono::milliseconds waiting_deadline{30'000};  ///< for a worker; more than a driver needs to start
    std::chrono::milliseconds start_notice{5'000};       ///< a worker that takes longer to start is worth a line
    std::chrono::milliseconds surplus_idle{5'000};       ///< workers beyond those kept ready that serve nobody end after it
    std::chrono::milliseconds refill_pause{100};         ///< between the start of a session and that of the next warm worker
    std::chrono::milliseconds door_start{30'000};        ///< for a door to read its certificates; it is replaced then
    std::chrono::milliseconds door_ping{10'000};         ///< a door that has been silent for so long is asked whether it lives
    std::chrono::milliseconds door_busy_ping{1'000};     ///< likewise, one that has been given a connection
    std::chrono::milliseconds door_silence{6'000};       ///< without an answer to that; it is replaced then
    std::chrono::milliseconds certificates_settle{200};  ///< from a change of one of their files to reading them all
    std::chrono::milliseconds keeper_start{5'000};       ///< that clients wait for the keeper at the server's start
    std::chrono::milliseconds stop_deadline{3'000};      ///< between asking a worker to stop and killing it
};

/// gpu-server's first process: listens, admits, starts and watches workers and the door. It never calls CUDA, and does not have
/// the server's key; those of sessions pass through it, from the door to their workers.
///
/// One thread, one poll loop: a few sockets and a few processes, whose bytes are routed and never read beyond the preamble.
class Supervisor {
public:
    /// Binds the addresses. `arguments` start a worker (this program's own, argv[0] first).
    /// @param which  set when it fails: the address
    /// @errors io (the address is not to be had; detail errno), bad_argument (no such host)
    static Result<std::unique_ptr<Supervisor>> create(const SupervisorOptions& options, std::vector<std::string> arguments,
                                                      std::string& which);
    ~Supervisor();

    /// Runs until SIGTERM or SIGINT. @return the exit status. @blocks the whole life of the server
    int run();

private:
    /// A connection that has said what it wants.
    struct Connection {
        int fd;
        std::string peer;
        protocol::Preamble preamble;
    };
    /// A session that was opened at the door, and waits for a worker.
    struct Opening {
        AssignMessage session;
        uint64_t driver_settings;
        std::chrono::steady_clock::time_point deadline;
        std::deque<Connection> lanes;  ///< that have come meanwhile
    };

    Supervisor(const SupervisorOptions& options, std::vector<std::string> arguments, std::vector<ListenSocket> listeners,
               int signals);

    int poll_timeout_ms();
    bool step();
    void accept_connections(const ListenSocket& listener);
    void hear_lobby(const pollfd* watched);
    std::map<uint64_t, size_t> workers_needed() const;
    void route(Connection connection);
    void hand_out_openings();
    void drop(Opening& opening, const char* why);
    bool give(WorkerProcess& worker, const Connection& connection);
    void expire();

    static TakeMessage take_message(const Connection& connection);

    DoorProcess* door();  // nullptr: none answers at the moment
    void keep_door();
    void start_door();
    void give_to_door(Connection connection);
    void give_those_who_wait();
    void handle_door(DoorProcess& door);
    bool handle_message(DoorProcess& door, const ControlMessage& message);
    void door_answers(DoorProcess& door);
    size_t sessions() const;
    FiguresMessage figures(const AskMessage& ask);
    void tell_figures(pid_t door_pid, const AskMessage& question);
    OpenedMessage open(const OpenMessage& wish);
    void reap_doors();
    void ping(DoorProcess& door);
    std::chrono::steady_clock::time_point door_deadline(const DoorProcess& door) const;
    void look_after_doors();
    void renew_door();
    bool may_renew_certificates();
    void renew_certificates();
    void note_unusable(DoorProcess& door, const std::string& why);

    bool knows_load() const;
    const LoadMessage* load() const;  // nullptr: none, or too old
    bool knows_sheets() const;        // those of now
    bool may_tell_sheets() const;     // those of a moment ago
    void with_load(bool sheets, std::function<void()> then);
    bool ask_gauge(bool sheets);
    void tell_sheets(DoorProcess& door, const AskMessage& ask);
    bool take_sheet(const ControlMessage& message);
    void add_program(TellSheetMessage& told, const SheetMessage::Process& process, const std::string& tenant) const;
    bool hear_gauge();
    void handle_gauge();
    void answer_without_load();
    void reap_gauge();
    void stop_gauge();

    void keep_keeper();
    bool awaits_keeper() const;
    int open_cache(const AssignMessage& session);
    void handle_keeper();
    void reap_keeper();
    nlohmann::json cache_json() const;

    std::chrono::steady_clock::time_point next_turns() const;
    void look_at_turns();

    void keep_pool();
    void handle_worker(WorkerProcess& worker);
    void handle_message(WorkerProcess& worker, const ControlMessage& message);
    void choose_name();
    void pass_request(WorkerProcess& worker, const ControlMessage& message);
    void handle_begun(WorkerProcess& worker, const ControlMessage& message);
    void handle_released(WorkerProcess& worker, const std::string& why);
    void handle_ready(WorkerProcess& worker, const ControlMessage& message);
    void adopt_inventory(int fd);
    void forget_inventory();
    void reap();
    void buried(WorkerProcess& worker, int status);
    void stop_worker(WorkerProcess& worker, const char* why);
    void audit_end(WorkerProcess& worker, int status);

    void listen_to_operators();
    void accept_operators();
    bool hear_operator(const std::shared_ptr<net::Socket>& socket);
    bool answer_operator(net::Socket& socket, bool drained_before);
    std::string why_not_ready() const;
    nlohmann::json status_json();

    void handle_signals();
    void start_drain(std::chrono::steady_clock::time_point deadline, const std::string& how_long);
    void renew_pool();
    void replace_idle_workers();
    void announce();
    void tell_ready_fd();
    const std::string& address() const;
    size_t count(WorkerState state) const;
    size_t available(uint64_t driver_settings) const;
    bool start_worker(uint64_t driver_settings);
    bool refill_is_due(size_t wanted);
    bool has_surplus() const;
    void end_surplus();

    SupervisorOptions m_options;
    std::vector<std::string> m_arguments;
    std::vector<ListenSocket> m_listeners;  // one at least
    int m_signals;

    uint8_t m_server[8] = {};  // which server, of what sessions share

    std::vector<std::unique_ptr<WorkerProcess>> m_workers;
    std::vector<std::unique_ptr<DoorProcess>> m_doors;  // in the order of their starts; those that leave finish what they have
    uint32_t m_failed_doors = 0;
    std::chrono::steady_clock::time_point m_next_door;
    FileWatch m_certificates;
    std::chrono::steady_clock::time_point m_renew_certificates_at;  // zero: they are those that the door has
    /// Who waits to be told how busy the devices are.
    struct AwaitsLoad {
        std::chrono::steady_clock::time_point deadline;
        bool sheets;  ///< and what NVML says of them
        std::function<void()> then;
    };
    std::unique_ptr<HelperProcess> m_gauge;               // started for the first who asks
    std::chrono::steady_clock::time_point m_gauge_asked;  // zero: it has answered
    std::chrono::steady_clock::time_point m_next_gauge;
    LoadMessage m_load{};
    std::chrono::steady_clock::time_point m_load_at;
    std::deque<AwaitsLoad> m_await_load;                // by their deadlines
    bool m_asked_sheets = false;                        // the gauge was asked for them, too
    std::vector<SheetMessage> m_sheets, m_next_sheets;  // by device; the latter are those of the answer that is coming
    std::chrono::steady_clock::time_point m_sheets_at;
    std::unique_ptr<HelperProcess> m_keeper;
    bool m_keeper_answers = false;
    std::chrono::steady_clock::time_point m_next_keeper;
    CacheFigures m_cache_figures{};  // as the keeper said last

    ReadyMessage m_offer{};  // of the worker that was ready last
    bool m_has_offer = false;
    Turns m_turns;
    Claims m_claims;
    Lobby m_lobby;
    std::deque<Opening> m_openings;     // oldest first
    std::deque<Connection> m_for_door;  // likewise
    DropNotice m_drop_notice;

    std::chrono::steady_clock::time_point m_accept_again;  // after running out of descriptors

    int m_inventory = -1;  // what the first worker has found out about the devices, sealed; -1: nobody has yet
    bool m_announced = false;
    const std::chrono::steady_clock::time_point m_started = std::chrono::steady_clock::now();
    int m_operator_listener = -1;                           // -1: there is none
    std::vector<std::shared_ptr<net::Socket>> m_operators;  // shared: who waits for an answer may have gone when it is there

    bool m_draining = false;
    bool m_asked_to_end = false;  // by a signal; another one stops at once
    bool m_stop_now = false;
    std::chrono::steady_clock::time_point m_drain_deadline;
    int m_exit_status = 0;

    bool m_wants_worker = false;                        // a further one, as soon as everybody has been heard
    std::chrono::steady_clock::time_point m_refill_at;  // when warm workers are started anew; zero: none is missing

    // Workers that die before they are ready: start the next one later and later.
    uint32_t m_failed_starts = 0;
    std::chrono::steady_clock::time_point m_next_start;
};

/// A session's name, for logs.
std::string session_text(const uint8_t (&id)[k_session_id_bytes]);

/// "killed by signal 9", "exit status 1".
std::string describe_status(int status);

}  // namespace warpline::server
