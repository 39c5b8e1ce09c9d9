#pragma once

// Waiting for a stream or an event, and destroying one that somebody may be waiting for.

#include "server/hooks/common.h"

namespace warpline::server {

/// Gives the order free and waits with `wait(handle)`; destroys the object if the client asked for that meanwhile.
template <typename Handle, typename Wait, typename Destroy>
CUresult wait_for_object(ServerCall& call, Handle handle, Wait wait, Destroy destroy) {
    Waits& waits = call.session().waits();
    waits.begin(handle_to_value(handle));
    call.release_order();
    const CUresult result = wait(handle);
    if (waits.end(handle_to_value(handle)) && destroy != nullptr) destroy(handle);
    return result;
}

/// Destroys the object now, or once nobody waits for it; its token is free at once.
template <typename Handle, typename Destroy>
CUresult destroy_object(ServerCall& call, HandleKind kind, uint64_t token, Handle handle, Destroy destroy) {
    if (!call.session().waits().put_off(handle_to_value(handle))) WL_CUDA(destroy(handle));
    call.unbind(kind, token);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
