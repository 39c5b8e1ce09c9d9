// Starting a helper with its end of the channel in place.
#include "server/daemon/helper_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/scope_guard.h"
#include "server/control/worker_ends.h"
#include "server/daemon/spawn.h"

namespace warpline::server {

Result<HelperProcess::Started> HelperProcess::start(const std::vector<std::string>& arguments, std::string_view role) {
    int control[2] = {-1, -1};  // ours, the helper's
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0) return io_error("socketpair failed", errno);
    ScopeGuard close_ours([&] { close(control[0]); });
    const int theirs = out_of_the_way(control[1]);
    close(control[1]);
    if (theirs < 0) return io_error("out of descriptors", errno);
    ScopeGuard close_theirs([&] { close(theirs); });
    fcntl(control[0], F_SETFL, O_NONBLOCK);
    SpawnPlan plan;
    plan.arguments = arguments;
    plan.arguments.push_back(std::string(role) + std::to_string(getpid()));
    plan.environment = own_environment();
    plan.descriptors = {{theirs, k_helper_control_fd}};
    const pid_t pid = WL_TRY(spawn_self(plan));
    close_ours.dismiss();
    return Started{pid, control[0]};
}

HelperProcess::~HelperProcess() { kill_process(); }

void HelperProcess::kill_process() const {
    if (!m_reaped) kill(m_pid, SIGKILL);
}

}  // namespace warpline::server
