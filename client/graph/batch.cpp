// What is checked of a batch of memory operations, and how it becomes a node.
#include "client/graph/batch.h"

#include <algorithm>

#include "client/gen/graph_node_calls.gen.h"
#include "cuda/abi/stream_values.h"

namespace warpline::client {

namespace {

CUresult check_reduction(const Call& call, const cuda::abi::AtomicReduction& reduction) {
    const Device* device = find_device(call.device());
    const bool is_new_enough = device && device->has_attribute[cuda::abi::k_atomic_reduction_supported];
    if (!is_new_enough || !reduction.is_known()) return CUDA_ERROR_INVALID_VALUE;
    if (device->attribute(cuda::abi::k_atomic_reduction_supported) == 0) return CUDA_ERROR_NOT_SUPPORTED;
    if (reduction.address % reduction.bytes() != 0) return CUDA_ERROR_INVALID_VALUE;
    return check_device_memory(call, reduction.address, reduction.bytes());
}

}  // namespace

CUresult check_item(const Call& call, const CUstreamBatchMemOpParams& item) {
    if (cuda::abi::is_reduction(item)) return check_reduction(call, cuda::abi::reduction_of(item));
    uint64_t bytes = 8;
    switch (item.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_32: bytes = 4; break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: break;
        case CU_STREAM_MEM_OP_BARRIER: return CUDA_SUCCESS;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
            return WL_REFUSE_CALL("cuStreamBatchMemOp", "the flush of other devices' writes: none of them is the program's");
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (item.waitValue.address % bytes != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!cuda::abi::are_stream_value_flags(item.operation, item.waitValue.flags)) return CUDA_ERROR_INVALID_VALUE;
    return check_device_memory(call, item.waitValue.address, bytes);
}

bool is_wait(const CUstreamBatchMemOpParams& item) {
    return item.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || item.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

CUresult check_batch(const Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
    constexpr unsigned k_max_items = 256;
    if (params.count == 0 || params.count > k_max_items || !params.paramArray || params.flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < params.count; ++i) {
        if (CUresult refused = check_item(call, params.paramArray[i]); refused != CUDA_SUCCESS) return refused;
    }
    return CUDA_SUCCESS;
}

CUresult check_batch_of_node(const Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
    const CUresult refused = check_batch(call, params);
    if (refused == CUDA_SUCCESS && std::any_of(params.paramArray, params.paramArray + params.count, is_wait))
        call.state.gates.note_in_graph();
    return refused;
}

uint64_t context_of_batch(const Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
    return params.ctx ? to_token(params.ctx) : call.context;
}

CUresult add_batch(Call& call, const NewNode& node, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
    if (CUresult refused = check_batch_of_node(call, params); refused != CUDA_SUCCESS) return refused;
    const uint64_t context = context_of_batch(call, params);
    CUresult result =
        add_node(call, node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [&](uint64_t token, std::span<const uint64_t> dependencies) {
            return gen::issue_cuGraphAddBatchMemOpNode(call, token, to_token(node.graph), dependencies, context,
                                                       array_bytes(params.paramArray, params.count), params.flags);
        });
    if (result == CUDA_SUCCESS) call.state.graph_nodes.find(to_token(*node.out))->context = context;
    return result;
}

}  // namespace warpline::client
