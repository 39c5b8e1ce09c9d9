// How `warpline run` starts a program, unmodified, with a remote GPU.
#pragma once

#include <string>
#include <vector>

namespace warpline::cli {

/// What `warpline run` was asked for.
struct RunOptions {
    bool local = false;
    bool tcp = false;  ///< the private server is reached as one elsewhere is
    bool direct = false;
    bool device_files = false;    ///< the program sees /dev/nvidia* and /proc/driver/nvidia
    std::string driver = "auto";  ///< of the private server
    std::string server;           ///< overrides WARPLINE_SERVERS
    std::string memory;           ///< overrides WARPLINE_MEMORY
    std::string stats;            ///< overrides WARPLINE_STATS
    std::string trace;            ///< overrides WARPLINE_TRACE
    std::vector<std::string> command;
};

/// Runs the program with Warpline's driver in place of NVIDIA's. Returns the exit code for this process: the program's own; 127
/// and 126 as shells have them if it cannot be executed; 125 if Warpline itself failed.
int run(const RunOptions& options);

inline constexpr int k_exit_failed = 125;

}  // namespace warpline::cli
