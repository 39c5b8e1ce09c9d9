// Stream capture. Whether a stream captures is asked all the time (cuBLAS: six times in each product), so it is known here.
#include "client/graph/capture.h"

#include "client/gen/capture_calls.gen.h"
#include "client/gen/graph_calls.gen.h"
#include "client/graph/node_tokens.h"

namespace warpline::client {

void end_capture(Call& call, uint64_t id) {
    State& state = call.state;
    state.captures.end(id);
    auto clear = [id](Stream& stream) {
        if (stream.capture_id.load() == id) stream.capture_id.store(0);
    };
    state.streams.for_each([&](uint64_t, Stream& stream) { clear(stream); });
    clear(call.thread.own_stream);
}

uint64_t context_of_capture(const Call& call, const Stream& stream) {
    return stream.context != 0 ? stream.context : call.context;
}

void take_part(const Call& call, Stream& stream, uint64_t id, bool origin) {
    if ((stream.flags & CU_STREAM_NON_BLOCKING) == 0)
        call.state.captures.add_blocking(id, &stream, stream.context != 0 ? stream.scope : call.scope());
    stream.capture_origin.store(origin);
    stream.capture_id.store(id);
}

CUresult end_on_server(Call& call, uint64_t stream, const Captures::Capture& capture, bool wanted, uint64_t& graph) {
    graph = capture.graph;
    if (graph == 0) {
        auto made = make_object<HandleKind::graph>(call);
        if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
        graph = made.token;
    }
    CUresult result = gen::request_cuStreamEndCapture(call, stream, graph, capture.owns_graph);
    if (result == CUDA_SUCCESS && !wanted && capture.owns_graph) gen::issue_cuGraphDestroy(call, graph);
    if ((result != CUDA_SUCCESS || !wanted) && capture.owns_graph) end_graph(call.state, graph);
    return result;
}

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

uint64_t captured_graph(const Call& call, uint64_t stream) {
    if (!call.state.captures.any()) return 0;
    const Stream* state = stream_state(call, stream);
    const auto capture = state ? call.state.captures.find(state->capture_id.load(std::memory_order_acquire)) : std::nullopt;
    return capture ? capture->graph : 0;
}

CUresult check_unsafe_call(const Call& call) {
    if (!call.state.captures.any()) return CUDA_SUCCESS;
    return call.state.captures.forbid_unsafe_call(call.thread.number, call.thread.capture_mode)
               ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
               : CUDA_SUCCESS;
}

CUresult check_capture_slow(const Call& call, CUstream handle, InCapture in_capture) {
    Captures& captures = call.state.captures;
    const uint64_t stream = stream_token(call, handle);
    if (stream <= 1) return captures.break_for_legacy(call.scope()) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
    const Stream* state = stream_state(call, stream);
    const uint64_t id = state ? state->capture_id.load() : 0;
    const auto capture = captures.find(id);
    if (!capture) return CUDA_SUCCESS;
    if (capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (in_capture == InCapture::node) return CUDA_SUCCESS;
    captures.break_off(id);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

void forget_capture(Call& call, uint64_t token, Stream& stream) {
    const uint64_t id = stream.capture_id.load();
    const auto capture = call.state.captures.find(id);
    if (!capture) return;
    call.state.captures.leave(id, &stream);
    if (!stream.capture_origin.load()) return;
    // Drivers need not end it by themselves.
    uint64_t graph = 0;
    end_on_server(call, token, *capture, false, graph);
    end_capture(call, id);
}

void forget_captures_of_context(Call& call, uint64_t context) {
    for (uint64_t id : call.state.captures.of_context(context)) end_capture(call, id);
}

void note_record(const Call& call, uint64_t stream, Event& event) {
    const bool capturing = is_capturing(call, stream);
    event.capture_id.store(capturing ? stream_state(call, stream)->capture_id.load() : 0);
    event.stream.store(stream, std::memory_order_relaxed);
    event.scope.store(call.scope(), std::memory_order_relaxed);
    event.given.store(call.number, std::memory_order_relaxed);
    event.identity.store(call.identity_of(stream), std::memory_order_relaxed);
    event.record.store(call.state.next_record(), std::memory_order_release);
}

CUresult check_not_captured(const Call& call, const Event& event) {
    const uint64_t id = event.capture_id.load();
    if (id == 0) return CUDA_SUCCESS;
    return call.state.captures.active(id) ? CUDA_ERROR_CAPTURED_EVENT : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_wait_for_event(const Call& call, const Event& event) {
    if (const uint64_t id = event.capture_id.load(); id != 0) call.state.captures.break_off(id);
    if (CUresult refused = check_not_captured(call, event); refused != CUDA_SUCCESS) return refused;
    return check_unsafe_call(call);
}

CUresult check_green_not_captured(const Call& call, uint64_t green) {
    bool concerned = false;
    call.state.streams.for_each([&](uint64_t, const Stream& stream) {
        if (stream.green != green) return;
        const uint64_t id = stream.capture_id.load();
        if (!call.state.captures.active(id)) return;
        call.state.captures.break_off(id);
        concerned = true;
    });
    return concerned ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult join_capture(const Call& call, uint64_t stream, const Event& event, bool external) {
    Captures& captures = call.state.captures;
    const uint64_t id = event.capture_id.load();
    Stream* state = stream_state(call, stream);
    const uint64_t own = is_capturing(call, stream) ? state->capture_id.load() : 0;
    // cuda.h of CU_EVENT_WAIT_EXTERNAL: "This flag is invalid when used outside of capture."
    if (external && own == 0) return CUDA_ERROR_ILLEGAL_STATE;
    const auto capture = captures.find(id);
    if (id != 0 && !capture) {
        captures.break_off(own);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (external) return CUDA_SUCCESS;
    if (id == 0) {
        if (own == 0) return CUDA_SUCCESS;
        captures.break_off(own);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (own != 0 && own != id) {
        captures.break_off(own);
        captures.break_off(id);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream <= 1) {
        captures.break_off(id);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (state && own == 0) take_part(call, *state, id, false);
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
