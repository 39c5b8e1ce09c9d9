// The process that watches the programs of `warpline run`, and tells servers when one has died.
#pragma once

#include <string>

namespace warpline::cli {

/// Starts a watcher for the program that is about to take this process's place, and for all that it starts. It is nobody's
/// child, holds none of our descriptors, hears no signal of the terminal, and ends with the last program that it watches.
///
/// @return  what programs find in client::k_report_variable; empty if there can be no watcher: then nobody reports, and servers
///          are told so
/// @blocks  for two forks
std::string start_watcher();

/// The watcher's whole life: `warpline watch`, which users do not call.
/// @return  the exit code
int watch();

}  // namespace warpline::cli
