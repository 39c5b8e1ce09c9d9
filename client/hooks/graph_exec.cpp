// Executable graphs: made, changed as a whole, launched.
#include <optional>

#include "client/call/completion.h"
#include "client/call/load_turn.h"
#include "client/copy/graph_copies.h"
#include "client/gen/graph_exec_calls.gen.h"
#include "client/graph/capture.h"
#include "client/graph/holds.h"
#include "client/session/connection_to_server.h"

namespace warpline::client {

namespace {

/// Why it has failed.
struct Failure {
    CUgraphInstantiateResult reason = CUDA_GRAPH_INSTANTIATE_ERROR;
    CUgraphNode node = nullptr;
};

CUresult instantiate(Call& call, CUgraphExec* out, CUgraph graph, uint64_t flags, Failure& failure) {
    Graph* source = call.state.graphs.find(to_token(graph));
    if (!source) return CUDA_ERROR_INVALID_VALUE;
    if (source->is_child.load()) return CUDA_ERROR_NOT_SUPPORTED;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
        failure.reason = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
        return WL_REFUSE_CALL("cuGraphInstantiate", "a graph that kernels launch: the program's handle is not the driver's");
    }
    auto made = make_object<HandleKind::graph_exec>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    gen::CuGraphInstantiateWithFlagsValues answer;
    const LoadTurn loading(call);
    CUresult result = gen::request_cuGraphInstantiateWithFlags(call, made.token, to_token(graph), flags, answer);
    if (result != CUDA_SUCCESS && answer.reason != 0) {
        failure.reason = static_cast<CUgraphInstantiateResult>(answer.reason);
        if (call.state.graph_nodes.find(answer.errorNode)) failure.node = to_handle<CUgraphNode>(answer.errorNode);
    }
    made.object->made = call.number;
    if (result == CUDA_SUCCESS) result = learn_copies(call, made.token);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = WL_REFUSE_CALL("cuGraphInstantiate", "this graph, for the reason that the server's log tells");
    if (result != CUDA_SUCCESS) {
        call.state.graph_execs.remove(made.token);
        return result;
    }
    made.object->source = to_token(graph);
    {
        MutexLock lock(source->mutex);
        made.object->memory = source->memory_nodes;
    }
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) made.object->freed_anew.swap(made.object->memory.allocated);
    exchange_references(*made.object, source->references->clone());
    *out = to_handle<CUgraphExec>(made.token);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_client_cuGraphInstantiateWithFlags(Call& call, CUgraphExec* phGraphExec, CUgraph hGraph,
                                                 unsigned long long flags) {
    Failure failure;
    return instantiate(call, phGraphExec, hGraph, flags, failure);
}

CUresult hook_client_cuGraphInstantiate_v2(Call& call, CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                                           char* logBuffer, size_t bufferSize) {
    if (logBuffer && bufferSize != 0) *logBuffer = '\0';
    Failure failure;
    const CUresult result = instantiate(call, phGraphExec, hGraph, 0, failure);
    // It names no node of a circle, as cuGraphInstantiateWithParams does (DB-48).
    if (phErrorNode) *phErrorNode = failure.reason == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE ? nullptr : failure.node;
    return result;
}

CUresult hook_client_cuGraphInstantiateWithParams(Call& call, CUgraphExec* phGraphExec, CUgraph hGraph,
                                                  CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
    const uint64_t flags = instantiateParams->flags;
    const CUstream stream = instantiateParams->hUploadStream;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) {
        if (CUresult refused = check_stream(call, stream); refused != CUDA_SUCCESS) return refused;
        if (CUresult refused = check_capture(call, stream, InCapture::refused); refused != CUDA_SUCCESS) return refused;
    }
    Failure failure;
    // The upload is a call of its own here.
    CUresult result = instantiate(call, phGraphExec, hGraph, flags & ~uint64_t{CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD}, failure);
    instantiateParams->hErrNode_out = failure.node;
    instantiateParams->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : failure.reason;
    if (result != CUDA_SUCCESS || !(flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)) return result;
    return gen::issue_cuGraphUpload(call, to_token(*phGraphExec), stream_token(call, stream));
}

