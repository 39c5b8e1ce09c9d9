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

/// The program's memory, where the device has changed its copy: these bytes are written there, and no others. The caller has
/// the lock of the pages.
/// @param parts    what was read of it, offsets and bytes
/// @param bytes    of the parts, one behind the other
/// @param written  by the program meanwhile, by its addresses @returns true if there was anything
bool take_over(MirroredRange& mirrored, const std::vector<AddressRange>& parts, BytesView bytes,
               const std::vector<AddressRange>& written = {});

}  // namespace warpline::client
