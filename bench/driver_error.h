#pragma once

#include "common/base/result.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::bench {

/// The driver has refused a call; its answer is the error's detail.
inline Error refused(const char* what, CUresult result) { return {Code::internal, what, static_cast<uint32_t>(result)}; }

}  // namespace warpline::bench
