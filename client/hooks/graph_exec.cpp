// Executable graphs.
#include <cstring>

#include "client/gen/graph_exec_calls.gen.h"
#include "client/hooks/graph_holds.h"
#include "client/hooks/graph_params.h"
#include "client/hooks/graph_tokens.h"

namespace warpline::client {

namespace {

/// The same for a child graph of it.
void exchange_child(GraphExec& exec, GraphNode& node, const Graph& child) {
    UserReferencesPtr now, original;
    {
        MutexLock lock(exec.mutex);
        now = exec.references;
    }
    {
        MutexLock lock(node.mutex);
        if (!node.inner.empty()) original = node.inner.front();
    }
    UserReferencesPtr changed = now ? now->clone() : std::make_shared<UserReferences>();
    if (original) {
        changed->replace_inner(*original, child.references->clone());
    } else {
        changed->add_inner(child.references->clone());
    }
    exchange_references(exec, std::move(changed));
}

CUresult instantiate(Call& call, CUgraphExec* out, CUgraph graph, uint64_t flags) {
    const Graph* source = call.state.graphs.find(to_token(graph));
    if (!source) return CUDA_ERROR_INVALID_VALUE;
    auto made = make_object<HandleKind::graph_exec>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = gen::request_cuGraphInstantiateWithFlags(call, made.token, to_token(graph), flags);
    if (result == CUDA_SUCCESS) result = learn_copies(call, made.token);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = WL_REFUSE_CALL("cuGraphInstantiate", "this graph, for the reason that the server's log tells");
    if (result != CUDA_SUCCESS) {
        call.state.graph_execs.remove(made.token);
        return result;
    }
    exchange_references(*made.object, source->references->clone());
    *out = to_handle<CUgraphExec>(made.token);
    return CUDA_SUCCESS;
}

CUresult check_pair(const Call& call, CUgraphExec exec, CUgraphNode node) {
    if (!call.state.graph_execs.find(to_token(exec))) return CUDA_ERROR_INVALID_VALUE;
    return check_nodes(call, &node, 1);
}

}  // namespace

CUresult hook_client_cuGraphInstantiateWithFlags(Call& call, CUgraphExec* phGraphExec, CUgraph hGraph,
                                                 unsigned long long flags) {
    return instantiate(call, phGraphExec, hGraph, flags);
}

CUresult hook_client_cuGraphInstantiate_v2(Call& call, CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                                           char* logBuffer, size_t bufferSize) {
    if (phErrorNode) *phErrorNode = nullptr;
    if (logBuffer && bufferSize != 0) *logBuffer = '\0';
    return instantiate(call, phGraphExec, hGraph, 0);
}

CUresult hook_client_cuGraphInstantiateWithParams(Call& call, CUgraphExec* phGraphExec, CUgraph hGraph,
                                                  CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
    const uint64_t flags = instantiateParams->flags;
    instantiateParams->hErrNode_out = nullptr;
    // The upload is a call of its own here.
    CUresult result = instantiate(call, phGraphExec, hGraph, flags & ~uint64_t{CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD});
    instantiateParams->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    if (result != CUDA_SUCCESS || !(flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)) return result;
    CUstream stream = instantiateParams->hUploadStream;
    if (CUresult refused = check_stream(call, stream); refused != CUDA_SUCCESS) return refused;
    return gen::issue_cuGraphUpload(call, to_token(*phGraphExec), stream_token(call, stream));
}

CUresult hook_client_cuGraphExecUpdate_v2(Call& call, CUgraphExec hGraphExec, CUgraph hGraph,
                                          CUgraphExecUpdateResultInfo* resultInfo) {
    if (!call.state.graph_execs.find(to_token(hGraphExec)) || !call.state.graphs.find(to_token(hGraph)))
        return CUDA_ERROR_INVALID_VALUE;
    gen::CuGraphExecUpdateV2Values answer;
    answer.updateResult = CU_GRAPH_EXEC_UPDATE_ERROR;
    CUresult result = gen::request_cuGraphExecUpdate_v2(call, to_token(hGraphExec), to_token(hGraph), answer);
    *resultInfo = {};
    resultInfo->result = static_cast<CUgraphExecUpdateResult>(answer.updateResult);
    resultInfo->errorNode = to_handle<CUgraphNode>(answer.errorNode);
    resultInfo->errorFromNode = to_handle<CUgraphNode>(answer.errorFromNode);
    if (result != CUDA_SUCCESS) return result;
    if (GraphExec* exec = call.state.graph_execs.find(to_token(hGraphExec))) {
        {
            MutexLock lock(exec->mutex);
            exec->ends.clear();
        }
        if (const Graph* graph = call.state.graphs.find(to_token(hGraph)))
            exchange_references(*exec, graph->references->clone());
    }
    return learn_copies(call, to_token(hGraphExec));
}

CUresult hook_client_cuGraphExecDestroy(Call& call, CUgraphExec hGraphExec) {
    GraphExec* exec = call.state.graph_execs.find(to_token(hGraphExec));
    if (!exec) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = gen::issue_cuGraphExecDestroy(call, to_token(hGraphExec));
    if (result != CUDA_SUCCESS) return result;
    exchange_references(*exec, nullptr);
    call.state.graph_execs.remove(to_token(hGraphExec));
    return result;
}

CUresult hook_client_cuGraphExecUpdate(Call& call, CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                                       CUgraphExecUpdateResult* updateResult_out) {
    CUgraphExecUpdateResultInfo info{};
    CUresult result = hook_client_cuGraphExecUpdate_v2(call, hGraphExec, hGraph, &info);
    if (hErrorNode_out) *hErrorNode_out = info.errorNode;
    *updateResult_out = info.result;
    return result;
}

CUresult hook_client_cuGraphExecKernelNodeSetParams_v2(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                       const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    KernelNode kernel;
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = kernel.read(call, *nodeParams); refused != CUDA_SUCCESS) return refused;
    const LaunchShape& s = kernel.shape;
    return gen::issue_cuGraphExecKernelNodeSetParams_v2(call, to_token(hGraphExec), to_token(hNode), kernel.function, s.grid_x,
                                                        s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z, s.shared_bytes,
                                                        kernel.params.params(), kernel.params.sizes());
}

