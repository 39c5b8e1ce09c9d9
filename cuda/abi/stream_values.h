// Operations of streams on values in memory.
#pragma once

#include <cstdint>

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// True if the flags of cuStreamWaitValue, cuStreamWriteValue, or of such an item of a batch, are known. Other operations have
/// none that are looked at.
inline bool are_stream_value_flags(CUstreamBatchMemOpType operation, unsigned int flags) {
    switch (operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64: return (flags & ~(CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH)) == 0;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: return (flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}) == 0;
        default: return true;
    }
}

}  // namespace warpline::cuda::abi
