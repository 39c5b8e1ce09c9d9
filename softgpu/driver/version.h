#pragma once

#include <optional>
#include <string_view>

// Which CUDA driver the software GPU says it is (SOFTGPU_DRIVER_VERSION), and what follows from that.
namespace warpline::softgpu::driver {

/// What cuDriverGetVersion answers: SOFTGPU_DRIVER_VERSION, else the newest. Read once per process, at the first call; a value
/// that makes no sense is reported and replaced by the newest.
///
/// @thread  any, also before cuInit
int driver_version() noexcept;

/// "12.4" or "12040" as 12040; nothing if it is no CUDA version from 11.0 to the newest.
std::optional<int> parse_driver_version(std::string_view text);

}  // namespace warpline::softgpu::driver
