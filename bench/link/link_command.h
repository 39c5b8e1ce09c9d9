// The subcommand `warpline-bench link`.
#pragma once

#include <string>

#include "bench/link/link_model.h"

namespace warpline::bench {

/// As users write a link.
struct LinkOptions {
    double round_trip_ms = 10;
    double rate_mbit = 1000;
    double loss_percent = 0;
    double jitter_ms = 0;
    double queue_ms = 5;
    uint64_t seed = 1;

    LinkProperties properties() const;
    /// "10 ms, 1000 Mb/s, 0.1 % loss, 2 ms jitter": what there is.
    std::string to_string() const;
};

struct LinkCommandOptions {
    LinkOptions link;
    std::string listen = "127.0.0.1";
    std::string to;
    bool check = false;
};

/// Emulates the link until an interrupt or SIGTERM, or checks how exact it is. @return the exit code
int link(const LinkCommandOptions& options);

}  // namespace warpline::bench
