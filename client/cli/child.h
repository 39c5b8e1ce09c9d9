// Programs that the command starts and waits for.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace warpline::cli {

/// Starts a program. `prepare` runs in the child before it (environment, descriptors) and may not take locks.
/// @errors  io, with errno as detail: the program cannot be executed
Result<pid_t> spawn(const std::vector<std::string>& command, const std::function<void()>& prepare);

/// Waits for a child while passing on to it the signals that ask to end. Interrupts from the terminal reach the child by
/// themselves.
/// @return  its exit code, or 128 + signal, as a shell has it
int wait_for(pid_t child);

/// Asks a child to end and waits for it.
void end_child(pid_t child);

}  // namespace warpline::cli
