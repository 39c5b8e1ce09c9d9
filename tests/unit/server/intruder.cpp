// Programs, networks, other processes, namespaces, files: one try for each way to them.
#include "tests/unit/server/intruder.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace warpline::server {

void break_out() {
    const pid_t supervisor = getppid();
    char* const none[] = {nullptr};
    const auto runs_in_child = [&none] {
        const pid_t child = fork();
        if (child == 0) {
            execve("/bin/true", none, none);
            _exit(77);
        }
        int status = 0;
        return child > 0 && waitpid(child, &status, 0) == child && !(WIFEXITED(status) && WEXITSTATUS(status) == 77);
    };
    // A system call that makes a process returns twice; the copy must not go on.
    const auto clones = [](long number, auto... arguments) {
        const long made = syscall(number, arguments...);
        if (made == 0) _exit(0);
        if (made > 0) waitpid(static_cast<pid_t>(made), nullptr, 0);
        return made > 0;
    };
    const auto sends = [](int handle) { return handle >= 0 && syscall(SYS_pidfd_send_signal, handle, 0, nullptr, 0) == 0; };
    char byte = 0;
    iovec own{&byte, 1}, foreign{reinterpret_cast<void*>(&environ), 1};
    rlimit limit{};
    prlimit(supervisor, RLIMIT_CORE, nullptr, &limit);
    uint64_t clone_args[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    const std::pair<const char*, bool> tries[] = {
        {"a program", execve("/bin/true", none, none) == 0},
        {"a program by descriptor",
         syscall(SYS_execveat, open("/bin/true", O_PATH | O_CLOEXEC), "", none, none, AT_EMPTY_PATH) == 0},
        {"a program in a child", runs_in_child()},
        {"a network", socket(AF_INET, SOCK_STREAM, 0) >= 0},
        {"a network of the other version", socket(AF_INET6, SOCK_DGRAM, 0) >= 0},
        {"packets", socket(AF_PACKET, SOCK_RAW, 0) >= 0},
        {"the kernel's configuration", socket(AF_NETLINK, SOCK_RAW, 0) >= 0},
        {"a network by io_uring", syscall(SYS_io_uring_setup, 1, nullptr) >= 0},
        {"a signal to the supervisor", kill(supervisor, 0) == 0},
        {"a signal to its thread", syscall(SYS_tkill, supervisor, 0) == 0},
        {"a signal to its thread, checked", syscall(SYS_tgkill, supervisor, supervisor, 0) == 0},
        {"a signal to everybody", kill(-1, 0) == 0},
        {"a signal by descriptor", sends(static_cast<int>(syscall(SYS_pidfd_open, supervisor, 0)))},
        {"the supervisor's limits", prlimit(supervisor, RLIMIT_CORE, &limit, nullptr) == 0},
        {"tracing it", ptrace(PTRACE_SEIZE, supervisor, nullptr, nullptr) == 0},
        {"its memory", process_vm_readv(supervisor, &own, 1, &foreign, 1, 0) >= 0},
        {"a file system", syscall(SYS_fsopen, "tmpfs", 0) >= 0},
        {"a namespace", unshare(CLONE_NEWUSER) == 0},
        {"a namespace for a child", clones(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, 0)},
        {"a namespace for a child, the new way", clones(SYS_clone3, clone_args, sizeof clone_args)},
        {"a program in the kernel", syscall(SYS_bpf, 0, nullptr, 0) >= 0},
        {"setuid programs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0},
    };
    for (const auto& [what, possible] : tries) {
        if (possible) std::printf("possible: %s\n", what);
    }
    std::printf("tried %zu ways\n", std::size(tries));
}

void open_files() {
    std::ifstream list(std::getenv("FAKE_DRIVER_FILES"));
    for (std::string path; std::getline(list, path);) {
        const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        std::printf("%s %d\n", path.c_str(), fd < 0 ? errno : 0);
        if (fd >= 0) close(fd);
    }
}

}  // namespace warpline::server
