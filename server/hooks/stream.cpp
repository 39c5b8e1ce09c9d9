#include "server/gen/stream_calls.gen.h"
#include "server/hooks/common.h"
#include "server/hooks/launch_attributes.h"

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

CUresult hook_server_cuStreamSetAttribute(ServerCall& call, const CuStreamSetAttributeArgs& args) {
    const auto set = WL_DRIVER(call, cuStreamSetAttribute);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    const auto id = static_cast<CUstreamAttrID>(args.attr);
    CUstreamAttrValue value{};
    if (args.param.size() != sizeof value) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&value, args.param.data(), sizeof value);
    WL_CUDA(resolve_launch_attribute(call, id, value));
    return set(stream, id, &value);
}

}  // namespace warpline::server
