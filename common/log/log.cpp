// What is logged, in which form and where to.
#include "common/log/log.h"

#include <fmt/chrono.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/uncancelled.h"
#include "common/log/never_wait.h"

namespace warpline::log {

namespace {

constexpr std::array<std::string_view, 6> k_level_names = {"trace", "debug", "info", "warn", "error", "off"};
/// As lines have them.
constexpr std::array<std::string_view, 6> k_shown_levels = {"trace", "debug", "info", "warning", "error", "off"};

constexpr Level k_default_level = Level::warn;

/// Writes whole lines with one write(2) each, so that lines of several processes on one stderr do not mix.
struct State {
    std::atomic<int> default_level{static_cast<int>(k_default_level)};
    std::atomic<bool> has_areas{false};
    std::atomic<int> fd{2};
    std::atomic<unsigned> left_out{0};  // lines of threads that must not wait
    Mutex mutex;
    std::vector<std::pair<std::string, Level>> areas WL_GUARDED_BY(mutex);
    std::string process WL_GUARDED_BY(mutex);
};

State& state();

// A child has the lock as it was, and none of the threads that held it: nobody holds it while a process forks.
void before_fork() WL_NO_THREAD_SAFETY_ANALYSIS { state().mutex.lock(); }
void after_fork() WL_NO_THREAD_SAFETY_ANALYSIS { state().mutex.unlock(); }

State& state() {
    // Never destroyed: the client library logs while the process exits.
    static auto* instance = [] {
        auto* made = new State;
        ::pthread_atfork(&before_fork, &after_fork, &after_fork);
        return made;
    }();
    return *instance;
}

bool parse_level(std::string_view text, Level& out) {
    for (size_t i = 0; i < k_level_names.size(); ++i) {
        if (text == k_level_names[i]) {
            out = static_cast<Level>(i);
            return true;
        }
    }
    return false;
}

void write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        ssize_t n = ::write(fd, text.data(), text.size());
        if (n <= 0) return;
        text.remove_prefix(static_cast<size_t>(n));
    }
}

thread_local bool t_never_waits = false;

void write_line(State& s, std::string_view line) {
    const Uncancelled uncancelled;
    const int fd = s.fd.load(std::memory_order_relaxed);
    if (t_never_waits) {
        pollfd entry{fd, POLLOUT, 0};
        if (::poll(&entry, 1, 0) == 0) {
            s.left_out.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        line = line.substr(0, PIPE_BUF);  // for which there is room
    }
    if (const unsigned count = s.left_out.exchange(0, std::memory_order_relaxed); count > 0)
        write_all(fd, fmt::format("warpline: {} log lines were left out while nothing could be written\n", count));
    write_all(fd, line);
}

}  // namespace

constinit std::atomic<Level> g_least{k_default_level};

NeverWait::NeverWait() : m_before(t_never_waits) { t_never_waits = true; }
NeverWait::~NeverWait() { t_never_waits = m_before; }

void configure(std::string_view specification) {
    State& s = state();
    MutexLock lock(s.mutex);
    s.areas.clear();
    while (!specification.empty()) {
        size_t comma = specification.find(',');
        std::string_view word = specification.substr(0, comma);
        specification = comma == std::string_view::npos ? std::string_view{} : specification.substr(comma + 1);
        if (word.empty()) continue;
        size_t equals = word.find('=');
        Level level;
        if (!parse_level(equals == std::string_view::npos ? word : word.substr(equals + 1), level)) {
            write_all(2,
                      fmt::format("warpline: log level '{}' is unknown; levels: trace, debug, info, warn, error, off\n", word));
            continue;
        }
        if (equals == std::string_view::npos)
            s.default_level.store(static_cast<int>(level), std::memory_order_relaxed);
        else
            s.areas.emplace_back(std::string(word.substr(0, equals)), level);
    }
    s.has_areas.store(!s.areas.empty(), std::memory_order_release);
    auto least = static_cast<Level>(s.default_level.load(std::memory_order_relaxed));
    for (const auto& [name, level] : s.areas) least = std::min(least, level);
    g_least.store(least, std::memory_order_relaxed);
}

void set_process_name(std::string_view name) {
    MutexLock lock(state().mutex);
    state().process = name;
}

void set_output(int fd) { state().fd.store(fd, std::memory_order_relaxed); }

bool enabled_in(Level level, std::string_view area) {
    State& s = state();
    if (s.has_areas.load(std::memory_order_acquire)) [[unlikely]] {
        MutexLock lock(s.mutex);
        for (const auto& [name, area_level] : s.areas)
            if (name == area) return level >= area_level;
    }
    return static_cast<int>(level) >= s.default_level.load(std::memory_order_relaxed);
}

void vwrite(Level level, std::string_view area, fmt::string_view format, fmt::format_args args) {
    State& s = state();
    try {
        std::string process;
        {
            MutexLock lock(s.mutex);
            process = s.process;
        }
        const auto now = std::chrono::system_clock::now();
        const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
        fmt::memory_buffer line;
        fmt::format_to(std::back_inserter(line), "{:%Y-%m-%d %H:%M:%S}.{:03} {:<5} warpline{}{} {}: ",
                       fmt::localtime(std::chrono::system_clock::to_time_t(now)), milliseconds,
                       k_shown_levels[static_cast<size_t>(level)], process.empty() ? "" : " ", process, area);
        fmt::vformat_to(std::back_inserter(line), format, args);
        line.push_back('\n');
        write_line(s, {line.data(), line.size()});
    } catch (...) {
        write_all(2, "warpline: a log line could not be written\n");
    }
}

std::string vformat(fmt::string_view format, fmt::format_args args) { return fmt::vformat(format, args); }

}  // namespace warpline::log
