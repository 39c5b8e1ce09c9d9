// For threads that others depend on: the log must not keep them waiting.
#pragma once

namespace warpline::log {

/// From now on, while the log's file takes nothing (a pipe that nobody reads), lines of the calling thread are left out, and
/// counted in the next line that is written.
void never_wait_on_this_thread();

}  // namespace warpline::log
