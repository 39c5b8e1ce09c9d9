// Stream capture. Whether a stream captures is asked all the time (cuBLAS: six times in each product), so it is known here.
#include "client/hooks/capture.h"

#include <algorithm>

#include "client/gen/capture_calls.gen.h"
#include "client/gen/graph_calls.gen.h"
#include "client/hooks/graph_tokens.h"

namespace warpline::client {

namespace {

/// Ends a capture on all of its streams.
void end_capture(Call& call, uint64_t id) {
    State& state = call.state;
    state.captures.end(id);
    auto clear = [id](Stream& stream) {
        if (stream.capture_id.load() == id) stream.capture_id.store(0);
    };
    state.streams.for_each([&](uint64_t, Stream& stream) { clear(stream); });
    clear(call.thread.own_stream);
}

CUresult begin(Call& call, uint64_t stream, CUstreamCaptureMode mode, Stream*& state) {
    state = stream_state(call, stream);
    if (!state) return stream <= 1 ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_ERROR_INVALID_HANDLE;
    if (is_capturing(call, stream)) return CUDA_ERROR_ILLEGAL_STATE;
    return mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED ? CUDA_ERROR_INVALID_VALUE
                                                                                         : CUDA_SUCCESS;
}

void begun(Call& call, Stream& stream, CUstreamCaptureMode mode) {
    const uint64_t id = call.state.next_id();
    call.state.captures.begin(id, {mode, call.thread.number, (stream.flags & CU_STREAM_NON_BLOCKING) == 0, false});
    stream.capture_origin.store(true);
    stream.capture_id.store(id);
}

CUresult status_of(const Call& call, CUstream hStream, CUstreamCaptureStatus& status) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    const uint64_t stream = stream_token(call, hStream);
    // Asking about the legacy stream would make a capturing stream wait for it.
    if (stream <= 1 && call.state.captures.forbids_legacy_stream()) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!is_capturing(call, stream)) return CUDA_SUCCESS;
    auto capture = call.state.captures.find(stream_state(call, stream)->capture_id.load());
    status = capture && capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

}  // namespace

Stream* stream_state(const Call& call, uint64_t stream) {
    if (stream == 2) return &call.thread.own_stream;
    return call.state.streams.find(stream);
}

bool is_capturing(const Call& call, uint64_t stream) {
    if (!call.state.captures.any()) return false;
    const Stream* state = stream_state(call, stream);
    if (!state) return false;
    uint64_t id = state->capture_id.load(std::memory_order_acquire);
    return id != 0 && call.state.captures.active(id);
}

CUresult check_unsafe_call(const Call& call) {
    if (!call.state.captures.any()) return CUDA_SUCCESS;
    return call.state.captures.forbid_unsafe_call(call.thread.number, call.thread.capture_mode)
               ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
               : CUDA_SUCCESS;
}

void forget_capture(Call& call, Stream& stream) {
    const uint64_t id = stream.capture_id.load();
    if (id != 0 && stream.capture_origin.load()) end_capture(call, id);
}

void note_recorded(const Call& call, uint64_t stream, Event& event) {
    const bool capturing = is_capturing(call, stream);
    event.capture_id.store(capturing ? stream_state(call, stream)->capture_id.load() : 0);
}

void join_capture(const Call& call, uint64_t stream, const Event& event) {
    uint64_t id = event.capture_id.load();
    if (id == 0 || !call.state.captures.active(id)) return;
    Stream* state = stream_state(call, stream);
    if (!state || is_capturing(call, stream)) return;
    state->capture_origin.store(false);
    state->capture_id.store(id);
}

CUresult hook_client_cuStreamBeginCapture_v2(Call& call, CUstream hStream, CUstreamCaptureMode mode) {
    const uint64_t stream = stream_token(call, hStream);
    Stream* state = nullptr;
    if (CUresult refused = begin(call, stream, mode, state); refused != CUDA_SUCCESS) return refused;
    CUresult result = gen::issue_cuStreamBeginCapture_v2(call, stream, static_cast<uint32_t>(mode));
    if (result == CUDA_SUCCESS) begun(call, *state, mode);
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
    if (numDependencies != 0 && !dependencies) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = gen::issue_cuStreamBeginCaptureToGraph(
        call, stream, to_token(hGraph), tokens_of(dependencies, numDependencies), array_bytes(dependencyData, numDependencies),
        numDependencies, static_cast<uint32_t>(mode));
    if (result != CUDA_SUCCESS) return result;
    begun(call, *state, mode);
    state->capture_into.store(to_token(hGraph));
    return CUDA_SUCCESS;
}

CUresult hook_client_cuStreamEndCapture(Call& call, CUstream hStream, CUgraph* phGraph) {
    const uint64_t stream = stream_token(call, hStream);
    Stream* state = stream_state(call, stream);
    if (!state) return stream <= 1 ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_INVALID_HANDLE;
    if (!is_capturing(call, stream)) return CUDA_ERROR_ILLEGAL_STATE;
    if (!state->capture_origin.load()) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    const uint64_t id = state->capture_id.load();
    const auto capture = call.state.captures.find(id);
    if (capture && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != call.thread.number) {
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    // A capture into a graph of the program's ends in that graph, which has its token: the program need not be told.
    if (!phGraph && state->capture_into.load() == 0) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t into = state->capture_into.exchange(0);
    auto made = make_object<HandleKind::graph>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = gen::request_cuStreamEndCapture(call, stream, made.token);
    end_capture(call, id);
    if (result == CUDA_SUCCESS && capture && capture->broken) {
        if (into == 0) gen::issue_cuGraphDestroy(call, made.token);
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (result != CUDA_SUCCESS) {
        call.state.graphs.remove(made.token);
        if (phGraph) *phGraph = nullptr;
        return result;
    }
    if (into != 0) call.state.graphs.remove(made.token);
    if (phGraph) *phGraph = to_handle<CUgraph>(into != 0 ? into : made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuStreamIsCapturing(Call& call, CUstream hStream, CUstreamCaptureStatus* captureStatus) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = status_of(call, hStream, status);
    if (result == CUDA_SUCCESS) *captureStatus = status;
    return result;
}

CUresult hook_client_cuThreadExchangeStreamCaptureMode(Call& call, CUstreamCaptureMode* mode) {
    if (*mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
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
    const uint64_t token = stream_token(call, hStream);
    Stream* stream = stream_state(call, token);
    auto graph = make_object<HandleKind::graph>(call);
    if (!graph) return CUDA_ERROR_OUT_OF_MEMORY;
    constexpr size_t k_usual_dependencies = 64;
    FreshNodes fresh(call, k_usual_dependencies);
    gen::CuStreamGetCaptureInfoV3Values answer;
    CUresult result = gen::request_cuStreamGetCaptureInfo_v3(call, token, graph.token, fresh.tokens(), answer);
    if (result == CUDA_SUCCESS) fresh.keep(answer.dependencies);
    if (result != CUDA_SUCCESS || answer.graphOut != graph.token) call.state.graphs.remove(graph.token);
    if (result != CUDA_SUCCESS) return result;
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
