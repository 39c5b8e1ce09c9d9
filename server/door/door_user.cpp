// From root to a user who may nothing.
#include "server/door/door_user.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "common/log/log.h"

namespace warpline::server {

Result<void> become_user(const std::string& name, std::string& problem) {
    if (name.empty()) return {};
    const Error misconfigured{Code::not_configured, "the door's user is not to be had"};
    if (geteuid() != 0) {
        problem = log::format("the door can become the user '{}' only if the server runs as root (door_user)", name);
        return misconfigured;
    }
    std::vector<char> room(16 * 1024);
    passwd entry{};
    passwd* found = nullptr;
    if (getpwnam_r(name.c_str(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr) {
        problem = log::format("there is no user '{}' (door_user)", name);
        return misconfigured;
    }
    const gid_t group = found->pw_gid;
    const uid_t user = found->pw_uid;
    if (setgroups(1, &group) != 0 || setresgid(group, group, group) != 0 || setresuid(user, user, user) != 0) {
        const int error = errno;
        problem = log::format("the door cannot become the user '{}': errno {}", name, error);
        return Error{Code::io, "the user cannot be changed", static_cast<uint32_t>(error)};
    }
    return {};
}

}  // namespace warpline::server
