// Starting a program as a shell would, with its signals and exit codes.
#include "client/cli/child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

namespace warpline::cli {

namespace {

std::atomic<pid_t> g_child{0};  // whom the signal handler passes signals on to

void pass_on(int signal) {
    pid_t child = g_child.load();
    if (child > 0) ::kill(child, signal);
}

int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

Result<pid_t> spawn(const std::vector<std::string>& command, const std::function<void()>& prepare) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    int report[2];  // closed by a successful exec, else it brings errno
    if (::pipe2(report, O_CLOEXEC) != 0) return Error{Code::io, "no pipe", static_cast<uint32_t>(errno)};
    pid_t child = ::fork();
    if (child == 0) {
        prepare();
        ::execvp(arguments[0], arguments.data());
        int error = errno;
        (void)!::write(report[1], &error, sizeof(error));
        ::_exit(127);
    }
    int fork_error = errno;
    ::close(report[1]);
    int error = 0;
    ssize_t n = child > 0 ? ::read(report[0], &error, sizeof(error)) : 0;
    ::close(report[0]);
    if (child < 0) return Error{Code::io, "no process", static_cast<uint32_t>(fork_error)};
    if (n == static_cast<ssize_t>(sizeof(error))) {
        ::waitpid(child, nullptr, 0);
        return Error{Code::io, "the program cannot be executed", static_cast<uint32_t>(error)};
    }
    return child;
}

int wait_for(pid_t child) {
    g_child.store(child);
    struct sigaction action {};
    action.sa_handler = pass_on;
    for (int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) ::sigaction(signal, &action, nullptr);
    action.sa_handler = SIG_IGN;  // the terminal sends these to the child, too
    for (int signal : {SIGINT, SIGQUIT}) ::sigaction(signal, &action, nullptr);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    g_child.store(0);
    return exit_code(status);
}

void end_child(pid_t child) {
    ::kill(child, SIGTERM);
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace warpline::cli
