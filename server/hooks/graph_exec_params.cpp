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
    if (args.isEnabled == 0) WL_CUDA(call.session().graph_copies().check_disabled(exec, node));
    WL_CUDA(set(exec, node, args.isEnabled));
    call.session().graph_copies().enabled(exec, node, args.isEnabled != 0);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphExecEventRecordNodeSetEvent(ServerCall& call, const CuGraphExecEventRecordNodeSetEventArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphExecEventRecordNodeSetEvent);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    const auto event = WL_FIND(call, CUevent, event, args.event);
    WL_CUDA(call.session().graph_copies().check_record(exec));
    WL_CUDA(set(exec, node, event));
    call.session().graph_copies().records(exec, node, event);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphExecHostNodeSetParams(ServerCall& call, const CuGraphExecHostNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphExecHostNodeSetParams);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    HostCalls::Ticket* ticket = nullptr;
    WL_CUDA(call.session().graph_copies().make_successor(exec, node, args.id, ticket));
    const CUDA_HOST_NODE_PARAMS params{&HostCalls::run, ticket};
    if (const CUresult result = set(exec, node, &params); result != CUDA_SUCCESS) {
        call.session().host_calls().drop_ticket(ticket);
        return result;
    }
    call.session().graph_copies().give_ticket(exec, node, ticket);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
