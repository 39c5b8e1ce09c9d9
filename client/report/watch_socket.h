// The socket between programs and who watches them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "common/net/socket.h"

namespace warpline::client {

/// The variable in which `warpline run` tells programs where to report their sessions.
inline constexpr const char* k_report_variable = "WARPLINE_REPORT";

/// Longer messages are none of ours.
inline constexpr size_t k_max_report_bytes = 32 * 1024;

/// A listening socket that keeps the bounds of messages and has no name in the file system, so that nothing can be left behind
/// there. Names of this kind are open to every user of the machine: both sides look at whom they are connected to.
///
/// @param name  set to what connect_to_watcher() takes
/// @errors      io
Result<net::Socket> listen_for_reports(std::string& name);

/// Connects to the watcher of that name, if it is the same user's. @errors connect_refused @blocks no
Result<net::Socket> connect_to_watcher(const std::string& name);

/// The process that has connected; nothing if it is another user's, or in a part of the system that we do not see.
std::optional<pid_t> reporting_process(int socket);

}  // namespace warpline::client
