// Contexts: what ends with one ends here, too.
#include "server/gen/context_calls.gen.h"
#include "server/hooks/common.h"
#include "server/hooks/waits.h"

namespace warpline::server {

namespace {

/// Ends a primary context as the last release does: everything in it goes, its handle stays good for the next time.
CUresult reset_primary(ServerCall& call, CUdevice device) {
    const auto reset = WL_DRIVER(call, cuDevicePrimaryCtxReset_v2);
    Session& session = call.session();
    const uint64_t token = Contexts::primary_token(device);
    CUdevice driver_device = 0;
    if (!session.contexts().driver_device(device, driver_device)) return CUDA_ERROR_INVALID_DEVICE;
    // Nothing of ours may have the context current while it goes.
    session.context_ends(token);
    session.contexts().make_current(0);
    session.context_ended(token);
    const CUresult result = reset(driver_device);
    session.contexts().primary_was_reset(device);
    session.memory().device_was_reset(device);
    session.memory().context_ended(token, PeerAccess::Ending::reset);
    return result;
}

/// What the current context is let do with another one's memory.
CUresult leave_of(ServerCall& call, uint64_t owner_context, PeerAccess::Leave& leave) {
    Contexts& contexts = call.session().contexts();
    if (!contexts.device_of(owner_context, leave.owner) || !contexts.device_of(call.context(), leave.peer))
        return CUDA_ERROR_INVALID_CONTEXT;
    leave.owner_context = owner_context;
    leave.peer_context = call.context();
    contexts.make_current(call.scope());
    return CUDA_SUCCESS;
}

/// Threads of a worker that wait are many, and other sessions' programs want the processor: they sleep, unless the program asks
/// for something else. What it reads back is what it has asked for, which the client knows.
unsigned with_sleeping_waits(unsigned flags) {
    return (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_AUTO ? flags | CU_CTX_SCHED_BLOCKING_SYNC : flags;
}

/// The driver would write the core dumps of a context here.
CUresult check_flags(unsigned flags) {
    if ((flags & (CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE)) == 0) return CUDA_SUCCESS;
    WL_LOG(warn, "server", "a context with core dumps is refused: they would be files on this machine");
    return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

CUresult hook_server_cuCtxSynchronize(ServerCall& call, const CuCtxSynchronizeArgs&) {
    call.release_order();
    return wait_for_context(call);
}

CUresult hook_server_cuDevicePrimaryCtxSetFlags_v2(ServerCall& call, const CuDevicePrimaryCtxSetFlagsV2Args& args) {
    const auto set = WL_DRIVER(call, cuDevicePrimaryCtxSetFlags_v2);
    CUdevice device = 0;
    if (!call.find_device(args.dev, device)) return CUDA_ERROR_INVALID_DEVICE;
    WL_CUDA(check_flags(args.flags));
    return set(device, with_sleeping_waits(args.flags));
}

CUresult hook_server_cuDevicePrimaryCtxRelease_v2(ServerCall& call, const CuDevicePrimaryCtxReleaseV2Args& args) {
    return reset_primary(call, args.dev);
}

CUresult hook_server_cuDevicePrimaryCtxReset_v2(ServerCall& call, const CuDevicePrimaryCtxResetV2Args& args) {
    return reset_primary(call, args.dev);
}

CUresult hook_server_cuCtxCreate_v2(ServerCall& call, const CuCtxCreateV2Args& args) {
    if (!call.may_bind(HandleKind::context, args.pctx)) return CUDA_ERROR_INVALID_HANDLE;
    const auto create = call.driver()->cuCtxCreate_v2;
    const auto create_v4 = call.driver()->cuCtxCreate_v4;
    CUcontext context = nullptr;
    CUdevice device = 0;
    if (!call.session().contexts().driver_device(args.dev, device)) return CUDA_ERROR_INVALID_DEVICE;
    WL_CUDA(check_flags(args.flags));
    if (create != nullptr) {
        WL_CUDA(create(&context, with_sleeping_waits(args.flags), device));
    } else if (create_v4 != nullptr) {
        WL_CUDA(create_v4(&context, nullptr, with_sleeping_waits(args.flags), device));
    } else {
        return call.missing_function();
    }
    // Creating made it current on this thread, without our book-keeping; which context is current is the client's to say.
    if (call.driver()->cuCtxPopCurrent_v2 != nullptr) call.driver()->cuCtxPopCurrent_v2(nullptr);
    call.session().contexts().forget_current();
    call.bind(HandleKind::context, args.pctx, context, 0);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuCtxDestroy_v2(ServerCall& call, const CuCtxDestroyV2Args& args) {
    const auto destroy = WL_DRIVER(call, cuCtxDestroy_v2);
    Session& session = call.session();
    const auto entry = session.handles().find(HandleKind::context, args.ctx);
    if (!entry || entry->owner != 0) return CUDA_ERROR_INVALID_CONTEXT;
    session.context_ends(args.ctx);
    session.contexts().make_current(0);
    session.context_ended(args.ctx);
    session.handles().remove(HandleKind::context, args.ctx);
    const CUresult result = destroy(reinterpret_cast<CUcontext>(entry->value));
    session.memory().context_ended(args.ctx, PeerAccess::Ending::destroyed);
    return result;
}

CUresult hook_server_cuCtxEnablePeerAccess(ServerCall& call, const CuCtxEnablePeerAccessArgs& args) {
    const auto enable = WL_DRIVER(call, cuCtxEnablePeerAccess);
    const auto disable = WL_DRIVER(call, cuCtxDisablePeerAccess);
    const auto peer = WL_FIND(call, CUcontext, context, args.peerContext);
    WL_CUDA(enable(peer, args.flags));
    // The driver opens what it allocated itself; memory of the window is opened by hand.
    PeerAccess::Leave leave;
    CUresult result = leave_of(call, args.peerContext, leave);
    if (result == CUDA_SUCCESS) result = call.session().memory().open_to_peer(leave);
    if (result != CUDA_SUCCESS) disable(peer);
    return result;
}

CUresult hook_server_cuCtxDisablePeerAccess(ServerCall& call, const CuCtxDisablePeerAccessArgs& args) {
    const auto disable = WL_DRIVER(call, cuCtxDisablePeerAccess);
    const auto peer = WL_FIND(call, CUcontext, context, args.peerContext);
    WL_CUDA(disable(peer));
    PeerAccess::Leave leave;
    WL_CUDA(leave_of(call, args.peerContext, leave));
    call.session().memory().close_to_peer(leave);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
