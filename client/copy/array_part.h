// Which part of an array a copy touches, and whether the array has it.
#pragma once

#include "client/call/call.h"

namespace warpline::client {

/// What a copy touches of an array, in bytes, rows and layers.
struct ArrayPart {
    uint64_t x = 0, y = 0, z = 0, width = 0, height = 1, depth = 1;
};

/// The rows and layers of an array that is made like this.
ArrayExtent extent_of(const CUDA_ARRAY3D_DESCRIPTOR& array);

/// What the driver says of an array: asked for once, for an array stays as it was made. libcudart asks before each copy.
/// @errors  invalid handle
/// @blocks  the first time, and where the current context is not the array's
CUresult describe_array(Call& call, CUarray handle, CUDA_ARRAY3D_DESCRIPTOR& descriptor);
CUresult describe_array(Call& call, CUarray handle, CUDA_ARRAY_DESCRIPTOR& descriptor);

/// @errors  invalid handle (no array), invalid value (it does not lie in the array)
/// @blocks  the first time, for planes, whose size the server knows
CUresult check_in_array(Call& call, CUarray handle, const ArrayPart& part);

/// The bytes of an array's elements.
/// @errors  invalid handle; not supported (planes and blocks, which have no elements of one size)
/// @blocks  as above
CUresult find_element_bytes(Call& call, CUarray handle, uint64_t& bytes);

}  // namespace warpline::client
