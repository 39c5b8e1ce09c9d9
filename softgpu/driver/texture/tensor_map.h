// Descriptors of tensors.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/abi/cuda_types.h"
#include "softgpu/exec/tensor_map.h"

namespace warpline::softgpu::driver {

/// What the cuTensorMapEncode calls have in common, and what their modes add.
struct TensorMapRequest {
    exec::TensorMode mode = exec::TensorMode::tiled;
    CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    cuuint32_t rank = 0;
    const void* address = nullptr;
    const cuuint64_t* sizes = nullptr;
    const cuuint64_t* strides = nullptr;  ///< rank - 1 of them
    const cuuint32_t* steps = nullptr;
    CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
    CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
    CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
    CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    const cuuint32_t* box = nullptr;      ///< tiled
    std::span<const int> lower, upper;    ///< im2col: W, H, D; im2col::w: W
    cuuint32_t channels = 0, pixels = 0;  ///< im2col
};

/// Checks what cuda.h says of the arguments. CUDA_ERROR_INVALID_VALUE for what it excludes; CUDA_ERROR_NOT_SUPPORTED, with a
/// line in the log, for layouts that are not executed.
CUresult make_tensor_map(const TensorMapRequest& request, exec::TensorMap& map);

/// Whether an address may be that of a tensor with such elements and layout.
bool tensor_address_fits(uint64_t address, exec::TensorType type, exec::TensorInterleave interleave);

}  // namespace warpline::softgpu::driver
