#include "server/daemon/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/scope_guard.h"

extern char** environ;

namespace warpline::server {

namespace {

/// A copy of a descriptor above those that the worker expects, so that moving one into place never overwrites the other.
int out_of_the_way(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 16); }

Error io_error(const char* what, int error) { return Error{Code::io, what, static_cast<uint32_t>(error)}; }

/// Runs the program anew with its ends in place and default signals.
Result<pid_t> spawn_self(const std::vector<std::string>& arguments, int control_fd, int counters_fd) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    ScopeGuard cleanup([&] {
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
    });
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, control_fd, k_worker_control_fd);
    posix_spawn_file_actions_adddup2(&actions, counters_fd, k_worker_counters_fd);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

    std::vector<std::string> texts = arguments;
    texts.push_back(std::string(k_worker_argument) + std::to_string(getpid()));
    std::vector<char*> argv;
    for (std::string& text : texts) argv.push_back(text.data());
    argv.push_back(nullptr);
    pid_t pid = -1;
    const int error = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, argv.data(), environ);
    if (error != 0) return io_error("starting a worker failed", error);
    return pid;
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::spawn(const std::vector<std::string>& arguments) {
    auto counters = WL_TRY(SharedCounters::create());
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return io_error("socketpair failed", errno);
    const int control = out_of_the_way(ends[1]);
    const int shared = out_of_the_way(counters->fd());
    ScopeGuard cleanup([&] {
        close(ends[1]);
        if (control >= 0) close(control);
        if (shared >= 0) close(shared);
    });
    if (control < 0 || shared < 0) {
        const int error = errno;
        close(ends[0]);
        return io_error("out of descriptors", error);
    }
    auto pid = spawn_self(arguments, control, shared);
    if (!pid.ok()) {
        close(ends[0]);
        return pid.error();
    }
    return std::unique_ptr<WorkerProcess>(new WorkerProcess(*pid, ends[0], std::move(counters)));
}

WorkerProcess::~WorkerProcess() { signal(SIGKILL); }

void WorkerProcess::signal(int number) const {
    if (!m_reaped) kill(m_pid, number);
}

}  // namespace warpline::server
