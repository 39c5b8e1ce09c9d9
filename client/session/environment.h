// What the program's environment asks of a driver.
#pragma once

#include <cstdint>

namespace warpline::client {

/// What the program's environment says about drivers (cuda/abi/driver_settings.h). Read once, as a driver does. @thread any
uint64_t driver_settings();

/// CUDA_MODULE_LOADING=EAGER: images are loaded when the program loads them.
bool loads_eagerly();

/// CUDA_LAUNCH_BLOCKING: launches wait for their kernels.
bool launches_block();

}  // namespace warpline::client
