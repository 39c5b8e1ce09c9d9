// CUDA's names for its errors, and what it says of them.
#pragma once

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// "CUDA_ERROR_OUT_OF_MEMORY", or nullptr for a number that is no CUresult. The text lives for ever.
const char* error_name(CUresult result) noexcept;

/// "out of memory", or nullptr for a number that is no CUresult. The text lives for ever.
const char* error_string(CUresult result) noexcept;

/// error_name, or "unknown error" for logs: never nullptr.
const char* error_name_for_log(CUresult result) noexcept;

/// Bodies of cuGetErrorName and cuGetErrorString: unknown numbers give CUDA_ERROR_INVALID_VALUE and *text = nullptr.
CUresult get_error_name(CUresult result, const char** text) noexcept;
CUresult get_error_string(CUresult result, const char** text) noexcept;

}  // namespace warpline::cuda::abi
