#include "server/gen/stream_calls.gen.h"
#include "server/hooks/common.h"

namespace warpline::server {

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
    HostCalls::Ticket* ticket = host_calls.make_ticket(args.id, !is_capturing(call, stream));
    if (ticket == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = launch(stream, &HostCalls::run, ticket);
    if (result != CUDA_SUCCESS) host_calls.drop_ticket(ticket);
    return result;
}

}  // namespace warpline::server
