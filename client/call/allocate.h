// Device memory for the program: asked for and given back, by whichever area's call.
#pragma once

#include "client/call/common.h"

namespace warpline::client {

/// Device memory of the current context's device.
/// @param pool  token of the pool that it counts for, or 0
CUresult allocate_device_memory(Call& call, uint64_t size_bytes, uint64_t& address, uint64_t pool = 0);
/// Gives a range back that forget() has returned, and that nothing on the device uses any more: at once, or where memory has
/// the driver's own addresses, when the device rests.
CUresult release_device_memory(Call& call, const DeviceRange& range);

/// Which devices may use memory of one: those that the program lets, or every one that can, as with memory of the host's.
enum class Reach : uint8_t { peers, every_device };
/// Backs a block with memory of a device: without waiting while the server's grant lasts.
CUresult map_block(Call& call, RangeHeap::Range block, int device, Reach reach);
/// The server has been asked for memory of the device in another way. Where there is a limit, what is left of that is for the
/// server to say: what was granted before may be more.
void took_memory(Call& call, int device);
/// Gives a block back: nobody has its addresses before the device has done with it.
void unmap_block(Call& call, RangeHeap::Range block);

/// Memory of a context that ends, and that was to be given back once the device rests.
void release_postponed_of_context(Call& call, uint64_t context);

/// Takes back what the device has done with. False if that was nothing.
bool settle_freed(Call& call);

}  // namespace warpline::client
