// Managed memory for the program: asked for, given back, and found behind variables of modules.
#pragma once

#include "client/call/common.h"

namespace warpline::client {

/// Memory that program and device use at the same address. Many small ones share pages, and one message makes room for all.
/// @errors  invalid value (flags), not supported (the driver cannot map), out of memory
CUresult allocate_managed(Call& call, uint64_t size_bytes, unsigned flags, uint64_t& address);
/// Gives a range back that forget() has returned, and that nothing on the device uses any more.
void release_managed(Call& call, const DeviceRange& range);

/// Whose the memory is from now on. Where it shares its pages with other memory it goes where that goes.
void attach_managed(const DeviceRange& range, CUstream stream, unsigned flags);

/// The same for a __managed__ variable, whose address is the server's choice.
CUresult share_variable(Call& call, uint64_t context, uint64_t address, uint64_t size_bytes);
void unshare_variable(uint64_t address, uint64_t size_bytes);

/// What is said of memory that allocate_managed() has made, or a variable. @errors invalid value: it is none
CUresult check_managed(const Call& call, uint64_t address, uint64_t size_bytes);

}  // namespace warpline::client
