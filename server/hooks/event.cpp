#include "server/gen/event_calls.gen.h"
#include "server/hooks/waits.h"

namespace warpline::server {

CUresult hook_server_cuEventSynchronize(ServerCall& call, const CuEventSynchronizeArgs& args) {
    const auto wait = WL_DRIVER(call, cuEventSynchronize);
    const auto event = WL_FIND(call, CUevent, event, args.hEvent);
    return wait_for_object(call, event, wait, call.driver()->cuEventDestroy_v2);
}

CUresult hook_server_cuEventDestroy_v2(ServerCall& call, const CuEventDestroyV2Args& args) {
    const auto destroy = WL_DRIVER(call, cuEventDestroy_v2);
    const auto event = WL_FIND(call, CUevent, event, args.hEvent);
    return destroy_object(call, HandleKind::event, args.hEvent, event, destroy);
}

}  // namespace warpline::server
