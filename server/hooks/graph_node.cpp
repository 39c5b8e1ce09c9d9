#include "server/gen/graph_node_calls.gen.h"
#include "server/hooks/graph_common.h"
#include "server/hooks/graph_params.h"
#include "server/hooks/launch_attributes.h"

namespace warpline::server {

CUresult hook_server_cuGraphAddKernelNode_v2(ServerCall& call, const CuGraphAddKernelNodeV2Args& args) {
    const auto add = WL_DRIVER(call, cuGraphAddKernelNode_v2);
    if (!call.may_bind(HandleKind::graph_node, args.phGraphNode)) return CUDA_ERROR_INVALID_HANDLE;
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    std::vector<CUgraphNode> dependencies;
    WL_CUDA(find_nodes(call, args.dependencies, dependencies));
    KernelNodeParams params;
    WL_CUDA(read_kernel_node(call, args, params));
    CUgraphNode node = nullptr;
    WL_CUDA(add(&node, graph, dependencies.data(), dependencies.size(), &params.node));
    call.bind(HandleKind::graph_node, args.phGraphNode, node, args.hGraph);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphKernelNodeSetParams_v2(ServerCall& call, const CuGraphKernelNodeSetParamsV2Args& args) {
    const auto set = WL_DRIVER(call, cuGraphKernelNodeSetParams_v2);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    KernelNodeParams params;
    WL_CUDA(read_kernel_node(call, args, params));
    return set(node, &params.node);
}

CUresult hook_server_cuGraphAddMemcpyNode(ServerCall& call, const CuGraphAddMemcpyNodeArgs& args) {
    const auto add = WL_DRIVER(call, cuGraphAddMemcpyNode);
    if (!call.may_bind(HandleKind::graph_node, args.phGraphNode)) return CUDA_ERROR_INVALID_HANDLE;
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    const auto context = WL_FIND(call, CUcontext, context, args.ctx);
    std::vector<CUgraphNode> dependencies;
    WL_CUDA(find_nodes(call, args.dependencies, dependencies));
    CUDA_MEMCPY3D copy{};
    WL_CUDA(read_copy_node(call, args, copy));
    CUgraphNode node = nullptr;
    WL_CUDA(add(&node, graph, dependencies.data(), dependencies.size(), &copy, context));
    call.bind(HandleKind::graph_node, args.phGraphNode, node, args.hGraph);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphMemcpyNodeSetParams(ServerCall& call, const CuGraphMemcpyNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphMemcpyNodeSetParams);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUDA_MEMCPY3D copy{};
    WL_CUDA(read_copy_node(call, args, copy));
    return set(node, &copy);
}

CUresult hook_server_cuGraphAddHostNode(ServerCall& call, const CuGraphAddHostNodeArgs& args) {
    const auto add = WL_DRIVER(call, cuGraphAddHostNode);
    if (!call.may_bind(HandleKind::graph_node, args.phGraphNode)) return CUDA_ERROR_INVALID_HANDLE;
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    std::vector<CUgraphNode> dependencies;
    WL_CUDA(find_nodes(call, args.dependencies, dependencies));
    HostCalls::Ticket* ticket = call.session().host_calls().make_ticket(args.id, false);
    if (ticket == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUDA_HOST_NODE_PARAMS params{&HostCalls::run, ticket};
    CUgraphNode node = nullptr;
    WL_CUDA(add(&node, graph, dependencies.data(), dependencies.size(), &params));
    call.bind(HandleKind::graph_node, args.phGraphNode, node, args.hGraph);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphHostNodeSetParams(ServerCall& call, const CuGraphHostNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphHostNodeSetParams);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    HostCalls::Ticket* ticket = call.session().host_calls().make_ticket(args.id, false);
    if (ticket == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUDA_HOST_NODE_PARAMS params{&HostCalls::run, ticket};
    return set(node, &params);
}

CUresult hook_server_cuGraphEventRecordNodeGetEvent(ServerCall& call, const CuGraphEventRecordNodeGetEventArgs& args,
                                                    CuGraphEventRecordNodeGetEventValues& values) {
    const auto get = WL_DRIVER(call, cuGraphEventRecordNodeGetEvent);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUevent event = nullptr;
    WL_CUDA(get(node, &event));
    values.eventOut = call.session().handles().token_of(HandleKind::event, handle_to_value(event));
    return values.eventOut != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult hook_server_cuGraphEventWaitNodeGetEvent(ServerCall& call, const CuGraphEventWaitNodeGetEventArgs& args,
                                                  CuGraphEventWaitNodeGetEventValues& values) {
    const auto get = WL_DRIVER(call, cuGraphEventWaitNodeGetEvent);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUevent event = nullptr;
    WL_CUDA(get(node, &event));
    values.eventOut = call.session().handles().token_of(HandleKind::event, handle_to_value(event));
    return values.eventOut != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult hook_server_cuGraphKernelNodeSetAttribute(ServerCall& call, const CuGraphKernelNodeSetAttributeArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphKernelNodeSetAttribute);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    const auto id = static_cast<CUkernelNodeAttrID>(args.attr);
    CUkernelNodeAttrValue value{};
    WL_CUDA(read_attribute(call, id, args.value, value));
    return set(node, id, &value);
}

}  // namespace warpline::server
