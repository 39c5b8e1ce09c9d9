// A row of a tensor's box on its way between global and shared memory: what is outside of the tensor is filled in, and the
// types that differ in the two are converted.
#pragma once

#include <cstddef>

#include "softgpu/isa/tensor_box.h"

namespace warpline::softgpu::isa {

/// 256 elements of 8 bytes.
constexpr uint32_t k_max_tensor_row_bytes = 2048;

/// Makes the row of `bytes` bytes as it lies in shared memory. `from`: the units that are inside of the tensor.
void unpack_row(const exec::TensorMap& map, const TensorRow& inside, const std::byte* from, uint32_t bytes, std::byte* row);

/// The units that are inside of the tensor, as they lie in global memory: within `row`, which may be changed.
const std::byte* pack_row(const exec::TensorMap& map, const TensorRow& inside, std::byte* row);

}  // namespace warpline::softgpu::isa
