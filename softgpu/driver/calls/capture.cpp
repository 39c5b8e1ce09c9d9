// Capturing streams into graphs.
#include "softgpu/driver/graph/capture.h"

#include <algorithm>

#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

CUresult read_nodes(const CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count, std::vector<GraphEdge>& edges) {
    if (count != 0 && nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        NodePtr node;
        CU_TRY(find_node(nodes[i], node));
        edges.push_back({node.get(), data != nullptr ? data[i] : CUgraphEdgeData{}});
    }
    return CUDA_SUCCESS;
}

/// The legacy stream is never captured, but asking about it while it could not be used is an error.
CUresult inspect(CUstream handle, StreamPtr& stream, std::shared_ptr<Capture>& capture) {
    CU_TRY(find_stream(handle, stream));
    if (stream->kind() == QueueKind::legacy) {
        return legacy_stream_blocked(*stream) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
    }
    capture = stream->capture();
    return CUDA_SUCCESS;
}

CUstreamCaptureStatus status_of(const Capture* capture) {
    if (capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
    return capture->invalidated() ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    std::shared_ptr<Capture> capture;
    CU_TRY(inspect(handle, stream, capture));
    *status = status_of(capture.get());
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    if (edges != nullptr && dependencies == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Capture::Shown& shown = capture->shown(*stream);
    const bool loses = !std::all_of(shown.edges.begin(), shown.edges.end(), is_plain);
    if (dependencies != nullptr && edges == nullptr && loses) return CUDA_ERROR_LOSSY_QUERY;
    if (id != nullptr) *id = capture->id();
    if (graph != nullptr) *graph = capture->graph()->handle();
    if (dependencies != nullptr) *dependencies = shown.nodes.data();
    if (edges != nullptr) *edges = shown.edges.data();
    if (count != nullptr) *count = shown.nodes.size();
    return CUDA_SUCCESS;
}

CUresult update_dependencies(CUstream handle, CUgraphNode* nodes, const CUgraphEdgeData* data, size_t count,
                             unsigned int flags) {
    StreamPtr stream;
    CU_TRY(find_stream(handle, stream));
    std::shared_ptr<Capture> capture = stream->capture();
    if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    if (flags != CU_STREAM_ADD_CAPTURE_DEPENDENCIES && flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (capture->invalidated()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    std::vector<GraphEdge> edges;
    CU_TRY(read_nodes(nodes, data, count, edges));
    for (const GraphEdge& edge : edges) {
        if (edge.node->graph != capture->graph().get()) return CUDA_ERROR_INVALID_VALUE;
    }
    if (flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES) {
        capture->join(stream, edges);
    } else {
        capture->set_next_after(*stream, std::move(edges));
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    return Capture::begin(stream, nullptr, {}, mode);
}

CUresult cuStreamBeginCapture(CUstream hStream) {
    return driver::cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData* dependencyData, size_t numDependencies, CUstreamCaptureMode mode) {
    if (hGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    if (stream->kind() == QueueKind::legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    GraphPtr graph;
    CU_TRY(find_graph(hGraph, graph));
    std::vector<GraphEdge> after;
    CU_TRY(read_nodes(dependencies, dependencyData, numDependencies, after));
    for (const GraphEdge& edge : after) {
        if (edge.node->graph != graph.get()) return CUDA_ERROR_INVALID_VALUE;
    }
    return Capture::begin(stream, std::move(graph), std::move(after), mode);
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
    StreamPtr stream;
    CU_TRY(find_stream(hStream, stream));
    // Only whoever named the graph at the beginning can do without it here.
    std::shared_ptr<Capture> capture = stream->capture();
    if (phGraph == nullptr && capture != nullptr && capture->owns_graph()) return CUDA_ERROR_INVALID_VALUE;
    GraphPtr graph;
    CUresult result = Capture::end(*stream, graph);
    if (phGraph != nullptr) *phGraph = graph != nullptr ? graph->handle() : nullptr;
    return result;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
    if (captureStatus == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    std::shared_ptr<Capture> capture;
    CU_TRY(inspect(hStream, stream, capture));
    *captureStatus = status_of(capture.get());
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, thread_state().capture_mode);
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out,
                                   CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                   const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out) {
    return capture_info(hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out,
                                   CUgraph* graph_out, const CUgraphNode** dependencies_out, size_t* numDependencies_out) {
    return capture_info(hStream, captureStatus_out, id_out, graph_out, dependencies_out, nullptr, numDependencies_out);
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out) {
    return capture_info(hStream, captureStatus_out, id_out, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode* dependencies,
                                              const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                              unsigned int flags) {
    return update_dependencies(hStream, dependencies, dependencyData, numDependencies, flags);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies, size_t numDependencies,
                                           unsigned int flags) {
    return update_dependencies(hStream, dependencies, nullptr, numDependencies, flags);
}

}  // namespace warpline::softgpu::driver
