// posix_spawn with everything that a process of ours expects.
#include "server/daemon/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include "common/base/scope_guard.h"

extern char** environ;

namespace warpline::server {

int out_of_the_way(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 16); }

Error io_error(const char* what, int error) { return Error{Code::io, what, static_cast<uint32_t>(error)}; }

std::vector<std::string> own_environment() {
    std::vector<std::string> variables;
    for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
    return variables;
}

Result<pid_t> spawn_self(const SpawnPlan& plan) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    ScopeGuard cleanup([&] {
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
    });
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (const SpawnPlan::Place& place : plan.descriptors) {
        if (place.fd >= 0) {
            posix_spawn_file_actions_adddup2(&actions, place.fd, place.at);
        } else {
            posix_spawn_file_actions_addopen(&actions, place.at, "/dev/null", O_RDONLY, 0);
        }
    }
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    const int group = plan.leads_group ? POSIX_SPAWN_SETPGROUP : 0;
    posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group));

    const auto pointers = [](std::vector<std::string>& texts) {
        std::vector<char*> out;
        for (std::string& text : texts) out.push_back(text.data());
        out.push_back(nullptr);
        return out;
    };
    std::vector<std::string> texts = plan.arguments;
    std::vector<std::string> variables = plan.environment;
    pid_t pid = -1;
    const int error =
        posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, pointers(texts).data(), pointers(variables).data());
    if (error != 0) return io_error("starting a process failed", error);
    return pid;
}

}  // namespace warpline::server
