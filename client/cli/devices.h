// The subcommands that visit every configured server.
#pragma once

#include <string>
#include <vector>

namespace warpline::cli {

/// `warpline devices`: a table of the devices of all servers. Exit code 1 if a server could not be reached.
int devices(const std::vector<std::string>& servers);

/// `warpline ping`: round trips to each server, with min, median and max. Exit code 1 if a server could not be reached.
int ping(const std::vector<std::string>& servers, int count);

}  // namespace warpline::cli
