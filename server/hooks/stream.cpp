// Streams, and functions of the client that they run.
#include "server/gen/stream_calls.gen.h"
#include "server/hooks/common.h"
#include "server/hooks/launch_attributes.h"
#include "server/hooks/waits.h"

namespace warpline::server {

namespace {

CUresult bind_stream(ServerCall& call, uint64_t token, CUstream stream, unsigned flags) {
    HandleTable::Entry entry{handle_to_value(stream), call.context()};
    entry.scope = call.scope();
    entry.non_blocking = (flags & CU_STREAM_NON_BLOCKING) != 0;
    call.session().handles().bind(HandleKind::stream, token, entry);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_server_cuStreamCreate(ServerCall& call, const CuStreamCreateArgs& args) {
    const auto create = WL_DRIVER(call, cuStreamCreate);
    if (!call.may_bind(HandleKind::stream, args.phStream)) return CUDA_ERROR_INVALID_HANDLE;
    CUstream stream = nullptr;
    WL_CUDA(create(&stream, args.flags));
    return bind_stream(call, args.phStream, stream, args.flags);
}

CUresult hook_server_cuStreamCreateWithPriority(ServerCall& call, const CuStreamCreateWithPriorityArgs& args) {
    const auto create = WL_DRIVER(call, cuStreamCreateWithPriority);
    if (!call.may_bind(HandleKind::stream, args.phStream)) return CUDA_ERROR_INVALID_HANDLE;
    CUstream stream = nullptr;
    WL_CUDA(create(&stream, args.flags, args.priority));
    return bind_stream(call, args.phStream, stream, args.flags);
}

CUresult hook_server_cuStreamAddCallback(ServerCall& call, const CuStreamAddCallbackArgs& args) {
    const auto add = WL_DRIVER(call, cuStreamAddCallback);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    HostCalls& host_calls = call.session().host_calls();
    HostCalls::Ticket* ticket = host_calls.make_ticket(args.id, true);
    if (ticket == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = add(stream, &HostCalls::run_with_status, ticket, 0);
    if (result != CUDA_SUCCESS) host_calls.drop_ticket(ticket);
    return result;
}

CUresult hook_server_cuLaunchHostFunc(ServerCall& call, const CuLaunchHostFuncArgs& args) {
    const auto launch = WL_DRIVER(call, cuLaunchHostFunc);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    HostCalls& host_calls = call.session().host_calls();
    // In a stream that is being captured it becomes a node, which runs at each launch of the graph.
    const bool captured = is_capturing(call, stream);
    HostCalls::Ticket* ticket = host_calls.make_ticket(args.id, !captured);
    if (ticket == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = launch(stream, &HostCalls::run, ticket);
    if (result != CUDA_SUCCESS) host_calls.drop_ticket(ticket);
    CUgraph graph = nullptr;
    if (result == CUDA_SUCCESS && captured && captured_graph(call, stream, graph) == CUDA_SUCCESS)
        call.session().graph_copies().give_ticket(graph, nullptr, ticket);
    return result;
}

CUresult hook_server_cuStreamSetAttribute(ServerCall& call, const CuStreamSetAttributeArgs& args) {
    const auto set = WL_DRIVER(call, cuStreamSetAttribute);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    const auto id = static_cast<CUstreamAttrID>(args.attr);
    CUstreamAttrValue value{};
    WL_CUDA(read_attribute(call, id, args.param, value));
    return set(stream, id, &value);
}

CUresult hook_server_cuStreamSynchronize(ServerCall& call, const CuStreamSynchronizeArgs& args) {
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    return wait_for_stream(call, stream);
}

CUresult hook_server_cuStreamDestroy_v2(ServerCall& call, const CuStreamDestroyV2Args& args) {
    const auto destroy = WL_DRIVER(call, cuStreamDestroy_v2);
    if (args.hStream <= 2) return CUDA_ERROR_INVALID_HANDLE;  // the special streams are nobody's to destroy
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    // What it was given goes on without it, and is not watched any more: what is freed later waits for it here.
    Session& session = call.session();
    const auto entry = session.handles().find(HandleKind::stream, args.hStream);
    const uint64_t owner = entry && entry->owner != 0 ? entry->owner : call.context();
    if (session.contexts().make_current(owner) == CUDA_SUCCESS) {
        session.freed().stream_ends(stream);
        session.freed().add(call.number(), owner);
        session.contexts().make_current(call.scope());
    }
    return destroy_object(call, HandleKind::stream, args.hStream, stream, destroy);
}

}  // namespace warpline::server
