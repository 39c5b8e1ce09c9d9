// From CUDA's many descriptions of a copy to ours.
#pragma once

#include "softgpu/driver/operations/operation.h"

namespace warpline::softgpu::driver {

enum class Endpoint : uint8_t {
    host,    ///< the program's word for it: any memory of the process
    device,  ///< must be known to the driver
    any,     ///< told from the address
};

/// Errors: invalid value (null, or device memory that is not there).
CUresult linear_copy(uint64_t to, Endpoint to_kind, uint64_t from, Endpoint from_kind, uint64_t bytes,
                     CopyOperation& operation);

/// Errors: invalid value (memory types, pitches, extents, ranges), invalid handle (arrays).
CUresult described_copy(const CUDA_MEMCPY3D& described, CopyOperation& operation);
CUresult batch_copy(const CUDA_MEMCPY3D_BATCH_OP& described, CopyOperation& operation);

CUDA_MEMCPY3D as_3d(const CUDA_MEMCPY2D& copy);
/// Copies between the first row of an array, from an offset in bytes on, and linear memory.
CUDA_MEMCPY3D to_array(CUarray array, size_t offset, CUmemorytype type, uint64_t from, size_t bytes);
CUDA_MEMCPY3D from_array(CUarray array, size_t offset, CUmemorytype type, uint64_t to, size_t bytes);
CUDA_MEMCPY3D array_to_array(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes);

/// Errors: invalid value.
CUresult check_memset(const CUDA_MEMSET_NODE_PARAMS& params);

}  // namespace warpline::softgpu::driver
