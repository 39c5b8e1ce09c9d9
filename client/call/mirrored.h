// What the program has changed of memory that it has registered.
#pragma once

#include "client/call/call.h"
#include "client/managed/shared_pages.h"

namespace warpline::client {

/// Queues what the program has changed since the device had it. The caller has the lock of the pages.
/// @param begin, end  of the part that is looked at
CUresult write_mirrored(const Call& call, MirroredRange& mirrored, uint64_t begin = 0, uint64_t end = UINT64_MAX);
/// The same for all registered memory that kernels use.
CUresult write_all_mirrored(const Call& call);

}  // namespace warpline::client
