// Memory of the program's whose access the program may have changed, or which it has taken away.
#pragma once

#include <cstdint>
#include <vector>

#include "client/managed/page_region.h"

namespace warpline::client {

/// Writes bytes to ranges of this process's memory, in whatever way it can be done: a device's writes take no notice of what
/// mprotect() has said. Where nothing helps, these bytes stay as they were.
/// @param from  where the bytes of each range are, in the order of the ranges
/// @returns how many ranges could not be written
size_t write_over(const std::vector<AddressRange>& ranges, const std::vector<const std::byte*>& from);

/// Reads a range of this process's memory, as far as it is there: a device that it was registered for would still find it.
/// @returns how many bytes of it were read
uint64_t read_as_far(const AddressRange& range, std::byte* into);

}  // namespace warpline::client
