// Executable graphs: instantiating, launching, updating.
#include "softgpu/driver/graph/graph_exec.h"

#include <cstring>

#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/graph_params.h"
#include "softgpu/driver/process/ask.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

CUresult instantiate(CUgraphExec* out, CUgraph handle, uint64_t flags, GraphExec::Failure& failure) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* current = nullptr;
    CU_TRY(current_context_even_failed(current));
    CU_TRY(check_unsafe_call());
    GraphPtr graph;
    CU_TRY(find_graph(handle, graph));
    if (graph->is_child()) return CUDA_ERROR_NOT_SUPPORTED;
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
    // It names no node of a circle, as cuGraphInstantiateWithParams does (DB-48).
    const bool is_circle = failure.result == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    if (phErrorNode != nullptr) *phErrorNode = is_circle ? nullptr : failure.node;
    return result;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
    if (instantiateParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if ((instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) {
        StreamPtr stream;
        CU_TRY(find_stream(instantiateParams->hUploadStream, stream));
        CU_TRY(check_not_capturing(*stream));  // DB-45
    }
    GraphExec::Failure failure;
    CUresult result = instantiate(phGraphExec, hGraph, instantiateParams->flags, failure);
    // cuda.h of CUDA_GRAPH_INSTANTIATE_ERROR: "hErrNode_out will be set to NULL."
    instantiateParams->hErrNode_out = failure.result != CUDA_GRAPH_INSTANTIATE_ERROR ? failure.node : nullptr;
    instantiateParams->result_out = failure.result;
    return result;
}

CUresult cuGraphUpload(CUgraphExec hGraph, CUstream hStream) {
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    ExecPtr exec;
    CU_TRY(find_exec(hGraph, exec));
    return check_not_capturing(*stream);  // DB-45; there is nothing to do in advance
}

CUresult cuGraphLaunch(CUgraphExec hGraph, CUstream hStream) {
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    ExecPtr exec;
    CU_TRY(find_exec(hGraph, exec));
    CU_TRY(check_not_capturing(*stream));  // DB-44
    return exec->launch(*stream);
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
    CU_TRY(check_unsafe_call());
    // What is running goes on: its work has copies of what it needs.
    return process().graph_execs.remove(hGraphExec) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
    return ask<GraphExec>(find_exec, hGraphExec, flags, [](const GraphExec& exec) { return exec.flags(); });
}

CUresult cuGraphExecGetId(CUgraphExec hGraphExec, unsigned int* graphId) {
    return ask<GraphExec>(find_exec, hGraphExec, graphId, [](const GraphExec& exec) { return exec.id(); });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo* resultInfo) {
    CUgraphExecUpdateResultInfo unwanted{};
    if (resultInfo == nullptr) resultInfo = &unwanted;
    ExecPtr exec;
    CU_TRY(find_exec(hGraphExec, exec));
    GraphPtr graph;
    CU_TRY(find_graph(hGraph, graph));
    if (graph->is_child()) return CUDA_ERROR_INVALID_VALUE;
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

}  // namespace warpline::softgpu::driver
