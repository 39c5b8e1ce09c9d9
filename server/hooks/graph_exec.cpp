// Executable graphs: made, changed as a whole, launched with the client's memory in view.
#include "server/gen/graph_exec_calls.gen.h"
#include "server/gen/internal_calls.gen.h"
#include "server/hooks/graph_common.h"
#include "server/hooks/graph_params.h"
#include "server/objects/graph_placement.h"

namespace warpline::server {

namespace {

/// By the form that the driver has: before CUDA 12 it told the node and not the edge.
CUresult update_exec(ServerCall& call, CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo& info) {
    if (const auto update = call.driver()->cuGraphExecUpdate_v2) return update(exec, graph, &info);
    return WL_DRIVER(call, cuGraphExecUpdate)(exec, graph, &info.errorNode, &info.result);
}

/// By the form that the driver has: before CUDA 12 it told neither the node nor the reason.
CUresult instantiate(ServerCall& call, CUgraph graph, uint64_t flags, CUgraphExec& exec,
                     CuGraphInstantiateWithFlagsValues& values) {
    const auto with_params = call.driver()->cuGraphInstantiateWithParams;
    // With parameters it would be uploaded, too, in a stream that they name.
    if (with_params == nullptr || (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
        return WL_DRIVER(call, cuGraphInstantiateWithFlags)(&exec, graph, flags);
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    params.flags = flags;
    const CUresult result = with_params(&exec, graph, &params);
    const CUgraphNode node = params.hErrNode_out;
    values.reason = static_cast<uint32_t>(params.result_out);
    values.errorNode = node != nullptr ? call.session().handles().token_of(HandleKind::graph_node, handle_to_value(node)) : 0;
    return result;
}

/// By a graph of one node: so an event may be of another context than the stream.
CUresult record_by_graph(ServerCall& call, CUevent event, CUstream stream) {
    const auto create = WL_DRIVER(call, cuGraphCreate);
    const auto destroy = WL_DRIVER(call, cuGraphDestroy);
    const auto add = WL_DRIVER(call, cuGraphAddEventRecordNode);
    const auto instantiate = WL_DRIVER(call, cuGraphInstantiateWithFlags);
    const auto destroy_exec = WL_DRIVER(call, cuGraphExecDestroy);
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec exec = nullptr;
    WL_CUDA(create(&graph, 0));
    CUresult result = add(&node, graph, nullptr, 0, event);
    if (result == CUDA_SUCCESS) result = instantiate(&exec, graph, 0);
    destroy(graph);
    if (result != CUDA_SUCCESS) return result;
    result = call.driver()->cuGraphLaunch(exec, stream);
    destroy_exec(exec);  // the driver keeps it until it has run
    return result;
}

CUresult record_again(ServerCall& call, CUevent event, CUstream stream) {
    const CUresult result = WL_DRIVER(call, cuEventRecord)(event, stream);
    return result == CUDA_ERROR_INVALID_HANDLE ? record_by_graph(call, event, stream) : result;
}

}  // namespace

CUresult hook_server_cuGraphInstantiateWithFlags(ServerCall& call, const CuGraphInstantiateWithFlagsArgs& args,
                                                 CuGraphInstantiateWithFlagsValues& values) {
    if (!call.may_bind(HandleKind::graph_exec, args.phGraphExec)) return CUDA_ERROR_INVALID_HANDLE;
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    GraphCopies& copies = call.session().graph_copies();
    GraphCopies::Surveyed surveyed;
    WL_CUDA(copies.survey(graph, surveyed));
    CUgraphExec exec = nullptr;
    {
        Placement placement(call.driver());
        WL_CUDA(placement.place(surveyed.model, surveyed.survey));
        WL_CUDA(instantiate(call, graph, args.flags, exec, values));
    }
    copies.instantiated(exec, std::move(surveyed));
    call.session().graph_memory().instantiated(exec, graph);
    call.bind(HandleKind::graph_exec, args.phGraphExec, exec, call.context());
    return CUDA_SUCCESS;
}

CUresult hook_server_wlGraphExecCopies(ServerCall& call, const WlGraphExecCopiesArgs& args, WlGraphExecCopiesValues& values) {
    GraphCopies::Summary summary = call.session().graph_copies().summary(WL_FIND(call, CUgraphExec, graph_exec, args.exec));
    values.sources = std::move(summary.sources);
    values.targets = std::move(summary.targets);
    values.hostFunctions = summary.host_functions;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphLaunch(ServerCall& call, const CuGraphLaunchArgs& args) {
    WL_DRIVER(call, cuGraphLaunch);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraph);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    const auto payload = call.whole_payload();
    if (!payload.ok()) return result_of(payload.error());
    GraphCopies& copies = call.session().graph_copies();
    if (is_capturing(call, stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // DB-44
    WL_CUDA(call.session().graph_memory().check_launch(exec));
    if (!args.tellEnd && copies.is_plain(exec)) {
        call.allow_overtaking();  // from here on nothing is touched but the driver
        return call.driver()->cuGraphLaunch(exec, stream);
    }
    WL_CUDA(copies.launch(exec, {call.number(), call.context(), stream, args.sources, *payload, args.tellEnd}));
    for (CUevent event : copies.late_events(exec)) {
        if (call.session().handles().token_of(HandleKind::event, handle_to_value(event)) == 0) continue;
        WL_CUDA(record_again(call, event, stream));
    }
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphUpload(ServerCall& call, const CuGraphUploadArgs& args) {
    const auto upload = WL_DRIVER(call, cuGraphUpload);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraph);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    WL_CUDA(call.session().graph_memory().check_launch(exec));
    return upload(exec, stream);
}

CUresult hook_server_cuGraphExecDestroy(ServerCall& call, const CuGraphExecDestroyArgs& args) {
    const auto destroy = WL_DRIVER(call, cuGraphExecDestroy);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    WL_CUDA(destroy(exec));
    call.unbind(HandleKind::graph_exec, args.hGraphExec);
    call.session().graph_copies().exec_gone(exec);
    call.session().graph_memory().exec_gone(exec);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphExecUpdate_v2(ServerCall& call, const CuGraphExecUpdateV2Args& args,
                                          CuGraphExecUpdateV2Values& values) {
    values.updateResult = CU_GRAPH_EXEC_UPDATE_ERROR;
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    GraphCopies& copies = call.session().graph_copies();
    GraphCopies::Surveyed surveyed;
    WL_CUDA(copies.survey(graph, surveyed));
    CUgraphExecUpdateResultInfo info{};
    CUresult result = CUDA_SUCCESS;
    {
        Placement placement(call.driver());
        result = placement.place(surveyed.model, surveyed.survey);
        if (result == CUDA_SUCCESS) result = update_exec(call, exec, graph, info);
    }
    if (result == CUDA_SUCCESS) result = copies.updated(exec, std::move(surveyed));
    const HandleTable& handles = call.session().handles();
    values.updateResult = static_cast<uint32_t>(info.result);
    values.errorNode =
        info.errorNode != nullptr ? handles.token_of(HandleKind::graph_node, handle_to_value(info.errorNode)) : 0;
    values.errorFromNode =
        info.errorFromNode != nullptr ? handles.token_of(HandleKind::graph_node, handle_to_value(info.errorFromNode)) : 0;
    return result;
}

}  // namespace warpline::server
