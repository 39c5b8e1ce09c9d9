// How many processors this process has.
#pragma once

namespace warpline {

/// Those that it may run on, or as many as its control group lets it use at a time, if that is less; at least 1. @blocks no
unsigned processors();

}  // namespace warpline
