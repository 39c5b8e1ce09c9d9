// What a kernel's own shared memory counts as.
#pragma once

#include <cstdint>

namespace warpline::cuda::abi {

/// Of the bytes of its variables, what CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES tells, and what takes from the limits: from compute
/// capability 9.0 on in pieces of 16 bytes (docs/driver-behaviour.md, DB-60).
/// @param major  of the device's compute capability
constexpr uint32_t counted_shared_bytes(uint32_t variable_bytes, int major) {
    constexpr uint32_t piece = 16;
    constexpr int first_in_pieces = 9;
    return major < first_in_pieces ? variable_bytes : (variable_bytes + piece - 1) / piece * piece;
}

}  // namespace warpline::cuda::abi
