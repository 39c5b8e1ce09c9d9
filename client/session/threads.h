// Whether somebody else in the process could be calling.
#pragma once

namespace warpline::client {

/// True if the process may have threads besides the calling one and `own` of ours. Asks the kernel.
bool has_other_threads(unsigned own);

}  // namespace warpline::client
