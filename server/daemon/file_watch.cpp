// Each folder on the way to a file is watched for the one name that is looked for in it, before it is looked for.
#include "server/daemon/file_watch.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <filesystem>
#include <utility>

#include "common/log/log.h"

namespace warpline::server {

namespace {

namespace fs = std::filesystem;

/// As many as the kernel follows.
constexpr int k_most_links = 40;
constexpr uint32_t k_written = IN_CLOSE_WRITE | IN_ATTRIB;
constexpr uint32_t k_replaced = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF;

std::vector<std::string> absolute(std::vector<std::string> files) {
    std::error_code error;
    for (std::string& file : files) file = fs::absolute(file, error).string();
    return files;
}

void put_in_front(const fs::path& path, std::deque<std::string>& parts) {
    const fs::path relative = path.relative_path();
    parts.insert(parts.begin(), relative.begin(), relative.end());
}

}  // namespace

FileWatch::FileWatch(std::vector<std::string> files)
    : m_files(absolute(std::move(files))), m_inotify(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    if (m_inotify < 0) {
        WL_LOG(warn, "server",
               "changed certificates are not noticed: the kernel watches no files for us (errno {}); SIGHUP tells of them",
               errno);
        return;
    }
    look();
    for (const std::string& file : m_files) m_seen.push_back(identity(file));
}

FileWatch::~FileWatch() {
    if (m_inotify >= 0) close(m_inotify);
}

FileWatch::Identity FileWatch::identity(const std::string& file) {
    struct stat status {};
    if (stat(file.c_str(), &status) != 0) return {};
    const auto word = [](auto value) { return static_cast<uint64_t>(value); };
    return {word(status.st_dev),          word(status.st_ino),         word(status.st_size),        word(status.st_mtim.tv_sec),
            word(status.st_mtim.tv_nsec), word(status.st_ctim.tv_sec), word(status.st_ctim.tv_nsec)};
}

bool FileWatch::has_changed() {
    if (!hear()) return false;
    // First the watches, so that what happens after the look at the files is heard.
    look();
    bool changed = false;
    for (size_t i = 0; i < m_files.size(); ++i) {
        const Identity now = identity(m_files[i]);
        changed |= std::exchange(m_seen[i], now) != now;
    }
    return changed;
}

/// The ways as they are now; watches that are on none of them any more end.
void FileWatch::look() {
    const auto before = std::exchange(m_names, {});
    for (const std::string& file : m_files) follow(file);
    for (const auto& [watch, names] : before) {
        if (!m_names.contains(watch)) inotify_rm_watch(m_inotify, watch);
    }
}

void FileWatch::follow(const std::string& file) {
    std::deque<std::string> parts;
    put_in_front(file, parts);
    fs::path folder = "/";
    for (int links = 0; !parts.empty() && links <= k_most_links;) {
        const std::string part = std::move(parts.front());
        parts.pop_front();
        if (part.empty() || part == ".") continue;
        if (part == "..") {
            folder = folder.parent_path();
            continue;
        }
        watch_name(folder, part);
        const fs::path path = folder / part;
        std::error_code is_no_link;
        const fs::path target = fs::read_symlink(path, is_no_link);
        if (is_no_link) {
            folder = path;
            continue;
        }
        ++links;
        put_in_front(target, parts);
        if (target.is_absolute()) folder = "/";
    }
    if (parts.empty()) watch_file(folder);
}

void FileWatch::watch_name(const std::string& folder, const std::string& name) {
    const int watch = add(folder, k_replaced | k_written | IN_ONLYDIR);
    if (watch >= 0) m_names[watch].insert(name);
}

/// By itself, too: it can be written to by another name, one outside of a container for instance.
void FileWatch::watch_file(const std::string& file) {
    const int watch = add(file, k_written | IN_DELETE_SELF | IN_MOVE_SELF);
    if (watch >= 0) m_names[watch];
}

int FileWatch::add(const std::string& path, uint32_t events) {
    const int watch = inotify_add_watch(m_inotify, path.c_str(), events);
    if (watch < 0 && errno != ENOENT && errno != ENOTDIR && m_told.insert(path).second) {
        WL_LOG(info, "server", "changes of {} are not noticed (errno {}); SIGHUP tells of renewed certificates", path, errno);
    }
    return watch;
}

/// Reads all that the kernel has to say. True if any of it concerns us.
bool FileWatch::hear() {
    alignas(inotify_event) char buffer[4096];
    bool concerns = false;
    for (;;) {
        const ssize_t length = read(m_inotify, buffer, sizeof buffer);
        if (length < 0 && errno == EINTR) continue;
        if (length <= 0) return concerns;
        for (ssize_t at = 0; at < length;) {
            const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
            concerns |= concerns_us(event->wd, event->mask, event->len > 0 ? event->name : "");
            at += static_cast<ssize_t>(sizeof *event + event->len);
        }
    }
}

bool FileWatch::concerns_us(int watch, uint32_t events, std::string_view name) const {
    if ((events & IN_Q_OVERFLOW) != 0) return true;
    const auto found = m_names.find(watch);
    if (found == m_names.end()) return false;
    return name.empty() || found->second.contains(name);
}

}  // namespace warpline::server
