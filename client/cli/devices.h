// The subcommands that visit every configured server.
#pragma once

#include <vector>

#include "client/cli/survey.h"

namespace warpline::cli {

/// `warpline devices`: a table of the devices of all servers. Exit code 1 if a server could not be reached.
int devices(const std::vector<ServerToVisit>& servers);

/// `warpline ping`: round trips to each server, a line for each, and a summary, as ping(8).
/// @param interval_s  from probe to probe; 0: at once
/// @return            ping(8)'s exit codes: 0 all servers answered, 1 a server did not answer at all, 2 there is none to ask
int ping(const std::vector<ServerToVisit>& servers, int count, double interval_s);

/// `warpline servers`: asks all servers for their status at the same time, and prints a table.
/// @return  0 all servers answered, 1 a server did not, 2 there is none to ask, or nobody to ask as
/// @blocks  up to `connect_timeout`
int servers(const std::vector<ServerToVisit>& servers);

}  // namespace warpline::cli
