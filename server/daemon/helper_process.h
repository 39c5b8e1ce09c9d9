// The door and the gauge as their supervisor sees them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "server/control/control.h"

namespace warpline::server {

/// The supervisor's side of a process of its own that serves no session. Destroying it kills the process.
class HelperProcess {
public:
    struct Started {
        pid_t pid;
        int control_fd;
    };
    /// Starts gpu-server again in that role (worker_ends.h), with the same arguments. @errors io @blocks no
    static Result<Started> start(const std::vector<std::string>& arguments, std::string_view role);

    explicit HelperProcess(const Started& started) : m_pid(started.pid), m_control(started.control_fd) {}
    ~HelperProcess();
    HelperProcess(const HelperProcess&) = delete;
    HelperProcess& operator=(const HelperProcess&) = delete;

    pid_t pid() const { return m_pid; }
    /// Its sends never block: a process that is stopped must not stop the supervisor.
    ControlChannel& control() { return m_control; }
    void kill_process() const;
    /// Told by the supervisor that the process has been reaped: its number may belong to somebody else now.
    void forget_process() { m_reaped = true; }
    bool reaped() const { return m_reaped; }

    const std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    bool asked_to_stop = false;

private:
    const pid_t m_pid;
    bool m_reaped = false;
    ControlChannel m_control;
};

/// The door (server/door).
class DoorProcess : public HelperProcess {
public:
    using HelperProcess::HelperProcess;
    bool answers = false;                                    ///< has its certificates, and takes sockets
    bool leaving = false;                                    ///< finishes what it has in hand; another one is the door
    bool for_certificates = false;                           ///< started because they have changed
    bool told_why = false;                                   ///< they cannot be used, and the log has said so
    std::chrono::steady_clock::time_point heard_at = since;  ///< its last words
    std::chrono::steady_clock::time_point pinged_at;         ///< zero: it has said something since
    bool was_given = false;                                  ///< a connection, since its last words
};

}  // namespace warpline::server
