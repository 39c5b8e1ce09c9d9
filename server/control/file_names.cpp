// Following links, and looking a file up in the table of mounts.
#include "server/control/file_names.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

namespace warpline::server {

namespace {

namespace fs = std::filesystem;

/// As many as the kernel follows.
constexpr int k_longest_chain = 40;

struct Mount {
    uint64_t id = 0;
    std::string device;  ///< the file system's, as major:minor
    std::string root;    ///< which of its folders (or files) is mounted
    std::string point;   ///< and where
};

/// Blanks and backslashes are written as octal numbers there.
std::string unescape(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size()) {
            out.push_back(static_cast<char>(std::strtol(std::string(text.substr(i + 1, 3)).c_str(), nullptr, 8)));
            i += 3;
        } else {
            out.push_back(text[i]);
        }
    }
    return out;
}

std::vector<Mount> mounts() {
    std::vector<Mount> found;
    std::ifstream table("/proc/self/mountinfo");
    for (std::string line; std::getline(table, line);) {
        std::istringstream fields(line);
        Mount mount;
        uint64_t parent = 0;
        if (!(fields >> mount.id >> parent >> mount.device >> mount.root >> mount.point)) continue;
        mount.root = unescape(mount.root);
        mount.point = unescape(mount.point);
        found.push_back(std::move(mount));
    }
    return found;
}

/// What is left of a path below a folder: empty, or beginning with a slash.
std::optional<std::string> rest_below(const std::string& path, const std::string& folder) {
    if (folder == "/") return path == "/" ? "" : path;
    if (path == folder) return "";
    if (path.starts_with(folder) && path[folder.size()] == '/') return path.substr(folder.size());
    return std::nullopt;
}

std::string joined(const std::string& folder, const std::string& rest) {
    if (rest.empty()) return folder;
    return folder == "/" ? rest : folder + rest;
}

bool is_same_file(const std::string& path, const struct statx& file) {
    struct statx other {};
    return statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_INO, &other) == 0 &&
           other.stx_ino == file.stx_ino && other.stx_dev_major == file.stx_dev_major &&
           other.stx_dev_minor == file.stx_dev_minor;
}

bool is_same_kind(const std::string& one, const std::string& other) {
    struct statfs a {
    }, b{};
    return statfs(one.c_str(), &a) == 0 && statfs(other.c_str(), &b) == 0 && a.f_type == b.f_type;
}

/// Below chroot(2) the table does not say what the root is a part of. Then the file has no other path unless one of the mounts
/// that are there is of the same file system, or may be: some have several numbers.
Result<void> check_unlisted_mount(const std::string& file, const struct statx& status, const std::vector<Mount>& all) {
    const std::string device = std::to_string(status.stx_dev_major) + ":" + std::to_string(status.stx_dev_minor);
    for (const Mount& mount : all) {
        if (mount.device == device || is_same_kind(file, mount.point))
            return Error{Code::io, "a file's mount is not in /proc/self/mountinfo, and another may show it, too"};
    }
    return {};
}

/// Adds the paths of a file where its file system is mounted elsewhere, as a whole or in part.
Result<void> add_other_mounts(const std::string& file, std::set<std::string>& names) {
    struct statx status {};
    if (statx(AT_FDCWD, file.c_str(), AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_MNT_ID, &status) != 0) {
        if (errno == ENOENT) return {};
        return Error{Code::io, "a file cannot be looked at", static_cast<uint32_t>(errno)};
    }
    const std::vector<Mount> all = mounts();
    const Mount* own = nullptr;
    for (const Mount& mount : all) {
        if (mount.id == status.stx_mnt_id) own = &mount;
    }
    if (own == nullptr && !all.empty()) return check_unlisted_mount(file, status, all);
    const auto below_own = own != nullptr ? rest_below(file, own->point) : std::nullopt;
    if (!below_own) return Error{Code::io, "a file's mount is not in /proc/self/mountinfo"};
    const std::string inside = joined(own->root, *below_own);
    for (const Mount& mount : all) {
        const auto rest = mount.device == own->device ? rest_below(inside, mount.root) : std::nullopt;
        if (!rest) continue;
        // Something else may be mounted over it.
        const std::string name = joined(mount.point, *rest);
        if (is_same_file(name, status)) names.insert(name);
    }
    return {};
}

}  // namespace

Result<std::set<std::string>> names_of(const std::string& path) {
    std::set<std::string> names;
    std::error_code error;
    const auto failed = [&error] {
        return Error{Code::io, "a folder on the way cannot be looked into", static_cast<uint32_t>(error.value())};
    };
    fs::path name = fs::absolute(path, error);
    for (int i = 0; i < k_longest_chain && !error; ++i) {
        const fs::path folder = fs::weakly_canonical(name.parent_path(), error);
        if (error) break;
        name = folder / name.filename();
        names.insert(name);
        std::error_code is_no_link;
        const fs::path target = fs::read_symlink(name, is_no_link);
        if (is_no_link) {
            WL_TRY(add_other_mounts(name, names));
            return names;
        }
        name = target.is_absolute() ? target : folder / target;
    }
    if (!error) error = std::make_error_code(std::errc::too_many_symbolic_link_levels);
    return failed();
}

}  // namespace warpline::server
