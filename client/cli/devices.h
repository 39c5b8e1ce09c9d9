// The subcommands that visit every configured server.
#pragma once

#include <cstdint>
#include <vector>

#include "client/cli/survey.h"

namespace warpline::cli {

/// How a subcommand says what it has found.
enum class Form : uint8_t {
    table,  ///< for people
    json,   ///< for programs
};

/// `warpline devices`: the devices of all servers. Exit code 1 if a server could not be reached.
int devices(const std::vector<ServerToVisit>& servers, Form form);

struct PingOptions {
    int count = 20;
    double interval_s = 0;    ///< from probe to probe; 0: at once
    uint64_t copy_bytes = 0;  ///< to the first device and back, after the probes; 0: no copies
};

/// `warpline ping`: round trips to each server, a line for each, and a summary, as ping(8); with copies the rates, and each of
/// the connections that they opened.
/// @return  ping(8)'s exit codes: 0 all servers answered (and copied), 1 a server did not at all, 2 there is none to ask
int ping(const std::vector<ServerToVisit>& servers, const PingOptions& options);

/// How many servers have to answer.
enum class Wanted : uint8_t {
    all,
    any,  ///< nobody waits for the others then
};

/// `warpline servers`: asks all servers for their status at the same time, and prints it.
/// @return  0 those that are wanted answered, 1 they did not, 2 there is none to ask, or nobody to ask as
/// @blocks  up to `connect_timeout`
int servers(const std::vector<ServerToVisit>& servers, Form form, Wanted wanted);

}  // namespace warpline::cli
