// What is linked at run time, until the image is loaded.
#pragma once

#include <optional>
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

/// PTX texts as one image of our own kind: magic, total bytes, number of texts, then each with its length. A single text is its
/// own image.
Bytes make_linked_image(const std::vector<std::string>& ptx);

/// The texts of such an image; nothing if the memory holds an image of another kind. Reads the magic first and no more than the
/// image says that it has.
std::optional<std::vector<std::string>> read_linked_image(const void* image);

}  // namespace warpline::softgpu::driver
