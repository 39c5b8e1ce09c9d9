// Forms in which memory is given to other processes.
#pragma once

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// True for one that CUDA knows, whether it is supported or not.
inline bool is_one_handle_type(CUmemAllocationHandleType type) {
    return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || type == CU_MEM_HANDLE_TYPE_WIN32 ||
           type == CU_MEM_HANDLE_TYPE_WIN32_KMT || type == CU_MEM_HANDLE_TYPE_FABRIC;
}

}  // namespace warpline::cuda::abi
