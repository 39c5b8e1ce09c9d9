#include "server/gen/graph_exec_calls.gen.h"
#include "server/gen/graph_exec_params_calls.gen.h"
#include "server/gen/internal_calls.gen.h"
#include "server/hooks/graph_common.h"
#include "server/hooks/graph_params.h"

namespace warpline::server {

namespace {

/// By the form that the driver has: before CUDA 12 it told the node and not the edge.
CUresult update_exec(ServerCall& call, CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo& info) {
    if (const auto update = call.driver()->cuGraphExecUpdate_v2) return update(exec, graph, &info);
    return WL_DRIVER(call, cuGraphExecUpdate)(exec, graph, &info.errorNode, &info.result);
}

}  // namespace

CUresult hook_server_cuGraphInstantiateWithFlags(ServerCall& call, const CuGraphInstantiateWithFlagsArgs& args) {
    const auto instantiate = WL_DRIVER(call, cuGraphInstantiateWithFlags);
    if (!call.may_bind(HandleKind::graph_exec, args.phGraphExec)) return CUDA_ERROR_INVALID_HANDLE;
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    GraphCopies& copies = call.session().graph_copies();
    GraphSurvey survey;
    WL_CUDA(copies.survey(graph, survey));
    CUgraphExec exec = nullptr;
    WL_CUDA(instantiate(&exec, graph, args.flags));
    if (const CUresult result = copies.link(survey); result != CUDA_SUCCESS) {
        if (const auto destroy = call.driver()->cuGraphExecDestroy) destroy(exec);
        return result;
    }
    copies.instantiated(exec, std::move(survey));
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
    if (is_capturing(call, stream)) {
        // It becomes a child graph of what is being captured.
        if (CUgraph graph = nullptr; captured_graph(call, stream, graph) == CUDA_SUCCESS) copies.adopt(graph, exec);
        return call.driver()->cuGraphLaunch(exec, stream);
    }
    if (!args.tellEnd && copies.is_plain(exec)) {
        call.allow_overtaking();  // from here on nothing is touched but the driver
        return call.driver()->cuGraphLaunch(exec, stream);
    }
    return copies.launch(exec, {call.number(), call.context(), stream, args.sources, *payload, args.tellEnd});
}

CUresult hook_server_cuGraphExecDestroy(ServerCall& call, const CuGraphExecDestroyArgs& args) {
    const auto destroy = WL_DRIVER(call, cuGraphExecDestroy);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    WL_CUDA(destroy(exec));
    call.unbind(HandleKind::graph_exec, args.hGraphExec);
    call.session().graph_copies().exec_gone(exec);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphExecUpdate_v2(ServerCall& call, const CuGraphExecUpdateV2Args& args,
                                          CuGraphExecUpdateV2Values& values) {
    values.updateResult = CU_GRAPH_EXEC_UPDATE_ERROR;
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    GraphCopies& copies = call.session().graph_copies();
    GraphSurvey survey;
    WL_CUDA(copies.survey(graph, survey));
    WL_CUDA(copies.link(survey));
    CUgraphExecUpdateResultInfo info{};
    const CUresult result = update_exec(call, exec, graph, info);
    if (result == CUDA_SUCCESS) copies.updated(exec, std::move(survey));
    const HandleTable& handles = call.session().handles();
    values.updateResult = static_cast<uint32_t>(info.result);
    values.errorNode =
        info.errorNode != nullptr ? handles.token_of(HandleKind::graph_node, handle_to_value(info.errorNode)) : 0;
    values.errorFromNode =
        info.errorFromNode != nullptr ? handles.token_of(HandleKind::graph_node, handle_to_value(info.errorFromNode)) : 0;
    return result;
}

CUresult hook_server_cuGraphExecKernelNodeSetParams_v2(ServerCall& call, const CuGraphExecKernelNodeSetParamsV2Args& args) {
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    KernelNodeParams params;
    WL_CUDA(read_kernel_node(call, args, params));
    return with_kernel_node(call, call.driver()->cuGraphExecKernelNodeSetParams_v2,
                            call.driver()->cuGraphExecKernelNodeSetParams, &params.node, exec, node);
}

CUresult hook_server_cuGraphExecMemcpyNodeSetParams(ServerCall& call, const CuGraphExecMemcpyNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphExecMemcpyNodeSetParams);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    const auto context = WL_FIND(call, CUcontext, context, args.ctx);
    CUDA_MEMCPY3D copy{};
    HostCopyPtr host;
    WL_CUDA(read_copy_node(call, args, graph_of_node(call, args.hNode), copy, host));
    GraphCopies& copies = call.session().graph_copies();
    WL_CUDA(copies.check_change(exec, node, host));
    WL_CUDA(set(exec, node, &copy, context));
    copies.changed(exec, node, std::move(host));
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphExecChildGraphNodeSetParams(ServerCall& call, const CuGraphExecChildGraphNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphExecChildGraphNodeSetParams);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    const auto child = WL_FIND(call, CUgraph, graph, args.childGraph);
    WL_CUDA(call.session().graph_copies().check_child(exec, node, child));
    return set(exec, node, child);
}

CUresult hook_server_cuGraphNodeSetEnabled(ServerCall& call, const CuGraphNodeSetEnabledArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphNodeSetEnabled);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    WL_CUDA(set(exec, node, args.isEnabled));
    call.session().graph_copies().enabled(exec, node, args.isEnabled != 0);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphExecHostNodeSetParams(ServerCall& call, const CuGraphExecHostNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphExecHostNodeSetParams);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    HostCalls::Ticket* ticket = call.session().host_calls().make_ticket(args.id, false);
    if (ticket == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUDA_HOST_NODE_PARAMS params{&HostCalls::run, ticket};
    if (const CUresult result = set(exec, node, &params); result != CUDA_SUCCESS) {
        call.session().host_calls().drop_ticket(ticket);
        return result;
    }
    call.session().graph_copies().give_ticket(exec, node, ticket);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
