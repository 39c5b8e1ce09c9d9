// The variables that a process was started with.
#pragma once

namespace warpline::config {

/// What getenv() says. Where the program has done away with its environment as a whole (clearenv), what it was started with:
/// that was meant for the driver, which a program does not know.
/// @returns null where there is none
const char* variable(const char* name);

}  // namespace warpline::config
