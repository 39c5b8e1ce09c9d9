// What is linked at run time, until the image is loaded.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "softgpu/driver/code/jit_options.h"

namespace warpline::softgpu::driver {

/// What cuLinkCreate makes: PTX texts that become one image. The engine links them when the image is loaded; cuLinkComplete
/// tries that once, so that it reports what does not fit.
struct LinkState {
    JitOptions jit;
    std::vector<std::string> ptx;
    Bytes image;  ///< of cuLinkComplete: lives until cuLinkDestroy
};

}  // namespace warpline::softgpu::driver
