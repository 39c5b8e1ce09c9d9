// Landlock can only grant, and folders as a whole: so everything beside the way to the file is granted, and the way is not.
#include "server/control/hidden_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>
#include <tuple>

#include "common/base/scope_guard.h"
#include "common/log/log.h"
#include "server/control/file_names.h"

// Of Linux 5.19, and the numbers of 5.13, where the system's headers are older.
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

namespace warpline::server {

namespace {

/// The version of Landlock that knows LANDLOCK_ACCESS_FS_REFER. Before it, nothing is moved or linked between folders.
constexpr long k_refer_version = 2;

long landlock_version() { return syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION); }

/// Which file it is, whatever its path.
using Identity = std::tuple<uint32_t, uint32_t, uint64_t>;
Identity identity(const struct statx& status) { return {status.stx_dev_major, status.stx_dev_minor, status.stx_ino}; }

/// Rules that are being put together.
class Grants {
public:
    Grants(int ruleset, uint64_t access) : m_ruleset(ruleset), m_access(access) {}

    /// The file (and, if there is one, the folders on the way to it) at this path are not granted, by whatever path.
    void keep_back(const std::string& name);
    /// Grants what is beside the ways to the files.
    void grant_the_rest() const;

private:
    void remember(const std::string& path);
    void grant_entries(const std::string& folder) const;
    void grant_entry(int folder, const char* name) const;

    const int m_ruleset;
    const uint64_t m_access;
    std::set<std::string> m_folders;
    std::set<Identity> m_kept;
};

void Grants::remember(const std::string& path) {
    struct statx status {};
    if (statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_INO, &status) == 0) m_kept.insert(identity(status));
}

void Grants::keep_back(const std::string& name) {
    remember(name);
    for (std::filesystem::path folder = std::filesystem::path(name).parent_path();; folder = folder.parent_path()) {
        if (m_folders.insert(folder).second) remember(folder);
        if (folder == folder.root_path()) return;
    }
}

void Grants::grant_the_rest() const {
    for (const std::string& folder : m_folders) grant_entries(folder);
}

void Grants::grant_entries(const std::string& folder) const {
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), &closedir);
    if (listing == nullptr) {
        if (errno != ENOENT)
            WL_LOG(info, "server", "what is in {} cannot be read: it cannot be listed (errno {})", folder, errno);
        return;
    }
    const std::string_view own = ".", parent = "..";
    while (const dirent* entry = readdir(listing.get())) {
        if (entry->d_name != own && entry->d_name != parent) grant_entry(dirfd(listing.get()), entry->d_name);
    }
}

void Grants::grant_entry(int folder, const char* name) const {
    const int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;  // it has gone, or nobody here gets there
    const ScopeGuard close_it([fd] { close(fd); });
    // Without asking the server of a network file system, which may hang.
    struct statx status {};
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MODE | STATX_INO, &status) != 0) return;
    if (S_ISLNK(status.stx_mode) || m_kept.contains(identity(status))) return;
    // What lies beside a key and is nobody else's business may be the next key, or the last one.
    if (S_ISREG(status.stx_mode) && (status.stx_mode & S_IROTH) == 0) return;
    const uint64_t of_files = m_access & LANDLOCK_ACCESS_FS_READ_FILE;
    const landlock_path_beneath_attr rule{S_ISDIR(status.stx_mode) ? m_access : of_files, fd};
    if (syscall(SYS_landlock_add_rule, m_ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
        WL_LOG(info, "server", "{} cannot be read: Landlock does not take it (errno {})", name, errno);
}

}  // namespace

bool can_hide_files() { return landlock_version() > 0; }

Result<void> hide_file(const std::string& path, std::string& problem) {
    const auto refused = [&](const char* what, uint32_t error) {
        problem = log::format("{} cannot be kept from a process: {} (errno {})", path, what, error);
        return Error{Code::io, what, error};
    };
    const auto names = names_of(path);
    if (!names.ok()) return refused(names.error().what, names.error().detail);
    const uint64_t refer = landlock_version() >= k_refer_version ? LANDLOCK_ACCESS_FS_REFER : 0;
    const landlock_ruleset_attr handled{LANDLOCK_ACCESS_FS_READ_FILE | refer};
    const int ruleset = static_cast<int>(syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0));
    if (ruleset < 0) return refused("Landlock makes no ruleset", static_cast<uint32_t>(errno));
    const ScopeGuard close_it([ruleset] { close(ruleset); });
    Grants grants(ruleset, handled.handled_access_fs);
    for (const std::string& name : *names) grants.keep_back(name);
    grants.grant_the_rest();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
        return refused("Landlock restricts nothing", static_cast<uint32_t>(errno));
    return {};
}

}  // namespace warpline::server
