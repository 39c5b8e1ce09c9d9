#pragma once

#include "client/abi/call.h"

namespace warpline::client {

/// What a copy touches of an array, in bytes, rows and layers.
struct ArrayPart {
    uint64_t x = 0, y = 0, z = 0, width = 0, height = 1, depth = 1;
};

/// @errors  invalid handle (no array), invalid value (it does not lie in the array)
/// @blocks  the first time, for planes, whose size the server knows
CUresult check_in_array(Call& call, CUarray handle, const ArrayPart& part);

}  // namespace warpline::client
