// Options that concern a link as a whole.
#pragma once

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// True for options that a single input of a link cannot have. The sizes of logs are as little an input's as the logs: a driver
/// writes to them what it has written there.
///
/// @source cuda.h, cuLinkAddData: "This method accepts only compiler options, [...] and does not accept any of
/// CU_JIT_WALL_TIME,
///         CU_JIT_INFO_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_TARGET_FROM_CUCONTEXT, or CU_JIT_TARGET."
constexpr bool is_of_whole_link(CUjit_option option) {
    switch (option) {
        case CU_JIT_WALL_TIME:
        case CU_JIT_INFO_LOG_BUFFER:
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_ERROR_LOG_BUFFER:
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_TARGET_FROM_CUCONTEXT:
        case CU_JIT_TARGET: return true;
        default: return false;
    }
}

}  // namespace warpline::cuda::abi
