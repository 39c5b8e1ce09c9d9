#include "softgpu/driver/graph/graph_exec.h"

#include <cstring>

#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/graph_params.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

using ExecPtr = std::shared_ptr<GraphExec>;

CUresult find_exec(CUgraphExec handle, ExecPtr& exec) {
    exec = process().graph_execs.find(handle);
    return exec != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult instantiate(CUgraphExec* out, CUgraph handle, uint64_t flags, GraphExec::Failure& failure) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GraphPtr graph;
    CU_TRY(find_graph(handle, graph));
    // Its memory has one address.
    if (graph->has_memory() && process().graph_execs.find(as_handle<CUgraphExec>(graph->executable)) != nullptr) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    ExecPtr exec;
    CU_TRY(GraphExec::create(*graph, flags, exec, failure));
    graph->executable = process().graph_execs.add(std::move(exec));
    *out = as_handle<CUgraphExec>(graph->executable);
    return CUDA_SUCCESS;
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

/// Nodes that can be switched off.
bool can_be_disabled(const NodeBody& body) {
    return std::holds_alternative<KernelOperation>(body) || std::holds_alternative<CopyOperation>(body) ||
           std::holds_alternative<MemsetOperation>(body);
}

}  // namespace

CUresult cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph, unsigned long long flags) {
    GraphExec::Failure failure;
    return instantiate(phGraphExec, hGraph, flags, failure);
}

CUresult cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
                               size_t bufferSize) {
    GraphExec::Failure failure;
    CUresult result = instantiate(phGraphExec, hGraph, 0, failure);
    if (logBuffer != nullptr && bufferSize != 0) logBuffer[0] = 0;
    if (phErrorNode != nullptr) *phErrorNode = failure.node;
    return result;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
    if (instantiateParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GraphExec::Failure failure;
    CUresult result = instantiate(phGraphExec, hGraph, instantiateParams->flags, failure);
    instantiateParams->hErrNode_out = failure.node;
    instantiateParams->result_out = failure.result;
    return result;
}

CUresult cuGraphUpload(CUgraphExec hGraph, CUstream hStream) {
    ExecPtr exec;
    CU_TRY(find_exec(hGraph, exec));
    StreamPtr stream;
    return find_stream(hStream, stream);
}

CUresult cuGraphLaunch(CUgraphExec hGraph, CUstream hStream) {
    ExecPtr exec;
    CU_TRY(find_exec(hGraph, exec));
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    std::shared_ptr<Capture> capture;
    CU_TRY(capture_of(*stream, capture));
    if (capture == nullptr) return exec->launch(*stream);
    // A launch in a capture becomes a child graph.
    GraphPtr child;
    CUresult result = exec->as_graph(child);
    if (result == CUDA_SUCCESS) result = capture->add(*stream, ChildGraphOperation{child});
    if (result != CUDA_SUCCESS) child->forget();
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
    // What is running goes on: its work has copies of what it needs.
    return process().graph_execs.remove(hGraphExec) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ExecPtr exec;
    CU_TRY(find_exec(hGraphExec, exec));
    *flags = exec->flags();
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo* resultInfo) {
    if (resultInfo == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ExecPtr exec;
    CU_TRY(find_exec(hGraphExec, exec));
    GraphPtr graph;
    CU_TRY(find_graph(hGraph, graph));
    return exec->update(*graph, *resultInfo);
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                           CUgraphExecUpdateResult* updateResult_out) {
    CUgraphExecUpdateResultInfo info{};
    CUresult result = driver::cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
    if (hErrorNode_out != nullptr) *hErrorNode_out = info.errorNode;
    if (updateResult_out != nullptr) *updateResult_out = info.result;
    return result;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    return nodeParams != nullptr ? change_kernel(hGraphExec, hNode, *nodeParams) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS wide{};
    std::memcpy(&wide, nodeParams, sizeof(*nodeParams));
    return change_kernel(hGraphExec, hNode, wide);
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
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                  [&](NodeBody& body, auto& context) { return make_body(*nodeParams, body, context); });
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH) return change_child(hGraphExec, hNode, nodeParams->graph.graph);
    if (nodeParams->type == CU_GRAPH_NODE_TYPE_KERNEL) {
        CUDA_KERNEL_NODE_PARAMS params{};
        std::memcpy(&params, &nodeParams->kernel, sizeof(params));
        return change_kernel(hGraphExec, hNode, params);
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
