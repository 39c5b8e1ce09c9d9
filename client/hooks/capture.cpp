// The calls that begin and end captures, ask about them, and change what comes after what.
#include <utility>

#include "client/gen/capture_calls.gen.h"
#include "client/gen/graph_calls.gen.h"
#include "client/graph/capture.h"
#include "client/graph/node_tokens.h"

namespace warpline::client {

namespace {

CUresult begin(Call& call, uint64_t stream, CUstreamCaptureMode mode, Stream*& state) {
    state = stream_state(call, stream);
    if (!state) return stream <= 1 ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : unknown_handle<HandleKind::stream>(stream);
    if (is_capturing(call, stream)) return CUDA_ERROR_ILLEGAL_STATE;
    call.state.captures.announce();
    return mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED ? CUDA_ERROR_INVALID_VALUE
                                                                                         : CUDA_SUCCESS;
}

/// @param into  the graph that the program has named; 0: none
void begun(Call& call, Stream& stream, CUstreamCaptureMode mode, uint64_t into) {
    const uint64_t id = call.state.next_id();
    call.state.captures.begin(id, {mode, call.thread.number, context_of_capture(call, stream), into, into == 0, false});
    take_part(call, stream, id, true);
}

CUresult status_of(const Call& call, CUstream hStream, CUstreamCaptureStatus& status) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    const uint64_t stream = stream_token(call, hStream);
    // Asking about the legacy stream would make a capturing stream wait for it.
    if (stream <= 1 && call.state.captures.holds_up_legacy(call.scope())) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!is_capturing(call, stream)) return CUDA_SUCCESS;
    auto capture = call.state.captures.find(stream_state(call, stream)->capture_id.load());
    status = capture && capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_client_cuStreamBeginCapture_v2(Call& call, CUstream hStream, CUstreamCaptureMode mode) {
    const uint64_t stream = stream_token(call, hStream);
    Stream* state = nullptr;
    if (CUresult refused = begin(call, stream, mode, state); refused != CUDA_SUCCESS) return refused;
    CUresult result = gen::issue_cuStreamBeginCapture_v2(call, stream, static_cast<uint32_t>(mode));
    if (result == CUDA_SUCCESS) begun(call, *state, mode, 0);
    return result;
}

CUresult hook_client_cuStreamBeginCapture(Call& call, CUstream hStream) {
    return hook_client_cuStreamBeginCapture_v2(call, hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult hook_client_cuStreamBeginCaptureToGraph(Call& call, CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                                 const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                                 CUstreamCaptureMode mode) {
    const uint64_t stream = stream_token(call, hStream);
    Stream* state = nullptr;
    if (CUresult refused = begin(call, stream, mode, state); refused != CUDA_SUCCESS) return refused;
    if (!call.state.graphs.find(to_token(hGraph))) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult refused = check_nodes(call, dependencies, numDependencies); refused != CUDA_SUCCESS) return refused;
    CUresult result = gen::issue_cuStreamBeginCaptureToGraph(
        call, stream, to_token(hGraph), tokens_of(dependencies, numDependencies), array_bytes(dependencyData, numDependencies),
        numDependencies, static_cast<uint32_t>(mode));
    if (result != CUDA_SUCCESS) return result;
    begun(call, *state, mode, to_token(hGraph));
    return CUDA_SUCCESS;
}

CUresult hook_client_cuStreamEndCapture(Call& call, CUstream hStream, CUgraph* phGraph) {
    const uint64_t stream = stream_token(call, hStream);
    Stream* state = stream_state(call, stream);
    if (!state) return stream <= 1 ? CUDA_ERROR_ILLEGAL_STATE : unknown_handle<HandleKind::stream>(stream);
    if (!is_capturing(call, stream)) return CUDA_ERROR_ILLEGAL_STATE;
    const uint64_t id = state->capture_id.load();
    if (!state->capture_origin.load()) {
        call.state.captures.break_off(id);  // DB-39
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    const auto capture = call.state.captures.find(id);
    if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
    // A capture into a graph of the program's ends in that graph, which has its token: the program need not be told.
    if (!phGraph && capture->owns_graph) return CUDA_ERROR_INVALID_VALUE;
    // It is over all the same (DB-39).
    const bool wrong_thread = capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != call.thread.number;
    uint64_t graph = 0;
    CUresult result = end_on_server(call, stream, *capture, !capture->broken && !wrong_thread, graph);
    if (Graph* made = result == CUDA_SUCCESS ? call.state.graphs.find(graph) : nullptr) {
        if (capture->memory) made->memory.store(true);
        {
            MutexLock lock(made->mutex);
            made->memory_nodes.add(call.state.captures.memory(id));
        }
        for (const UserReferencesPtr& references : call.state.captures.kept(id)) made->references->add_inner(references);
    }
    end_capture(call, id);
    if (capture->broken && (result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED))
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (wrong_thread) result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (phGraph) *phGraph = result == CUDA_SUCCESS ? to_handle<CUgraph>(graph) : nullptr;
    return result;
}

CUresult hook_client_cuStreamIsCapturing(Call& call, CUstream hStream, CUstreamCaptureStatus* captureStatus) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = status_of(call, hStream, status);
    if (result == CUDA_SUCCESS) *captureStatus = status;
    return result;
}

CUresult hook_client_cuThreadExchangeStreamCaptureMode(Call& call, CUstreamCaptureMode* mode) {
    std::swap(*mode, call.thread.capture_mode);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuStreamGetCaptureInfo_v3(Call& call, CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                               cuuint64_t* id_out, CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                               const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (CUresult refused = status_of(call, hStream, status); refused != CUDA_SUCCESS) return refused;
    *captureStatus_out = status;
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    // cuda.h: "If edgeData_out is non-NULL then dependencies_out must be as well." Nobody minds where nothing is captured.
    if (edgeData_out && !dependencies_out) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t token = stream_token(call, hStream);
    Stream* stream = stream_state(call, token);
    auto graph = make_object<HandleKind::graph>(call);
    if (!graph) return CUDA_ERROR_OUT_OF_MEMORY;
    constexpr size_t k_usual_dependencies = 64;
    FreshNodes fresh(call, k_usual_dependencies);
    gen::CuStreamGetCaptureInfoV3Values answer;
    CUresult result = gen::request_cuStreamGetCaptureInfo_v3(call, token, graph.token, fresh.tokens(), answer);
    if (result == CUDA_SUCCESS) fresh.keep(answer.dependencies, answer.graphOut);
    if (result != CUDA_SUCCESS || answer.graphOut != graph.token) call.state.graphs.remove(graph.token);
    if (result != CUDA_SUCCESS) return result;
    if (answer.graphOut != 0) call.state.captures.note_graph(stream->capture_id.load(), answer.graphOut);
    if (dependencies_out && !edgeData_out && any_data(answer.edgeData)) return CUDA_ERROR_LOSSY_QUERY;
    *captureStatus_out = static_cast<CUstreamCaptureStatus>(answer.captureStatusOut);
    if (id_out) *id_out = answer.idOut;
    if (graph_out) *graph_out = to_handle<CUgraph>(answer.graphOut);
    // The arrays are the driver's, valid until the next call on this stream.
    MutexLock lock(stream->mutex);
    stream->capture_dependencies = std::move(answer.dependencies);
    stream->capture_edges.resize(stream->capture_dependencies.size());
    copy_array(stream->capture_edges.data(), stream->capture_edges.size(), answer.edgeData);
    if (dependencies_out) *dependencies_out = reinterpret_cast<const CUgraphNode*>(stream->capture_dependencies.data());
    if (edgeData_out) *edgeData_out = stream->capture_edges.data();
    if (numDependencies_out) *numDependencies_out = stream->capture_dependencies.size();
    return CUDA_SUCCESS;
}

CUresult hook_client_cuStreamUpdateCaptureDependencies_v2(Call& call, CUstream hStream, CUgraphNode* dependencies,
                                                          const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                                          unsigned int flags) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    const uint64_t stream = stream_token(call, hStream);
    if (!is_capturing(call, stream)) return CUDA_ERROR_ILLEGAL_STATE;
    if (flags != CU_STREAM_ADD_CAPTURE_DEPENDENCIES && flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    if (CUresult refused = check_capture(call, hStream, InCapture::node); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_nodes(call, dependencies, numDependencies); refused != CUDA_SUCCESS) return refused;
    return gen::issue_cuStreamUpdateCaptureDependencies_v2(call, stream, tokens_of(dependencies, numDependencies),
                                                           array_bytes(dependencyData, numDependencies), numDependencies,
                                                           flags);
}

CUresult hook_client_cuStreamUpdateCaptureDependencies(Call& call, CUstream hStream, CUgraphNode* dependencies,
                                                       size_t numDependencies, unsigned int flags) {
    return hook_client_cuStreamUpdateCaptureDependencies_v2(call, hStream, dependencies, nullptr, numDependencies, flags);
}

CUresult hook_client_cuStreamGetCaptureInfo_v2(Call& call, CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                               cuuint64_t* id_out, CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                               size_t* numDependencies_out) {
    return hook_client_cuStreamGetCaptureInfo_v3(call, hStream, captureStatus_out, id_out, graph_out, dependencies_out, nullptr,
                                                 numDependencies_out);
}

CUresult hook_client_cuStreamGetCaptureInfo(Call& call, CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                            cuuint64_t* id_out) {
    return hook_client_cuStreamGetCaptureInfo_v3(call, hStream, captureStatus_out, id_out, nullptr, nullptr, nullptr, nullptr);
}

}  // namespace warpline::client
