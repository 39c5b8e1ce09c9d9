// What an operator does with the server that runs on this machine.
#pragma once

#include <string>

namespace warpline::server {

/// `gpu-server status`: prints how the server at this address is. @param json the answer as it is, instead of tables
/// @param ready whether it takes sessions is all that is asked
/// @return the exit status: 0, or 1 if there is none, or it is another user's, or `ready` is asked and it takes no sessions
int operator_status(const std::string& address, bool json, bool ready);

/// `gpu-server drain`: no new session from now on; the server ends when the last one has ended.
/// @param wait  returns when it has @return as operator_status() @blocks with `wait`, as long as programs run
int operator_drain(const std::string& address, bool wait);

}  // namespace warpline::server
