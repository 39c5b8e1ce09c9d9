// Starting a worker with everything in place, and ending it.
#include "server/daemon/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/base/sanitizers.h"
#include "common/base/scope_guard.h"
#include "common/log/log.h"
#include "cuda/abi/driver_settings.h"
#include "server/control/worker_ends.h"
#include "server/daemon/spawn.h"

namespace warpline::server {

namespace {

/// What a worker finds in place; all above the numbers that it finds them at.
struct WorkerEnds {
    int control = -1;
    int counters = -1;
    int messages = -1;  ///< the reading end of its standard error
    int standard_error = -1;
    int log = -1;
    int inventory = -1;  ///< may stay -1

    ~WorkerEnds() {
        for (int fd : {control, counters, messages, standard_error, log, inventory}) {
            if (fd >= 0) close(fd);
        }
    }
    bool complete() const { return control >= 0 && counters >= 0 && messages >= 0 && standard_error >= 0 && log >= 0; }
};

/// Our environment, with what the settings of a driver put into it.
std::vector<std::string> environment_with(uint64_t driver_settings) {
    const auto settings = cuda::abi::variables_of(driver_settings);
    std::vector<std::string> variables;
    for (std::string& variable : own_environment()) {
        const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
        const bool replaced =
            std::any_of(settings.begin(), settings.end(), [&](const auto& setting) { return setting.first == name; });
        if (!replaced) variables.push_back(std::move(variable));
    }
    for (const auto& [name, value] : settings) variables.push_back(name + "=" + value);
    return variables;
}

/// Has Linux place what a worker maps, and so what its driver does, from a third of the address space upwards, where a client's
/// program has nothing: the addresses of device memory count in both. Elsewhere a range of 20 GiB meets a library of the
/// client's at one start in fifty. Not under the thread sanitizer, which has shadow memory there; nor where a container forbids
/// it.
void keep_clients_addresses_free() {
    if (k_has_thread_sanitizer) return;
    constexpr unsigned long k_only_ask = 0xffffffff;
    const int now = personality(k_only_ask);
    if (now == -1 || personality(static_cast<unsigned long>(now) | ADDR_COMPAT_LAYOUT) == -1)
        WL_LOG(debug, "server", "the layout of workers' memory cannot be chosen (errno {})", errno);
}

/// What the process is to find where.
SpawnPlan plan_of(const std::vector<std::string>& arguments, uint64_t driver_settings, const WorkerEnds& ends) {
    SpawnPlan plan;
    plan.arguments = arguments;
    plan.arguments.push_back(std::string(k_worker_argument) + std::to_string(getpid()));
    plan.environment = environment_with(driver_settings);
    plan.leads_group = true;
    plan.descriptors = {{ends.control, k_worker_control_fd},  {ends.counters, k_worker_counters_fd},
                        {ends.log, k_worker_log_fd},          {ends.messages, k_worker_messages_fd},
                        {ends.standard_error, STDERR_FILENO}, {ends.inventory, k_worker_inventory_fd}};
    return plan;
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::spawn(const std::vector<std::string>& arguments, uint64_t driver_settings,
                                                            int inventory_fd) {
    auto counters = WL_TRY(SharedCounters::create());
    int control[2] = {-1, -1};   // ours, the worker's
    int messages[2] = {-1, -1};  // ours, the worker's
    ScopeGuard close_ours([&] {
        if (control[0] >= 0) close(control[0]);
        if (messages[0] >= 0) close(messages[0]);
    });
    ScopeGuard close_theirs([&] {
        if (control[1] >= 0) close(control[1]);
        if (messages[1] >= 0) close(messages[1]);
    });
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0) return io_error("socketpair failed", errno);
    if (pipe2(messages, O_CLOEXEC) != 0) return io_error("pipe failed", errno);
    // The reading end only: a driver that writes more than a pipe holds waits until it has been read.
    fcntl(messages[0], F_SETFL, O_NONBLOCK);
    WorkerEnds ends;
    ends.control = out_of_the_way(control[1]);
    ends.counters = out_of_the_way(counters->fd());
    ends.messages = out_of_the_way(messages[0]);
    ends.standard_error = out_of_the_way(messages[1]);
    ends.log = out_of_the_way(STDERR_FILENO);
    if (inventory_fd >= 0) ends.inventory = out_of_the_way(inventory_fd);
    if (!ends.complete() || (inventory_fd >= 0 && ends.inventory < 0)) return io_error("out of descriptors", errno);
    keep_clients_addresses_free();
    const pid_t pid = WL_TRY(spawn_self(plan_of(arguments, driver_settings, ends)));
    close_ours.dismiss();
    return std::unique_ptr<WorkerProcess>(
        new WorkerProcess(pid, driver_settings, control[0], messages[0], std::move(counters)));
}

WorkerProcess::~WorkerProcess() {
    signal(SIGKILL);
    close(m_messages_fd);
}

void WorkerProcess::signal(int number) const {
    if (!m_reaped) kill(m_pid, number);
}

}  // namespace warpline::server
