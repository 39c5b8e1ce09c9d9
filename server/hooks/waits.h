#pragma once

// Waiting for a stream or an event, and destroying one that somebody may be waiting for.

#include "server/hooks/common.h"

namespace warpline::server {

/// Gives the order free and waits with `wait(handle)`, once `query(handle)` has been asked for a moment (null: it is not);
/// destroys the object if the client asked for that meanwhile.
template <typename Handle, typename Query, typename Wait, typename Destroy>
CUresult wait_for_object(ServerCall& call, Handle handle, Query query, Wait wait, Destroy destroy) {
    Waits& waits = call.session().waits();
    waits.begin(handle_to_value(handle));
    call.release_order();
    // The wait itself is for what only a wait does (the device's printf), and says what has happened.
    if (query != nullptr) static_cast<void>(call.session().look_first().look([&] { return query(handle); }));
    const CUresult result = wait(handle);
    if (waits.end(handle_to_value(handle)) && destroy != nullptr) destroy(handle);
    return result;
}

inline CUresult wait_for_stream(ServerCall& call, CUstream stream) {
    const auto wait = WL_DRIVER(call, cuStreamSynchronize);
    return wait_for_object(call, stream, call.driver()->cuStreamQuery, wait, call.driver()->cuStreamDestroy_v2);
}

inline CUresult wait_for_event(ServerCall& call, CUevent event) {
    const auto wait = WL_DRIVER(call, cuEventSynchronize);
    return wait_for_object(call, event, call.driver()->cuEventQuery, wait, call.driver()->cuEventDestroy_v2);
}

/// Waits for the current context, with the order given free. What its legacy stream does not wait for is not asked about first,
/// and nothing while a stream is captured: a question about the legacy one would break that.
inline CUresult wait_for_context(ServerCall& call) {
    const auto wait = WL_DRIVER(call, cuCtxSynchronize);
    const auto query = WL_DRIVER(call, cuStreamQuery);
    FreedMemory& freed = call.session().freed();
    static_cast<void>(
        call.session().look_first().look([&] { return freed.any_capture() ? CUDA_SUCCESS : query(CU_STREAM_LEGACY); }));
    return wait();
}

/// Destroys the object now, or once nobody waits for it; its token is free at once.
template <typename Handle, typename Destroy>
CUresult destroy_object(ServerCall& call, HandleKind kind, uint64_t token, Handle handle, Destroy destroy) {
    if (!call.session().waits().put_off(handle_to_value(handle))) WL_CUDA(destroy(handle));
    call.unbind(kind, token);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
