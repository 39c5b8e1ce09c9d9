// The parameters of a node of whatever type, in the forms that the types' own calls take.
#pragma once

#include <cstring>

#include "cuda/abi/cuda_types.h"

namespace warpline::client {

/// Why the other types are refused.
inline constexpr const char* k_unchanged_nodes =
    "parameters of nodes that allocate or free memory, of conditional nodes and of semaphores";

inline CUDA_KERNEL_NODE_PARAMS kernel_params(const CUgraphNodeParams& params) {
    CUDA_KERNEL_NODE_PARAMS kernel{};
    std::memcpy(&kernel, &params.kernel, sizeof kernel);  // one layout under two names
    return kernel;
}

inline CUDA_HOST_NODE_PARAMS host_params(const CUgraphNodeParams& params) { return {params.host.fn, params.host.userData}; }

inline CUDA_MEMSET_NODE_PARAMS memset_params(const CUgraphNodeParams& params) {
    const CUDA_MEMSET_NODE_PARAMS_v2& from = params.memset;
    return {from.dst, from.pitch, from.value, from.elementSize, from.width, from.height};
}

inline CUDA_BATCH_MEM_OP_NODE_PARAMS batch_params(const CUgraphNodeParams& params) {
    const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& from = params.memOp;
    return {from.ctx, from.count, from.paramArray, from.flags};
}

}  // namespace warpline::client