CUresult hook_client_cuGraphExecKernelNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    CUDA_KERNEL_NODE_PARAMS params{};
    std::memcpy(&params, nodeParams, sizeof *nodeParams);  // the newer form only adds fields at the end
    return hook_client_cuGraphExecKernelNodeSetParams_v2(call, hGraphExec, hNode, &params);
}

CUresult hook_client_cuGraphExecMemcpyNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
    CopyNode copy;
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = copy.read(call, *copyParams); refused != CUDA_SUCCESS) return refused;
    const CUresult result = copy.host.send(call, [&](uint64_t source, uint64_t address, uint64_t bytes) {
        return gen::issue_cuGraphExecMemcpyNodeSetParams(call, to_token(hGraphExec), to_token(hNode), copy.source_array,
                                                         copy.destination_array, struct_bytes(&copy.copy),
                                                         ctx ? to_token(ctx) : call.context, source, address, bytes);
    });
    if (result != CUDA_SUCCESS || !copy.host.exists()) return result;
    hold_in_exec(call, to_token(hGraphExec), to_token(hNode), copy.host.held());
    return learn_copies(call, to_token(hGraphExec));
}

CUresult hook_client_cuGraphExecHostNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                  const CUDA_HOST_NODE_PARAMS* nodeParams) {
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    if (!nodeParams->fn) return CUDA_ERROR_INVALID_VALUE;
    uint64_t id = register_host_node(call, nodeParams->fn, nodeParams->userData);
    const CUresult result = gen::issue_cuGraphExecHostNodeSetParams(call, to_token(hGraphExec), to_token(hNode), id);
    if (result == CUDA_SUCCESS)
        hold_in_exec(call, to_token(hGraphExec), to_token(hNode), make_end(call, EndKind::function, id));
    return result;
}

CUresult hook_client_cuGraphExecChildGraphNodeSetParams(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                        CUgraph childGraph) {
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    const Graph* child = call.state.graphs.find(to_token(childGraph));
    if (!child) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t exec = to_token(hGraphExec);
    const CUresult result = gen::issue_cuGraphExecChildGraphNodeSetParams(call, exec, to_token(hNode), to_token(childGraph));
    if (result != CUDA_SUCCESS) return result;
    exchange_child(*call.state.graph_execs.find(exec), *call.state.graph_nodes.find(to_token(hNode)), *child);
    return learn_copies(call, exec);
}

CUresult hook_client_cuGraphNodeSetEnabled(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
    if (CUresult refused = check_pair(call, hGraphExec, hNode); refused != CUDA_SUCCESS) return refused;
    const uint64_t exec = to_token(hGraphExec);
    const CUresult result = gen::issue_cuGraphNodeSetEnabled(call, exec, to_token(hNode), isEnabled);
    if (result != CUDA_SUCCESS || !call.state.graph_execs.find(exec)->concerned.load()) return result;
    return learn_copies(call, exec);
}

CUresult hook_client_cuGraphExecEventRecordNodeSetEvent(Call& call, CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
    if (!call.state.graph_execs.find(to_token(hGraphExec))) return CUDA_ERROR_INVALID_VALUE;
    if (!call.state.graph_nodes.find(to_token(hNode))) return CUDA_ERROR_INVALID_VALUE;
    if (!call.state.events.find(to_token(event))) return CUDA_ERROR_INVALID_HANDLE;
    call.state.device_records_events.store(true);
    return gen::issue_cuGraphExecEventRecordNodeSetEvent(call, to_token(hGraphExec), to_token(hNode), to_token(event));
}

}  // namespace warpline::client
