// The start of the driver.
#pragma once

#include "cuda/abi/cuda_types.h"

namespace warpline::softgpu::driver {

/// The body of cuInit: makes the process's devices, each with its primary context and its pool of memory. Success any number of
/// times. Errors: those of Process::initialise.
CUresult start(unsigned int flags);

}  // namespace warpline::softgpu::driver
