// The subcommand `warpline-bench path`.
#pragma once

#include <string>
#include <vector>

#include "bench/link/link_command.h"

namespace warpline::bench {

struct PathCommandOptions {
    LinkOptions link{.queue_ms = 20};
    std::string far = "198.18.0.1", near = "198.18.0.2";  // of the range for benchmarks (RFC 2544)
    std::string congestion;                               ///< the program's TCP; empty: the machine's
    int mtu = 1500;
    std::vector<std::string> command;
};

/// Runs a program in a network of its own, from which this machine is as far away as the path says. @return its exit code
int path(const PathCommandOptions& options);

}  // namespace warpline::bench
