// A worker as its supervisor sees it.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "server/control/control.h"
#include "server/control/driver_text.h"
#include "server/daemon/turns.h"

namespace warpline::server {

enum class WorkerState : uint8_t {
    starting,  ///< initialising its driver
    idle,      ///< ready for a socket
    greeting,  ///< has a session whose client has not said Hello yet
    session,   ///< the client has
    leaving,   ///< told to stop, or has said that its session ended
};

/// The supervisor's side of one worker. Destroying it kills the process.
class WorkerProcess {
public:
    /// Starts gpu-server again as a worker, with the same arguments.
    ///
    /// @param driver_settings  that its driver is to start with
    /// @param inventory_fd  of read_inventory(); -1: the worker takes it and hands it in
    /// @errors  io (no descriptors, no process)
    /// @blocks  no
    static Result<std::unique_ptr<WorkerProcess>> spawn(const std::vector<std::string>& arguments, uint64_t driver_settings,
                                                        int inventory_fd);
    ~WorkerProcess();
    WorkerProcess(const WorkerProcess&) = delete;
    WorkerProcess& operator=(const WorkerProcess&) = delete;

    pid_t pid() const { return m_pid; }
    ControlChannel& control() { return m_control; }
    SessionCounters& counters() { return m_counters->counters(); }
    Turns::Session& turns() { return m_turns; }
    void signal(int number) const;
    /// Told by the supervisor that the process has been reaped: its number may belong to somebody else now.
    void forget_process() { m_reaped = true; }
    /// What the process wrote to its standard error and nobody has read, a crash's messages for instance, goes to ours.
    void copy_last_messages() const { copy_pending(m_messages_fd, STDERR_FILENO); }

    void enter(WorkerState next) {
        state = next;
        since = std::chrono::steady_clock::now();
    }

    /// True until it has started, or its slowness was told.
    bool start_is_watched() const { return state == WorkerState::starting && !told_slow; }

    const uint64_t driver_settings;
    WorkerState state = WorkerState::starting;
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();  ///< of the state
    bool told_slow = false;                                                          ///< that it takes long to start
    std::string peer;                                                                ///< address:port of who opened its session
    std::string tenant;                                                              ///< whose session it is
    std::string program;                                                             ///< what the client calls itself
    std::string host;                                                                ///< where it runs
    uint32_t client_pid = 0;                                                         ///< there
    std::string end_reason;
    uint8_t session_id[k_session_id_bytes] = {};
    uint32_t epoch = 0;                                     ///< of the session's newest command lane
    std::chrono::steady_clock::time_point session_start{};  ///< zero until Hello
    bool asked_to_stop = false;

private:
    WorkerProcess(pid_t pid, uint64_t settings, int control_fd, int messages_fd, std::unique_ptr<SharedCounters> counters)
        : driver_settings(settings),
          m_pid(pid),
          m_messages_fd(messages_fd),
          m_control(control_fd),
          m_counters(std::move(counters)),
          m_turns(m_counters->counters()) {}

    pid_t m_pid;
    const int m_messages_fd;  // the pipe that is its standard error; owned
    bool m_reaped = false;
    ControlChannel m_control;
    std::unique_ptr<SharedCounters> m_counters;
    Turns::Session m_turns;
};

}  // namespace warpline::server
