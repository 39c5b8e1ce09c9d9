// What pools have of the device's memory, beyond what is allocated of them.
#pragma once

#include "client/call/common.h"

namespace warpline::client {

/// The memory that a pool has, as CUDA counts it: in whole blocks.
uint64_t reserved_bytes(const Pool& pool);

/// Memory that nobody else had before is the pool's now.
void count_reserved(Pool& pool, const DeviceRange& range);
/// It is not any more: it was freed otherwise than in the order of a stream.
void uncount_reserved(Call& call, const DeviceRange& range);
/// What was allocated, of a pool or not, has been freed: its pool does not count it as used any more, and no other process can
/// have it.
void note_freed(Call& call, const DeviceRange& range);

/// Memory that was freed to pools, and that nothing on the device uses any more: they keep of it what their release thresholds
/// let them, as with CUDA where something is waited for.
void settle_pooled(Call& call, const std::vector<DeviceRange>& ranges);

/// Gives such memory back, whatever its pool would keep.
void release_pooled(Call& call, const DeviceRange& range);

/// Gives back what the pool keeps, until it has no more than this left.
void trim_pool(Call& call, uint64_t token, Pool& pool, uint64_t keep_bytes);

/// Before a pool takes more of the device: gives back as much of what it keeps in pieces of other sizes. So a pool has no more
/// than was in use at one time.
void exchange_kept(Call& call, uint64_t token, uint64_t size_bytes);

/// Gives back what the pools of a device keep, or those of a context. False if that was nothing.
bool release_kept_of_device(Call& call, int device);
bool release_kept_of_context(Call& call, uint64_t context);

}  // namespace warpline::client
