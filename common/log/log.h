// Logging: lines with a time, a level, the process and the area of the code.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <string>
#include <string_view>

namespace warpline::log {

enum class Level : int { trace, debug, info, warn, error, off };

/// Sets what is logged, from text such as "warn" or "warn,protocol=debug,client=trace". Unknown words are reported on stderr
/// and ignored. Libraries call this with the value of WARPLINE_LOG; the default is "warn".
void configure(std::string_view specification);

/// Names the process in each line ("client", "worker 3f2a"). Lines go to stderr, never to stdout.
void set_process_name(std::string_view name);

/// Sends the lines to a file descriptor instead of stderr.
void set_output(int fd);

/// Below this nothing is written, whatever the area. Orders nothing.
extern std::atomic<Level> g_least;
/// enabled() of a level that some area is written from.
bool enabled_in(Level level, std::string_view area);
/// True if a line of this level in this area would be written: cheap, to be asked before arguments are made.
inline bool enabled(Level level, std::string_view area) {
    return level >= g_least.load(std::memory_order_relaxed) && enabled_in(level, area);
}

void vwrite(Level level, std::string_view area, fmt::string_view format, fmt::format_args args);

/// One line per event: `time level process area: text`. Does not throw and never exits.
template <typename... Args>
void write(Level level, std::string_view area, fmt::format_string<Args...> format, Args&&... args) {
    vwrite(level, area, format, fmt::make_format_args(args...));
}

/// fmt's formatting without its header-only code in every file.
std::string vformat(fmt::string_view format, fmt::format_args args);
template <typename... Args>
std::string format(fmt::format_string<Args...> format, Args&&... args) {
    return log::vformat(format, fmt::make_format_args(args...));
}

}  // namespace warpline::log

#define WL_LOG(level, area, ...)                                                        \
    do {                                                                                \
        if (::warpline::log::enabled(::warpline::log::Level::level, area)) [[unlikely]] \
            ::warpline::log::write(::warpline::log::Level::level, area, __VA_ARGS__);   \
    } while (false)
