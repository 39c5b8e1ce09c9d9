// What nodes of executable graphs are to do from the next launch on.
#include "server/gen/graph_exec_params_calls.gen.h"
#include "server/hooks/graph_batch.h"
#include "server/hooks/graph_common.h"
#include "server/hooks/graph_params.h"

namespace warpline::server {

CUresult hook_server_cuGraphExecBatchMemOpNodeSetParams(ServerCall& call, const CuGraphExecBatchMemOpNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphExecBatchMemOpNodeSetParams);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    Batch batch;
    WL_CUDA(read_batch(call, args, batch));
    return set(exec, node, &batch.params);
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
    WL_DRIVER(call, cuGraphExecMemcpyNodeSetParams);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    const auto context = WL_FIND(call, CUcontext, context, args.ctx);
    CUDA_MEMCPY3D copy{};
    HostCopyPtr host;
    WL_CUDA(read_copy_node(call, args, copy, host));
    return call.session().graph_copies().change_copy(exec, node, std::move(host), copy, context);
}

CUresult hook_server_cuGraphExecChildGraphNodeSetParams(ServerCall& call, const CuGraphExecChildGraphNodeSetParamsArgs& args) {
    WL_DRIVER(call, cuGraphExecChildGraphNodeSetParams);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    const auto child = WL_FIND(call, CUgraph, graph, args.childGraph);
    return call.session().graph_copies().change_child(exec, node, child);
}

CUresult hook_server_cuGraphNodeSetEnabled(ServerCall& call, const CuGraphNodeSetEnabledArgs& args) {
    WL_DRIVER(call, cuGraphNodeSetEnabled);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    GraphCopies& copies = call.session().graph_copies();
    const bool on = args.isEnabled != 0;
    return args.isHostCopy ? copies.set_host_copy_enabled(exec, node, on) : copies.set_enabled(exec, node, on);
}

CUresult hook_server_cuGraphExecEventRecordNodeSetEvent(ServerCall& call, const CuGraphExecEventRecordNodeSetEventArgs& args) {
    WL_DRIVER(call, cuGraphExecEventRecordNodeSetEvent);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    const auto event = WL_FIND(call, CUevent, event, args.event);
    return call.session().graph_copies().change_event(exec, node, event);
}

CUresult hook_server_cuGraphExecHostNodeSetParams(ServerCall& call, const CuGraphExecHostNodeSetParamsArgs& args) {
    WL_DRIVER(call, cuGraphExecHostNodeSetParams);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    return call.session().graph_copies().change_function(exec, node, args.id);
}

}  // namespace warpline::server
