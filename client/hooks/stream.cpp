// Streams. Creating and destroying them does not wait; what they are is known here.
#include <algorithm>

#include "client/call/common.h"
#include "client/call/completion.h"
#include "client/call/managed.h"
#include "client/call/pages_along.h"
#include "client/code/launch_params.h"
#include "client/gen/green_calls.gen.h"
#include "client/gen/stream_calls.gen.h"
#include "client/graph/capture.h"
#include "client/graph/holds.h"
#include "client/session/connection_to_server.h"

namespace warpline::client {

namespace {

/// Out of range is not an error: CUDA takes the nearest.
int nearest_priority(const Call& call, int priority) {
    const Device* device = find_device(call.device());
    return std::clamp(priority, device->greatest_priority, device->least_priority);
}

CUresult create_stream(Call& call, CUstream* out, unsigned flags, int priority) {
    if (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) return CUDA_ERROR_INVALID_VALUE;
    auto made = make_object<HandleKind::stream>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made.object->id = call.state.next_id();
    made.object->flags = flags;
    made.object->scope = call.scope();
    made.object->green = current_green(call);
    if (flags & CU_STREAM_NON_BLOCKING) call.state.works_beside_default.store(true);
    made.object->priority.store(nearest_priority(call, priority));
    CUresult result = priority == 0 ? gen::issue_cuStreamCreate(call, made.token, flags)
                                    : gen::issue_cuStreamCreateWithPriority(call, made.token, flags, priority);
    if (result != CUDA_SUCCESS) {
        call.state.streams.remove(made.token);
        return result;
    }
    *out = to_handle<CUstream>(made.token);
    return CUDA_SUCCESS;
}

/// The context of a stream; the special ones belong to the current one.
CUresult context_of(const Call& call, CUstream stream, uint64_t& context) {
    if (is_special_stream(stream)) {
        context = call.context;
        return check_context(call);
    }
    if (CUresult refused = check_stream(call, stream); refused != CUDA_SUCCESS) return refused;
    context = call.state.streams.find(to_token(stream))->context;
    return CUDA_SUCCESS;
}

/// The green context of a stream; null: it has all multiprocessors.
CUgreenCtx green_of(const Call& call, CUstream stream) {
    const Stream* found = is_special_stream(stream) ? nullptr : call.state.streams.find(to_token(stream));
    const GreenContext* green = call.state.green_contexts.find(found ? found->green : current_green(call));
    return to_handle<CUgreenCtx>(green ? green->handle : 0);
}

}  // namespace

CUresult hook_client_cuStreamCreate(Call& call, CUstream* phStream, unsigned int Flags) {
    return create_stream(call, phStream, Flags, 0);
}

CUresult hook_client_cuStreamCreateWithPriority(Call& call, CUstream* phStream, unsigned int flags, int priority) {
    return create_stream(call, phStream, flags, priority);
}

CUresult hook_client_cuStreamDestroy_v2(Call& call, CUstream hStream) {
    Stream* stream = call.state.streams.find(to_token(hStream));
    if (!stream) return unknown_handle<HandleKind::stream>(to_token(hStream));
    if (stream->detached.load(std::memory_order_relaxed)) {  // the server's went with its green context
        call.state.streams.remove(to_token(hStream));
        return CUDA_SUCCESS;
    }
    call.context = stream->context;
    forget_capture(call, to_token(hStream), *stream);
    CUresult result = gen::issue_cuStreamDestroy_v2(call, to_token(hStream));
    call.state.streams.remove(to_token(hStream));
    return result;
}

CUresult hook_client_cuStreamSynchronize(Call& call, CUstream hStream) {
    uint64_t stream = 0;
    if (CUresult refused = enter_stream(call, hStream, stream); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_unsafe_call(call); refused != CUDA_SUCCESS) return refused;
    return with_pages_along(call, [&] { return synchronize_stream(call, stream); });
}

CUresult hook_client_cuStreamQuery(Call& call, CUstream hStream) {
    uint64_t stream = 0;
    if (CUresult refused = enter_stream(call, hStream, stream); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_unsafe_call(call); refused != CUDA_SUCCESS) return refused;
    return settle_pages(call, query_stream(call, stream));
}

CUresult hook_client_cuStreamWaitEvent(Call& call, CUstream hStream, CUevent hEvent, unsigned int Flags) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    const Event* event = call.state.events.find(to_token(hEvent));
    if (!event) return unknown_handle<HandleKind::event>(to_token(hEvent));
    if (Flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) return CUDA_ERROR_INVALID_VALUE;
    const bool external = (Flags & CU_EVENT_WAIT_EXTERNAL) != 0;
    if (CUresult refused = join_capture(call, stream_token(call, hStream), *event, external); refused != CUDA_SUCCESS)
        return refused;
    call.stream = stream_token(call, hStream);
    // What is waited for is the record of this moment: another process may be told to record anew as soon as we have returned.
    const auto send = event->is_shared() ? gen::request_cuStreamWaitEvent : gen::issue_cuStreamWaitEvent;
    return send(call, call.stream, to_token(hEvent), Flags);
}