CUresult hook_client_cuGraphLaunch(Call& call, CUgraphExec hGraph, CUstream hStream) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    GraphExec* exec = call.state.graph_execs.find(to_token(hGraph));
    if (!exec) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t stream = stream_token(call, hStream);
    call.stream = stream;
    std::vector<uint64_t> sources;
    GraphLaunch launch;
    launch.context = context_of_work(call, stream);
    launch.stream = stream;
    {
        MutexLock lock(exec->mutex);
        launch.references = exec->references;
    }
    const bool tell_end = launch.references != nullptr;
    if (exec->concerned.load(std::memory_order_acquire)) {
        MutexLock lock(exec->mutex);
        sources = exec->sources;
        launch.targets = exec->targets;
        launch.host_functions = exec->host_functions;
    }
    std::optional<LoadTurns::Function> giving;
    if (launch.host_functions) giving.emplace(call.session.load_turns(), launch.context);
    const std::optional<Bytes> bytes = gather_sources(call, sources, stream);
    if (!launch.targets.empty() || launch.host_functions || tell_end) call.graph_launch = &launch;
    // Where it may be refused, for memory of the launch before, it waits.
    const bool is_certain = exec->memory.leaves_nothing() || call.state.graph_memory.launch(exec->memory);
    const auto send = is_certain ? gen::issue_cuGraphLaunch : gen::request_cuGraphLaunch;
    const CUresult result = bytes ? send(call, to_token(hGraph), stream, sources, tell_end, *bytes)
                                  : send(call, to_token(hGraph), stream, {}, tell_end, {});
    call.graph_launch = nullptr;
    if (result == CUDA_SUCCESS && call.state.gates.any_in_graphs()) note_gate(call, stream);
    if (result == CUDA_SUCCESS && !exec->freed_anew.empty()) call.state.graph_memory.launched_anew(exec->freed_anew);
    if (result == CUDA_SUCCESS && !exec->memory.freed.empty()) call.state.graph_memory.free(exec->memory.freed);
    // A function may be the only sign of the launch's end.
    if (launch.host_functions && result == CUDA_SUCCESS) call.session.calls().send_now();
    return result;
}

CUresult hook_client_cuGraphExecUpdate_v2(Call& call, CUgraphExec hGraphExec, CUgraph hGraph,
                                          CUgraphExecUpdateResultInfo* resultInfo) {
    const Graph* graph = call.state.graphs.find(to_token(hGraph));
    if (!call.state.graph_execs.find(to_token(hGraphExec)) || !graph || graph->is_child.load()) return CUDA_ERROR_INVALID_VALUE;
    gen::CuGraphExecUpdateV2Values answer;
    answer.updateResult = CU_GRAPH_EXEC_UPDATE_ERROR;
    CUresult result = gen::request_cuGraphExecUpdate_v2(call, to_token(hGraphExec), to_token(hGraph), answer);
    CUgraphExecUpdateResultInfo unwanted{};
    if (!resultInfo) resultInfo = &unwanted;
    resultInfo->result = static_cast<CUgraphExecUpdateResult>(answer.updateResult);
    resultInfo->errorNode = to_handle<CUgraphNode>(answer.errorNode);
    resultInfo->errorFromNode = to_handle<CUgraphNode>(answer.errorFromNode);
    if (result != CUDA_SUCCESS) return result;
    if (GraphExec* exec = call.state.graph_execs.find(to_token(hGraphExec))) {
        {
            MutexLock lock(exec->mutex);
            exec->ends.clear();
        }
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
    std::vector<GraphAddress> addresses;  // given up without the lock
    {
        MutexLock lock(exec->mutex);
        addresses.swap(exec->memory.addresses);
    }
    call.state.graph_execs.remove(to_token(hGraphExec));
    return result;
}

CUresult hook_client_cuGraphExecUpdate(Call& call, CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                                       CUgraphExecUpdateResult* updateResult_out) {
    CUgraphExecUpdateResultInfo info{};
    CUresult result = hook_client_cuGraphExecUpdate_v2(call, hGraphExec, hGraph, &info);
    if (hErrorNode_out) *hErrorNode_out = info.errorNode;
    if (updateResult_out) *updateResult_out = info.result;
    return result;
}

}  // namespace warpline::client
