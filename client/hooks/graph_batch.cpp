// Nodes of graphs that are batches of memory operations.
#include "client/gen/graph_exec_calls.gen.h"
#include "client/gen/graph_node_calls.gen.h"
#include "client/hooks/graph_new_node.h"

namespace warpline::client {

namespace {

constexpr unsigned k_max_items = 256;

CUresult check_item(const Call& call, const CUstreamBatchMemOpParams& item) {
    uint64_t bytes = 8;
    switch (item.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_32: bytes = 4; break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: break;
        case CU_STREAM_MEM_OP_BARRIER: return CUDA_SUCCESS;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
            return WL_REFUSE_CALL("cuGraphAddBatchMemOpNode",
                                  "the flush of other devices' writes: none of them is the program's");
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (item.waitValue.address % bytes != 0) return CUDA_ERROR_INVALID_VALUE;
    return check_device_range(call, item.waitValue.address, bytes);
}

CUresult check(const Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
    if (params.count == 0 || params.count > k_max_items || !params.paramArray || params.flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < params.count; ++i) {
        if (CUresult refused = check_item(call, params.paramArray[i]); refused != CUDA_SUCCESS) return refused;
    }
    return CUDA_SUCCESS;
}

uint64_t context_of(const Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
    return params.ctx ? to_token(params.ctx) : call.context;
}

}  // namespace

CUresult add_batch(Call& call, const NewNode& node, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
    if (CUresult refused = check(call, params); refused != CUDA_SUCCESS) return refused;
    const uint64_t context = context_of(call, params);
    CUresult result = add_node(call, node, [&](uint64_t token, std::span<const uint64_t> dependencies) {
        return gen::issue_cuGraphAddBatchMemOpNode(call, token, to_token(node.graph), dependencies, context,
                                                   array_bytes(params.paramArray, params.count), params.flags);
    });
    if (result == CUDA_SUCCESS) call.state.graph_nodes.find(to_token(*node.out))->context = context;
    return result;
}

CUresult hook_client_cuGraphAddBatchMemOpNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                              const CUgraphNode* dependencies, size_t numDependencies,
                                              const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
    return add_batch(call, {phGraphNode, hGraph, dependencies, numDependencies}, *nodeParams);
}

CUresult hook_client_cuGraphBatchMemOpNodeSetParams(Call& call, CUgraphNode hNode,
                                                    const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check(call, *nodeParams); refused != CUDA_SUCCESS) return refused;
    return gen::issue_cuGraphBatchMemOpNodeSetParams(call, to_token(hNode), context_of(call, *nodeParams),
                                                     array_bytes(nodeParams->paramArray, nodeParams->count), nodeParams->flags);
}

CUresult hook_client_cuGraphExecBatchMemOpNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
    if (!call.state.graph_execs.find(to_token(hGraphExec))) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check(call, *nodeParams); refused != CUDA_SUCCESS) return refused;
    return gen::issue_cuGraphExecBatchMemOpNodeSetParams(
        call, to_token(hGraphExec), to_token(hNode), context_of(call, *nodeParams),
        array_bytes(nodeParams->paramArray, nodeParams->count), nodeParams->flags);
}

CUresult hook_client_cuGraphBatchMemOpNodeGetParams(Call& call, CUgraphNode hNode,
                                                    CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams_out) {
    GraphNode* node = call.state.graph_nodes.find(to_token(hNode));
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    gen::CuGraphBatchMemOpNodeGetParamsValues answer;
    const CUresult result = gen::request_cuGraphBatchMemOpNodeGetParams(call, to_token(hNode), answer);
    if (result != CUDA_SUCCESS) return result;
    MutexLock lock(node->mutex);
    node->params = std::move(answer.items);
    *nodeParams_out = {to_handle<CUcontext>(node->context),
                       static_cast<unsigned>(node->params.size() / sizeof(CUstreamBatchMemOpParams)),
                       reinterpret_cast<CUstreamBatchMemOpParams*>(node->params.data()), answer.flags};
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
