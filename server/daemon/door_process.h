// The door as its supervisor sees it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/control/control.h"

namespace warpline::server {

/// The supervisor's side of the door (server/door). Destroying it kills the process.
class DoorProcess {
public:
    /// Starts gpu-server again as the door, with the same arguments. @errors io @blocks no
    static Result<std::unique_ptr<DoorProcess>> spawn(const std::vector<std::string>& arguments);
    ~DoorProcess();
    DoorProcess(const DoorProcess&) = delete;
    DoorProcess& operator=(const DoorProcess&) = delete;

    pid_t pid() const { return m_pid; }
    /// Its sends never block: a door that is stopped must not stop the supervisor.
    ControlChannel& control() { return m_control; }
    void kill_process() const;
    /// Told by the supervisor that the process has been reaped: its number may belong to somebody else now.
    void forget_process() { m_reaped = true; }

    const std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    bool answers = false;  ///< has its certificates, and takes sockets
    bool leaving = false;  ///< finishes what it has in hand; another one is the door
    bool asked_to_stop = false;

private:
    DoorProcess(pid_t pid, int control_fd) : m_pid(pid), m_control(control_fd) {}

    const pid_t m_pid;
    bool m_reaped = false;
    ControlChannel m_control;
};

}  // namespace warpline::server
