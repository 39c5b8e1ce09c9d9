// Writing to memory of the program's whose access the program may have changed.
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

}  // namespace warpline::client
