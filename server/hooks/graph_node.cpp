// Nodes that a client adds to a graph.
#include "server/gen/graph_node_calls.gen.h"
#include "server/gen/internal_calls.gen.h"
#include "server/hooks/graph_batch.h"
#include "server/hooks/graph_common.h"
#include "server/hooks/graph_params.h"
#include "server/session/serve.h"

namespace warpline::server {

CUresult hook_server_cuGraphAddKernelNode_v2(ServerCall& call, const CuGraphAddKernelNodeV2Args& args) {
    KernelNodeParams params;
    WL_CUDA(read_kernel_node(call, args, params));
    return add_node(call, args.phGraphNode, args.hGraph, args.dependencies,
                    [&](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) -> CUresult {
                        return with_kernel_node(call, call.driver()->cuGraphAddKernelNode_v2,
                                                call.driver()->cuGraphAddKernelNode, &params.node, node, graph, dependencies,
                                                count);
                    });
}

CUresult hook_server_cuGraphAddMemcpyNode(ServerCall& call, const CuGraphAddMemcpyNodeArgs& args) {
    const auto add = WL_DRIVER(call, cuGraphAddMemcpyNode);
    const auto context = WL_FIND(call, CUcontext, context, args.ctx);
    return add_node(call, args.phGraphNode, args.hGraph, args.dependencies,
                    [&](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) -> CUresult {
                        CUDA_MEMCPY3D copy{};
                        HostCopyPtr host;
                        WL_CUDA(read_copy_node(call, args, copy, host));
                        WL_CUDA(add(node, graph, dependencies, count, &copy, context));
                        call.session().graph_copies().keep(graph, *node, std::move(host));
                        return CUDA_SUCCESS;
                    });
}

CUresult hook_server_cuGraphAddChildGraphNode(ServerCall& call, const CuGraphAddChildGraphNodeArgs& args) {
    const auto add = WL_DRIVER(call, cuGraphAddChildGraphNode);
    const auto child = WL_FIND(call, CUgraph, graph, args.childGraph);
    return add_node(call, args.phGraphNode, args.hGraph, args.dependencies,
                    [&](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) -> CUresult {
                        WL_CUDA(add(node, graph, dependencies, count, child));
                        call.session().graph_copies().adopt(graph, child);
                        return CUDA_SUCCESS;
                    });
}

CUresult hook_server_wlAddMovedGraph(ServerCall& call, const WlAddMovedGraphArgs& args) {
    const auto add = call.driver()->cuGraphAddNode;
    const auto add_v2 = call.driver()->cuGraphAddNode_v2;
    if (add == nullptr && add_v2 == nullptr) return call.missing_function();
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    params.graph.graph = WL_FIND(call, CUgraph, graph, args.childGraph);
    params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    HandleTable& handles = call.session().handles();
    if (handles.find(HandleKind::graph, args.childGraph)->owner != 0)
        return CUDA_ERROR_INVALID_VALUE;  // it is a node's already
    WL_CUDA(add_node(call, args.node, args.hGraph, args.dependencies,
                     [&](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) -> CUresult {
                         return add_v2 != nullptr ? add_v2(node, graph, dependencies, nullptr, count, &params)
                                                  : add(node, graph, dependencies, count, &params);
                     }));
    handles.set_owner(args.childGraph, args.node);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphAddHostNode(ServerCall& call, const CuGraphAddHostNodeArgs& args) {
    const auto add = WL_DRIVER(call, cuGraphAddHostNode);
    return add_node(call, args.phGraphNode, args.hGraph, args.dependencies,
                    [&](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) -> CUresult {
                        HostCalls::Ticket* ticket = call.session().host_calls().make_ticket(args.id, false);
                        if (ticket == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
                        const CUDA_HOST_NODE_PARAMS params{&HostCalls::run, ticket};
                        if (const CUresult result = add(node, graph, dependencies, count, &params); result != CUDA_SUCCESS) {
                            call.session().host_calls().drop_ticket(ticket);
                            return result;
                        }
                        call.session().graph_copies().give_ticket(graph, *node, ticket);
                        return CUDA_SUCCESS;
                    });
}

CUresult hook_server_cuGraphAddBatchMemOpNode(ServerCall& call, const CuGraphAddBatchMemOpNodeArgs& args) {
    const auto add = WL_DRIVER(call, cuGraphAddBatchMemOpNode);
    Batch batch;
    WL_CUDA(read_batch(call, args, batch));
    return add_node(call, args.phGraphNode, args.hGraph, args.dependencies,
                    [&](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) -> CUresult {
                        return add(node, graph, dependencies, count, &batch.params);
                    });
}

CUresult hook_server_cuGraphAddMemAllocNode(ServerCall& call, const CuGraphAddMemAllocNodeArgs& args,
                                            CuGraphAddMemAllocNodeValues& values) {
    const auto add = WL_DRIVER(call, cuGraphAddMemAllocNode);
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    std::vector<CUmemAccessDesc> access;
    if (!read_struct(args.properties, params.poolProps)) return CUDA_ERROR_INVALID_VALUE;
    if (!read_array(args.access, args.access.size() / sizeof(CUmemAccessDesc), access)) return CUDA_ERROR_INVALID_VALUE;
    const CUmemLocation location = params.poolProps.location;  // as the client counts devices
    if (!to_driver(call, params.poolProps) || !to_driver(call, access)) return CUDA_ERROR_INVALID_DEVICE;
    params.accessDescs = access.empty() ? nullptr : access.data();
    params.accessDescCount = access.size();
    params.bytesize = args.bytes;
    GraphMemory& of_graphs = call.session().graph_memory();
    const auto has_room = [&](MemoryLedger::Refusal refusal) {
        const bool on_device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
        return on_device ? of_graphs.check_node(location.id, args.bytes, refusal) : CUDA_SUCCESS;
    };
    WL_CUDA(call.session().freed().allocate_behind(call.number(), has_room, [&] { call.release_order(); }));
    WL_CUDA(add_node(call, args.phGraphNode, args.hGraph, args.dependencies,
                     [&](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) -> CUresult {
                         return add(node, graph, dependencies, count, &params);
                     }));
    call.session().memory().add_range(params.dptr, args.bytes);
    values.address = params.dptr;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphAddNode_v2(ServerCall& call, const CuGraphAddNodeV2Args& args) {
    const auto add = call.driver()->cuGraphAddNode;
    const auto add_v2 = call.driver()->cuGraphAddNode_v2;
    if (add == nullptr && add_v2 == nullptr) return call.missing_function();
    if (!call.may_bind(HandleKind::graph_node, args.node)) return CUDA_ERROR_INVALID_HANDLE;
    for (uint64_t body : args.bodies) {
        if (!call.may_bind(HandleKind::graph, body)) return CUDA_ERROR_INVALID_HANDLE;
    }
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    std::vector<CUgraphNode> dependencies;
    WL_CUDA(find_nodes(call, args.dependencies, dependencies));
    if (args.bodies.size() != args.size) return CUDA_ERROR_INVALID_VALUE;
    // Drivers take the handle for a pointer of theirs.
    if (!call.session().values().contains(GivenValues::Kind::conditional, args.handle)) return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = args.handle;
    params.conditional.type = static_cast<CUgraphConditionalNodeType>(args.type);
    params.conditional.size = args.size;
    params.conditional.ctx = WL_FIND_OR_NULL(call, CUcontext, context, args.ctx);
    CUgraphNode node = nullptr;
    WL_CUDA(add_v2 != nullptr ? add_v2(&node, graph, dependencies.data(), nullptr, dependencies.size(), &params)
                              : add(&node, graph, dependencies.data(), dependencies.size(), &params));
    call.bind(HandleKind::graph_node, args.node, node, args.hGraph);
    std::vector<CUgraph> bodies(params.conditional.phGraph_out, params.conditional.phGraph_out + args.size);
    for (size_t i = 0; i < bodies.size(); ++i) call.bind(HandleKind::graph, args.bodies[i], bodies[i], args.node);
    call.session().graph_copies().note_bodies(graph, node, std::move(bodies));
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
