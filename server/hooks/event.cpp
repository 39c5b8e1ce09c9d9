// Events, also those that somebody waits for while they are destroyed.
#include "server/gen/event_calls.gen.h"
#include "server/hooks/waits.h"

namespace warpline::server {

CUresult hook_server_cuEventCreate(ServerCall& call, const CuEventCreateArgs& args) {
    const auto create = WL_DRIVER(call, cuEventCreate);
    if (!call.may_bind(HandleKind::event, args.phEvent)) return CUDA_ERROR_INVALID_HANDLE;
    CUevent event = nullptr;
    // Who waits for it sleeps, as in contexts (hooks/context.cpp); a program cannot read an event's flags back.
    WL_CUDA(create(&event, args.flags | CU_EVENT_BLOCKING_SYNC));
    call.bind(HandleKind::event, args.phEvent, event, call.context());
    return CUDA_SUCCESS;
}

CUresult hook_server_cuEventSynchronize(ServerCall& call, const CuEventSynchronizeArgs& args) {
    const auto event = WL_FIND(call, CUevent, event, args.hEvent);
    return wait_for_event(call, event);
}

CUresult hook_server_cuEventDestroy_v2(ServerCall& call, const CuEventDestroyV2Args& args) {
    const auto destroy = WL_DRIVER(call, cuEventDestroy_v2);
    const auto event = WL_FIND(call, CUevent, event, args.hEvent);
    return destroy_object(call, HandleKind::event, args.hEvent, event, destroy);
}

}  // namespace warpline::server
