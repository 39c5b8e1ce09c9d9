// Noticing that files have been replaced, however that was done.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace warpline::server {

/// Watches files by inotify(7): what is written to them, what takes their place or that of a folder on the way to them, and
/// where the symbolic links on that way lead. They need not be there yet. Not seen: what other machines do on a network file
/// system.
class FileWatch {
public:
    /// What cannot be watched is told in the log, once.
    explicit FileWatch(std::vector<std::string> files);
    ~FileWatch();
    FileWatch(const FileWatch&) = delete;
    FileWatch& operator=(const FileWatch&) = delete;

    /// Readable when something has happened on the way to a file; -1: this kernel watches nothing for us.
    int fd() const { return m_inotify; }
    /// Takes note of what has happened. True if a file is another one, or has been written to, since the last time (or the
    /// start).
    bool has_changed();

private:
    /// Device, inode, size, times of contents and of everything else; zeros if there is no such file.
    using Identity = std::array<uint64_t, 7>;

    static Identity identity(const std::string& file);
    void look();
    void follow(const std::string& file);
    void watch_name(const std::string& folder, const std::string& name);
    void watch_file(const std::string& file);
    int add(const std::string& path, uint32_t events);
    bool hear();
    bool concerns_us(int watch, uint32_t events, std::string_view name) const;

    const std::vector<std::string> m_files;  // absolute
    int m_inotify;
    std::map<int, std::set<std::string, std::less<>>> m_names;  // by watch: what to look for in the folder; empty: it is a file
    std::vector<Identity> m_seen;
    std::set<std::string> m_told;  // what cannot be watched
};

}  // namespace warpline::server
