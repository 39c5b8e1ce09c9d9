// Whether a device may touch memory.
#pragma once

#include <cstdint>

namespace warpline::softgpu::driver {

class Device;

/// True if copies and fills of a device reach memory: mapped memory and that of pools only if the device was granted access,
/// unless the profile is forgiving (DB-14).
bool reaches(const Device& device, uint64_t address, uint64_t size_bytes);

}  // namespace warpline::softgpu::driver
