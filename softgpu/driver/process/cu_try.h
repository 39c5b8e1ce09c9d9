// Passing on errors of calls.
#pragma once

#include "cuda/abi/cuda_types.h"

/// Returns the result of a call of the driver's unless it is success.
#define CU_TRY(expression)                                                                              \
    do {                                                                                                \
        if (CUresult cu_try_result = (expression); cu_try_result != CUDA_SUCCESS) return cu_try_result; \
    } while (false)
