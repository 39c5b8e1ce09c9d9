// Which CUDA driver the software GPU says it is (SOFTGPU_DRIVER_VERSION), and what follows from that.
#pragma once

#include <optional>
#include <string_view>

#include "cuda/abi/cuda_types.h"

namespace warpline::softgpu::driver {

/// What cuDriverGetVersion answers: SOFTGPU_DRIVER_VERSION, else the newest. Read once per process, at the first call; a value
/// that makes no sense is reported and replaced by the newest.
///
/// @thread  any, also before cuInit
int driver_version() noexcept;

/// The answer of a function that came with a newer CUDA than the driver says to be: not supported, and one line. A driver of
/// that version would not have the symbol.
CUresult refuse_newer(const char* call, int since) noexcept;

/// "12.4" or "12040" as 12040; nothing if it is no CUDA version from 11.0 to the newest.
std::optional<int> parse_driver_version(std::string_view text);

}  // namespace warpline::softgpu::driver
