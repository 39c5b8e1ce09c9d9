// What is mapped in this process.
#pragma once

#include <cstdint>

namespace warpline {

/// True if all of the range can be read; also where the system does not say (no /proc). Reads /proc/self/maps.
bool is_readable(uint64_t address, uint64_t size_bytes);
/// The same for writing.
bool is_writable(uint64_t address, uint64_t size_bytes);

}  // namespace warpline
