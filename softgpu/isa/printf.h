// printf of device code.
#pragma once

#include <string>

#include "softgpu/exec/machine.h"

namespace warpline::softgpu::isa {

/// Reads a zero-terminated string at a generic address. False, with the address, if it leaves valid memory.
bool read_device_string(exec::Warp& warp, uint64_t address, std::string& out, uint64_t& bad);

/// Formats as device printf does (CUDA C++ Programming Guide, Formatted Output) and appends to `out`. `arguments` is the
/// address of the packed arguments: each aligned to its size, ints 4 bytes, doubles, longs and pointers 8. `printed` becomes
/// the number of arguments, as CUDA defines it. False, with the address, if an address is not valid.
bool format_device_text(exec::Warp& warp, uint64_t format, uint64_t arguments, std::string& out, int& printed, uint64_t& bad);

}  // namespace warpline::softgpu::isa
