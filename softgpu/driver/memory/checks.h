// The driver's part of SOFTGPU_CHECK: red zones, freed memory that is not reused at once, memory that nothing has written,
// leaks; operations/copy_checks.h says what copies do. Every function does nothing where the check is off.
#pragma once

#include <cstdint>
#include <vector>

#include "softgpu/check/checker.h"
#include "softgpu/driver/space/address_map.h"

namespace warpline::softgpu::driver {

class Device;

/// The checker if it is asked for a check, else null.
check::Checker* checker_for(check::Check check);

/// What to take from a heap for an allocation, so that a neighbour does not begin where it ends.
uint64_t with_red_zone(const Device& device, uint64_t size_bytes);

/// A piece of a heap became an allocation without contents, or ceased to be one.
void note_uninitialised(uint64_t address, uint64_t size_bytes);
void note_freed(uint64_t address);
/// Other processes may write to an allocation from now on, and nobody tells when they do: all of it counts as written.
void note_shared(uint64_t address);

void note_write(uint64_t address, uint64_t size_bytes);

/// Reports allocations that nobody freed.
void report_leaks(const std::vector<AllocationPtr>& left);
/// The end of the program: leaks and the summary.
void report_at_exit();

}  // namespace warpline::softgpu::driver
