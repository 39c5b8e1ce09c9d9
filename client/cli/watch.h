// The process that watches the programs of `warpline run`, and tells servers when one has died.
#pragma once

#include <sys/types.h>

#include <string>

namespace warpline::cli {

/// Starts a watcher for a process of the user's, which may be this one, about to be replaced by a program, and for all that it
/// starts. It is nobody's child, holds none of our descriptors, hears no signal of the terminal, and ends with the last program
/// that it watches.
///
/// @return  what programs find in client::k_report_variable; empty if there can be no watcher: then nobody reports, and servers
///          are told so
/// @blocks  for two forks
std::string start_watcher(pid_t process);

/// `warpline watch --for PROCESS`: starts a watcher for a process that does not start by `warpline run`, and prints what it,
/// and what it starts, is to find in client::k_report_variable. @return the exit code: 1 if there can be no watcher
int watch_process(pid_t process);

/// The watcher's whole life: `warpline watch`, which users do not call.
/// @return  the exit code
int watch();

}  // namespace warpline::cli
