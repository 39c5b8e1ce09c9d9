// The answer of exported functions that the software GPU does not have. No type of CUDA: who includes this declares the
// functions without their arguments.
#pragma once

namespace warpline::softgpu::driver {

/// CUDA_ERROR_NOT_SUPPORTED, and one log line with the reason.
///
/// @thread  any, also before cuInit
int refuse(const char* symbol, const char* reason) noexcept;

}  // namespace warpline::softgpu::driver
