// Decoding matrix multiplications.
#pragma once

#include "softgpu/isa/registry.h"

namespace warpline::softgpu::isa {

/// Decodes mma, or wmma.mma. False after unsupported() or invalid().
bool decode_matrix_product(DecodeContext& context, bool wmma);

}  // namespace warpline::softgpu::isa
