#include "server/gen/graph_exec_calls.gen.h"
#include "server/hooks/graph_common.h"
#include "server/hooks/graph_params.h"

namespace warpline::server {

CUresult hook_server_cuGraphExecUpdate_v2(ServerCall& call, const CuGraphExecUpdateV2Args& args,
                                          CuGraphExecUpdateV2Values& values) {
    const auto update = WL_DRIVER(call, cuGraphExecUpdate_v2);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    CUgraphExecUpdateResultInfo info{};
    const CUresult result = update(exec, graph, &info);
    const HandleTable& handles = call.session().handles();
    values.updateResult = static_cast<uint32_t>(info.result);
    values.errorNode =
        info.errorNode != nullptr ? handles.token_of(HandleKind::graph_node, handle_to_value(info.errorNode)) : 0;
    values.errorFromNode =
        info.errorFromNode != nullptr ? handles.token_of(HandleKind::graph_node, handle_to_value(info.errorFromNode)) : 0;
    return result;
}

CUresult hook_server_cuGraphExecKernelNodeSetParams_v2(ServerCall& call, const CuGraphExecKernelNodeSetParamsV2Args& args) {
    const auto set = WL_DRIVER(call, cuGraphExecKernelNodeSetParams_v2);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    KernelNodeParams params;
    WL_CUDA(read_kernel_node(call, args, params));
    return set(exec, node, &params.node);
}

CUresult hook_server_cuGraphExecMemcpyNodeSetParams(ServerCall& call, const CuGraphExecMemcpyNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphExecMemcpyNodeSetParams);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    const auto context = WL_FIND(call, CUcontext, context, args.ctx);
    CUDA_MEMCPY3D copy{};
    WL_CUDA(read_copy_node(call, args, copy));
    return set(exec, node, &copy, context);
}

CUresult hook_server_cuGraphExecHostNodeSetParams(ServerCall& call, const CuGraphExecHostNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphExecHostNodeSetParams);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    HostCalls::Ticket* ticket = call.session().host_calls().make_ticket(args.id, false);
    if (ticket == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUDA_HOST_NODE_PARAMS params{&HostCalls::run, ticket};
    return set(exec, node, &params);
}

}  // namespace warpline::server
