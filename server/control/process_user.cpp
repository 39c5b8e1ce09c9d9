// From root to a user who may nothing.
#include "server/control/process_user.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "common/log/log.h"

namespace warpline::server {

namespace {

bool change_groups(const passwd& user, UserChange::Groups groups) {
    const gid_t group = user.pw_gid;
    const bool changed = groups == UserChange::Groups::all ? initgroups(user.pw_name, group) == 0 : setgroups(1, &group) == 0;
    return changed && setresgid(group, group, group) == 0;
}

}  // namespace

Result<void> become_user(const UserChange& change, std::string& problem) {
    if (change.user.empty()) return {};
    const Error misconfigured{Code::not_configured, "the process's user is not to be had"};
    if (geteuid() != 0) {
        problem = log::format("{} can become the user '{}' only if the server runs as root ({})", change.who, change.user,
                              change.option);
        return misconfigured;
    }
    std::vector<char> room(16 * 1024);
    passwd entry{};
    passwd* found = nullptr;
    if (getpwnam_r(change.user.c_str(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr) {
        problem = log::format("there is no user '{}' ({})", change.user, change.option);
        return misconfigured;
    }
    if (!change_groups(*found, change.groups) || setresuid(found->pw_uid, found->pw_uid, found->pw_uid) != 0) {
        const int error = errno;
        problem = log::format("{} cannot become the user '{}': errno {}", change.who, change.user, error);
        return Error{Code::io, "the user cannot be changed", static_cast<uint32_t>(error)};
    }
    setenv("HOME", found->pw_dir, 1);
    for (const char* name : {"USER", "LOGNAME"}) setenv(name, found->pw_name, 1);
    return {};
}

}  // namespace warpline::server
