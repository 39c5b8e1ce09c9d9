// The program's calls about signals, while accesses to memory are signals of ours.
#pragma once

#include <vector>

#include "client/managed/imports.h"

namespace warpline::client::signal_calls {

/// What the program calls of the C library to block signals and to install handlers, as functions that leave SIGSEGV open and
/// its handler ours, and tell the program what it would see without us: signal_mask.h, program_handler.h.
void add_to(std::vector<Import>& imports);

}  // namespace warpline::client::signal_calls
