// The parameters of nodes of executable graphs.
#include <cstring>

#include "softgpu/driver/graph/graph_exec.h"
#include "softgpu/driver/graph/graph_params.h"
#include "softgpu/driver/operations/operation.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// Where a copy's end lies: an executable graph's copies go from where they went to where they went
/// (CUDA Driver API 13.0, cuGraphExecMemcpyNodeSetParams: "if the memory operands' mappings changed").
enum class Whereabouts : uint8_t { host, device, array };

Whereabouts whereabouts_of(const CopySide& side) {
    if (side.array != nullptr) return Whereabouts::array;
    const auto known = process().addresses.find(reinterpret_cast<uint64_t>(side.base));
    return known != nullptr && !known->on_host() ? Whereabouts::device : Whereabouts::host;
}

CUresult check_places(const NodeBody& now, const NodeBody& wanted) {
    const auto& before = std::get<CopyOperation>(now);
    const auto& after = std::get<CopyOperation>(wanted);
    if (!is_one_dimensional(before) || !is_one_dimensional(after)) {  // DB-52
        return is_same_copy(before, after) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    const bool same =
        whereabouts_of(before.from) == whereabouts_of(after.from) && whereabouts_of(before.to) == whereabouts_of(after.to);
    return same ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// "Other fields on operations, such as the count or type of operations, cannot be modified"; nor can the context (CUDA Driver
/// API 13.0, cuGraphExecBatchMemOpNodeSetParams).
bool is_same_batch(const ExecNode& now, const NodeBody& wanted, const Context& context) {
    return &context == now.context.get() &&
           is_alike(std::get<BatchMemoryOperation>(now.body), std::get<BatchMemoryOperation>(wanted));
}

/// Gives the copy of a node other parameters. `make(body, context)` makes the body.
template <typename Make>
CUresult change(CUgraphExec handle, CUgraphNode node, CUgraphNodeType type, Make make) {
    ExecPtr exec;
    CU_TRY(find_exec(handle, exec));
    return exec->change(node, [&](ExecNode& copy) {
        if (type_of(copy.body) != type) return CUDA_ERROR_INVALID_VALUE;
        NodeBody body;
        std::shared_ptr<Context> context = copy.context;
        CU_TRY(make(body, context));
        if (type == CU_GRAPH_NODE_TYPE_MEMCPY) CU_TRY(check_places(copy.body, body));
        if (type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP && !is_same_batch(copy, body, *context)) return CUDA_ERROR_INVALID_VALUE;
        // The context of a node is fixed when the graph is instantiated.
        if (type == CU_GRAPH_NODE_TYPE_KERNEL && context != copy.context) return CUDA_ERROR_INVALID_VALUE;
        CU_TRY(replace_body(copy.body, std::move(body)));
        copy.context = std::move(context);
        return CUDA_SUCCESS;
    });
}

CUresult change_kernel(CUgraphExec exec, CUgraphNode node, CUDA_KERNEL_NODE_PARAMS params) {
    return change(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, [&](NodeBody& body, auto& context) {
        if (params.ctx == nullptr) params.ctx = context->handle();
        return make_body(params, body, context);
    });
}

CUresult change_child(CUgraphExec handle, CUgraphNode node, CUgraph child) {
    ExecPtr exec;
    CU_TRY(find_exec(handle, exec));
    GraphPtr graph;
    CU_TRY(find_graph(child, graph));
    return exec->change(node, [&](ExecNode& copy) {
        if (!std::holds_alternative<ChildGraphOperation>(copy.body)) return CUDA_ERROR_INVALID_VALUE;
        CUgraphExecUpdateResultInfo info{};
        return copy.inner.front()->update(*graph, info);
    });
}

/// Without a context it is refused, though there is a current one (DB-71).
CUresult change_batch(CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
    if (params.ctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(exec, node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                  [&](NodeBody& body, auto& context) { return make_body(params, body, context); });
}

/// Nodes that can be switched off.
bool can_be_disabled(const NodeBody& body) {
    return std::holds_alternative<KernelOperation>(body) || std::holds_alternative<CopyOperation>(body) ||
           std::holds_alternative<MemsetOperation>(body);
}

}  // namespace

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    return nodeParams != nullptr ? change_kernel(hGraphExec, hNode, *nodeParams) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change_kernel(hGraphExec, hNode, widen(*nodeParams));
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D* copyParams,
                                        CUcontext ctx) {
    if (copyParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMCPY, [&](NodeBody& body, auto& context) {
        if (ctx != nullptr) CU_TRY(node_context(ctx, context));
        return make_body(*copyParams, body);
    });
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                        CUcontext ctx) {
    if (memsetParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMSET, [&](NodeBody& body, auto& context) {
        if (ctx != nullptr) CU_TRY(node_context(ctx, context));
        return make_body(*memsetParams, body);
    });
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_HOST,
                  [&](NodeBody& body, auto&) { return make_body(*nodeParams, body); });
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph) {
    return change_child(hGraphExec, hNode, childGraph);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
    return change(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                  [&](NodeBody& body, auto&) { return make_event_record(event, body); });
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
    return change(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                  [&](NodeBody& body, auto&) { return make_event_wait(event, body); });
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
    return nodeParams != nullptr ? change_batch(hGraphExec, hNode, *nodeParams) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH) return change_child(hGraphExec, hNode, nodeParams->graph.graph);
    if (nodeParams->type == CU_GRAPH_NODE_TYPE_KERNEL) {
        CUDA_KERNEL_NODE_PARAMS params{};
        std::memcpy(&params, &nodeParams->kernel, sizeof(params));
        return change_kernel(hGraphExec, hNode, params);
    }
    if (nodeParams->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
        CUDA_BATCH_MEM_OP_NODE_PARAMS params{};
        std::memcpy(&params, &nodeParams->memOp, sizeof(params));
        return change_batch(hGraphExec, hNode, params);
    }
    if (nodeParams->type == CU_GRAPH_NODE_TYPE_CONDITIONAL || nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return change(hGraphExec, hNode, nodeParams->type,
                  [&](NodeBody& body, auto& context) { return make_body(*nodeParams, body, context); });
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
    ExecPtr exec;
    CU_TRY(find_exec(hGraphExec, exec));
    return exec->change(hNode, [&](ExecNode& copy) {
        if (!can_be_disabled(copy.body)) return CUDA_ERROR_INVALID_VALUE;
        copy.enabled = isEnabled != 0;
        return CUDA_SUCCESS;
    });
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int* isEnabled) {
    if (isEnabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ExecPtr exec;
    CU_TRY(find_exec(hGraphExec, exec));
    return exec->change(hNode, [&](ExecNode& copy) {
        if (!can_be_disabled(copy.body)) return CUDA_ERROR_INVALID_VALUE;
        *isEnabled = copy.enabled ? 1 : 0;
        return CUDA_SUCCESS;
    });
}

}  // namespace warpline::softgpu::driver
