// cuGraphNodeSetParams and cuGraphExecNodeSetParams: one call for nodes of all types, which goes the way of the type's own.
#include "client/gen/graph_exec_calls.gen.h"
#include "client/gen/graph_node_calls.gen.h"
#include "client/hooks/graph_tokens.h"

namespace warpline::client {

namespace {

constexpr const char* k_refused = "parameters of nodes that allocate or free memory, of conditional nodes and of semaphores";

// Forms of the parameters that the types' own calls take.

CUDA_KERNEL_NODE_PARAMS kernel_params(const CUgraphNodeParams& params) {
    CUDA_KERNEL_NODE_PARAMS kernel{};
    std::memcpy(&kernel, &params.kernel, sizeof kernel);  // one layout under two names
    return kernel;
}

CUDA_HOST_NODE_PARAMS host_params(const CUgraphNodeParams& params) { return {params.host.fn, params.host.userData}; }

CUDA_MEMSET_NODE_PARAMS memset_params(const CUgraphNodeParams& params) {
    const CUDA_MEMSET_NODE_PARAMS_v2& from = params.memset;
    return {from.dst, from.pitch, from.value, from.elementSize, from.width, from.height};
}

CUDA_BATCH_MEM_OP_NODE_PARAMS batch_params(const CUgraphNodeParams& params) {
    const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& from = params.memOp;
    return {from.ctx, from.count, from.paramArray, from.flags};
}

}  // namespace

CUresult hook_client_cuGraphNodeSetParams(Call& call, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
    const uint64_t node = to_token(hNode);
    if (!call.state.graph_nodes.find(node)) return CUDA_ERROR_INVALID_VALUE;
    switch (nodeParams->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            const CUDA_KERNEL_NODE_PARAMS params = kernel_params(*nodeParams);
            return hook_client_cuGraphKernelNodeSetParams_v2(call, hNode, &params);
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return hook_client_cuGraphMemcpyNodeSetParams(call, hNode, &nodeParams->memcpy.copyParams);
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const CUDA_MEMSET_NODE_PARAMS params = memset_params(*nodeParams);
            return gen::issue_cuGraphMemsetNodeSetParams(call, node, struct_bytes(&params));
        }
        case CU_GRAPH_NODE_TYPE_HOST: {
            const CUDA_HOST_NODE_PARAMS params = host_params(*nodeParams);
            return hook_client_cuGraphHostNodeSetParams(call, hNode, &params);
        }
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            return hook_client_cuGraphEventRecordNodeSetEvent(call, hNode, nodeParams->eventRecord.event);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT: {
            const uint64_t event = to_token(nodeParams->eventWait.event);
            if (!call.state.events.find(event)) return CUDA_ERROR_INVALID_HANDLE;
            return gen::issue_cuGraphEventWaitNodeSetEvent(call, node, event);
        }
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
            const CUDA_BATCH_MEM_OP_NODE_PARAMS params = batch_params(*nodeParams);
            return hook_client_cuGraphBatchMemOpNodeSetParams(call, hNode, &params);
        }
        case CU_GRAPH_NODE_TYPE_GRAPH:
            return WL_REFUSE_CALL("cuGraphNodeSetParams",
                                  "another graph for a child graph's node, outside of an executable graph");
        default: return WL_REFUSE_CALL("cuGraphNodeSetParams", k_refused);
    }
}

CUresult hook_client_cuGraphExecNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                              CUgraphNodeParams* nodeParams) {
    const uint64_t exec = to_token(hGraphExec), node = to_token(hNode);
    if (!call.state.graph_execs.find(exec) || !call.state.graph_nodes.find(node)) return CUDA_ERROR_INVALID_VALUE;
    switch (nodeParams->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            const CUDA_KERNEL_NODE_PARAMS params = kernel_params(*nodeParams);
            return hook_client_cuGraphExecKernelNodeSetParams_v2(call, hGraphExec, hNode, &params);
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return hook_client_cuGraphExecMemcpyNodeSetParams(call, hGraphExec, hNode, &nodeParams->memcpy.copyParams,
                                                              nodeParams->memcpy.copyCtx);
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const CUDA_MEMSET_NODE_PARAMS params = memset_params(*nodeParams);
            const uint64_t context = nodeParams->memset.ctx ? to_token(nodeParams->memset.ctx) : call.context;
            return gen::issue_cuGraphExecMemsetNodeSetParams(call, exec, node, struct_bytes(&params), context);
        }
        case CU_GRAPH_NODE_TYPE_HOST: {
            const CUDA_HOST_NODE_PARAMS params = host_params(*nodeParams);
            return hook_client_cuGraphExecHostNodeSetParams(call, hGraphExec, hNode, &params);
        }
        case CU_GRAPH_NODE_TYPE_GRAPH:
            return hook_client_cuGraphExecChildGraphNodeSetParams(call, hGraphExec, hNode, nodeParams->graph.graph);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            return hook_client_cuGraphExecEventRecordNodeSetEvent(call, hGraphExec, hNode, nodeParams->eventRecord.event);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT: {
            const uint64_t event = to_token(nodeParams->eventWait.event);
            if (!call.state.events.find(event)) return CUDA_ERROR_INVALID_HANDLE;
            return gen::issue_cuGraphExecEventWaitNodeSetEvent(call, exec, node, event);
        }
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
            const CUDA_BATCH_MEM_OP_NODE_PARAMS params = batch_params(*nodeParams);
            return hook_client_cuGraphExecBatchMemOpNodeSetParams(call, hGraphExec, hNode, &params);
        }
        default: return WL_REFUSE_CALL("cuGraphExecNodeSetParams", k_refused);
    }
}

}  // namespace warpline::client