CUresult hook_client_cuStreamGetPriority(Call& call, CUstream hStream, int* priority) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    const Stream* stream = call.state.streams.find(to_token(hStream));
    *priority = stream ? stream->priority.load() : 0;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuStreamGetFlags(Call& call, CUstream hStream, unsigned int* flags) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    const Stream* stream = call.state.streams.find(to_token(hStream));
    *flags = stream ? stream->flags : 0;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuStreamGetCtx(Call& call, CUstream hStream, CUcontext* pctx) {
    uint64_t context = 0;
    CUresult result = context_of(call, hStream, context);
    if (result != CUDA_SUCCESS) return result;
    // Of a green context's stream it is what that is converted to.
    if (const CUgreenCtx green = green_of(call, hStream)) return hook_client_cuCtxFromGreenCtx(call, pctx, green);
    *pctx = to_handle<CUcontext>(context);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuStreamGetCtx_v2(Call& call, CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
    uint64_t context = 0;
    // As it is documented.
    if (hStream == CU_STREAM_PER_THREAD && current_green(call) != 0) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = context_of(call, hStream, context);
    if (result != CUDA_SUCCESS) return result;
    if (pCtx) *pCtx = to_handle<CUcontext>(context);
    if (pGreenCtx) *pGreenCtx = green_of(call, hStream);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuStreamGetGreenCtx(Call& call, CUstream hStream, CUgreenCtx* phCtx) {
    uint64_t context = 0;
    CUresult result = context_of(call, hStream, context);
    if (result == CUDA_SUCCESS) *phCtx = green_of(call, hStream);
    return result;
}

CUresult hook_client_cuStreamGetId(Call& call, CUstream hStream, unsigned long long* streamId) {
    uint64_t id = 0;
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    CUresult result = id_of_stream(call.state, call.scope(), hStream, id);
    if (result == CUDA_SUCCESS) *streamId = id;
    return result;
}

CUresult hook_client_cuStreamGetDevice(Call& call, CUstream hStream, CUdevice* device) {
    uint64_t context = 0;
    if (CUresult result = context_of(call, hStream, context); result != CUDA_SUCCESS) return result;
    const Context* found = call.state.contexts.find(context);
    if (!found) return CUDA_ERROR_INVALID_CONTEXT;
    *device = found->device;
    return CUDA_SUCCESS;
}

namespace {

/// A function that is the only sign of the stream's end, perhaps: its call leaves now.
void note_host_call(Call& call, uint64_t id, HostCalls::Place place) {
    call.session.host_calls().sent(id, place, call.number);
    call.session.calls().send_now();
}

}  // namespace

CUresult hook_client_cuStreamAddCallback(Call& call, CUstream hStream, CUstreamCallback callback, void* userData,
                                         unsigned int flags) {
    if (!callback || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    uint64_t context = 0;
    if (CUresult refused = context_of(call, hStream, context); refused != CUDA_SUCCESS) return refused;
    const uint64_t stream = stream_token(call, hStream);
    auto run = [&session = call.session, &state = call.state, context, stream, hStream, callback, userData](CUresult status) {
        run_between_kernels(session, state, context, stream, [&] { callback(hStream, status, userData); });
    };
    const LoadTurns::Function giving(call.session.load_turns(), context);
    uint64_t id = call.session.host_calls().add(run, HostCalls::Life::once);
    CUresult result = gen::issue_cuStreamAddCallback(call, stream, id);
    if (result != CUDA_SUCCESS) {
        call.session.host_calls().forget(id);
    } else {
        note_host_call(call, id, {context, stream});
    }
    return result;
}

CUresult hook_client_cuLaunchHostFunc(Call& call, CUstream hStream, CUhostFn fn, void* userData) {
    if (!fn) return CUDA_ERROR_INVALID_VALUE;
    uint64_t context = 0;
    if (CUresult refused = context_of(call, hStream, context); refused != CUDA_SUCCESS) return refused;
    const uint64_t stream = stream_token(call, hStream);
    // In a capture it becomes a node, which runs at each launch of the graph.
    auto life = is_capturing(call, stream) ? HostCalls::Life::persistent : HostCalls::Life::once;
    const auto own = life == HostCalls::Life::once ? std::optional(stream) : std::nullopt;
    auto run = [&session = call.session, &state = call.state, context, own, fn, userData](CUresult) {
        run_between_kernels(session, state, context, own, [&] { fn(userData); });
    };
    const LoadTurns::Function giving(call.session.load_turns(), context);
    uint64_t id = call.session.host_calls().add(run, life);
    if (life == HostCalls::Life::persistent) call.state.graph_ends.add_function(id, {fn, userData});
    CUresult result = gen::issue_cuLaunchHostFunc(call, stream, id);
    if (result != CUDA_SUCCESS) {
        call.session.host_calls().forget(id);
        call.state.graph_ends.remove_function(id);
    } else if (life == HostCalls::Life::persistent) {
        hold_in_capture(call, stream, make_end(call, EndKind::function, id));
    } else {
        note_host_call(call, id, {context, stream});
    }
    return result;
}

CUresult hook_client_cuLaunchHostFunc_v2(Call& call, CUstream hStream, CUhostFn fn, void* userData, unsigned int) {
    return hook_client_cuLaunchHostFunc(call, hStream, fn, userData);
}

CUresult hook_client_cuStreamSetAttribute(Call& call, CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* value) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_attribute(call, attr, *value); refused != CUDA_SUCCESS) return refused;
    CUresult result =
        gen::issue_cuStreamSetAttribute(call, stream_token(call, hStream), static_cast<uint32_t>(attr), struct_bytes(value));
    Stream* stream = call.state.streams.find(to_token(hStream));
    if (result == CUDA_SUCCESS && stream && attr == CU_STREAM_ATTRIBUTE_PRIORITY)
        stream->priority.store(nearest_priority(call, value->priority));
    return result;
}

CUresult hook_client_cuStreamCopyAttributes(Call& call, CUstream dst, CUstream src) {
    if (CUresult refused = check_stream(call, dst); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_stream(call, src); refused != CUDA_SUCCESS) return refused;
    CUresult result = gen::issue_cuStreamCopyAttributes(call, stream_token(call, dst), stream_token(call, src));
    Stream* to = call.state.streams.find(to_token(dst));
    const Stream* from = call.state.streams.find(to_token(src));
    if (result == CUDA_SUCCESS && to) to->priority.store(from ? from->priority.load() : 0);
    return result;
}

CUresult hook_client_cuStreamAttachMemAsync(Call& call, CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags == CU_MEM_ATTACH_SINGLE && is_special_stream(hStream) && hStream != CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_VALUE;
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    const auto range = call.state.memory.find(dptr);
    const bool managed = range && (range->kind == MemoryKind::managed || range->managed_variable);
    if (!managed || range->base != dptr || (length != 0 && length != range->size_bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (range->kind == MemoryKind::managed) attach_managed(*range, hStream, flags);
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
