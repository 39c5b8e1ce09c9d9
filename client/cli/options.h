// The subcommand options.
#pragma once

#include "client/cli/devices.h"

namespace warpline::cli {

/// Prints the options of client and command, with the values that a program would find now, and where each comes from. What is
/// refused in file or environment is said on stderr, or in the object. @return the exit code: 1 if something is refused
int show_options(Form form);

}  // namespace warpline::cli
