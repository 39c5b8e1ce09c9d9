// Nodes of graphs that the program builds by hand.
#include "client/copy/copies_on_host.h"
#include "client/copy/copy_node.h"
#include "client/gen/graph_calls.gen.h"
#include "client/gen/graph_node_calls.gen.h"
#include "client/gen/internal_calls.gen.h"
#include "client/graph/batch.h"
#include "client/graph/memory.h"
#include "client/graph/new_node.h"
#include "client/graph/node_forms.h"
#include "client/graph/node_params.h"

namespace warpline::client {

namespace {

template <typename Params>
CUresult add_kernel(Call& call, const NewNode& node, const Params& params) {
    KernelNode kernel;
    if (CUresult refused = kernel.read(call, params); refused != CUDA_SUCCESS) return refused;
    const LaunchShape& s = kernel.shape;
    return add_node(call, node, CU_GRAPH_NODE_TYPE_KERNEL, [&](uint64_t token, std::span<const uint64_t> dependencies) {
        return gen::issue_cuGraphAddKernelNode_v2(call, token, to_token(node.graph), dependencies, kernel.function, s.grid_x,
                                                  s.grid_y, s.grid_z, s.block_x, s.block_y, s.block_z, s.shared_bytes,
                                                  kernel.params.params(), kernel.params.sizes());
    });
}

/// A node that calls a function here. @param id  by which the server knows it
CUresult add_callback(Call& call, const NewNode& node, CUgraphNodeType type, uint64_t id) {
    const CUresult result = add_node(call, node, type, [&](uint64_t token, std::span<const uint64_t> dependencies) {
        return gen::issue_cuGraphAddHostNode(call, token, to_token(node.graph), dependencies, id);
    });
    const UserObjectPtr end = make_end(call, EndKind::function, id);
    if (result == CUDA_SUCCESS) {
        hold_in_graph(call, to_token(node.graph), to_token(*node.out), end);
    } else {
        end->release(1);
    }
    return result;
}

CUresult add_host(Call& call, const NewNode& node, CUhostFn function, void* user_data) {
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    return add_callback(call, node, CU_GRAPH_NODE_TYPE_HOST, register_host_node(call, function, user_data));
}

CUresult add_copy(Call& call, const NewNode& node, const CUDA_MEMCPY3D& params, CUcontext context) {
    CopyNode copy;
    if (CUresult refused = copy.read(call, params, to_token(node.graph)); refused != CUDA_SUCCESS) return refused;
    uint64_t token_of_context = context ? to_token(context) : call.context;
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;
    if (!copy.on_host) {
        result = add_node(call, node, CU_GRAPH_NODE_TYPE_MEMCPY, [&](uint64_t token, std::span<const uint64_t> dependencies) {
            return copy.host.send(call, [&](uint64_t source, uint64_t address, uint64_t bytes) {
                return gen::issue_cuGraphAddMemcpyNode(call, token, to_token(node.graph), dependencies, copy.source_array,
                                                       copy.destination_array, struct_bytes(&copy.copy), token_of_context,
                                                       source, address, bytes);
            });
        });
    } else if (call.state.contexts.find(token_of_context)) {
        result = add_callback(call, node, CU_GRAPH_NODE_TYPE_MEMCPY,
                              register_host_copy(call, *copy.on_host, copy.copy, token_of_context));
    }
    if (result != CUDA_SUCCESS) return result;
    GraphNode* made = call.state.graph_nodes.find(to_token(*node.out));
    made->context = token_of_context;
    made->host_copy.store(copy.on_host ? GraphNode::HostCopy::yes : GraphNode::HostCopy::no);
    made->copy_kinds.store(copy.kinds());
    if (copy.host.exists()) hold_in_graph(call, to_token(node.graph), to_token(*node.out), copy.host.held());
    return result;
}

CUresult add_fill(Call& call, const NewNode& node, const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context) {
    if (CUresult refused = check_fill(call, params, context); refused != CUDA_SUCCESS) return refused;
    const uint64_t token_of_context = context ? to_token(context) : call.context;
    const CUresult result =
        add_node(call, node, CU_GRAPH_NODE_TYPE_MEMSET, [&](uint64_t token, std::span<const uint64_t> dependencies) {
            return gen::issue_cuGraphAddMemsetNode(call, token, to_token(node.graph), dependencies, node.count,
                                                   struct_bytes(&params), token_of_context);
        });
    if (result == CUDA_SUCCESS) call.state.graph_nodes.find(to_token(*node.out))->context = token_of_context;
    return result;
}

CUresult add_child(Call& call, const NewNode& node, CUgraph child) {
    const Graph* graph = call.state.graphs.find(to_token(child));
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    if (graph->is_child.load() || !can_be_copied(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
    const UserReferencesPtr references = graph->references->clone();
    CUresult result =
        add_node(call, node, CU_GRAPH_NODE_TYPE_GRAPH, [&](uint64_t token, std::span<const uint64_t> dependencies) {
            return gen::issue_cuGraphAddChildGraphNode(call, token, to_token(node.graph), dependencies, node.count,
                                                       to_token(child));
        });
    if (result == CUDA_SUCCESS) hold_inner(call, node, references);
    return result;
}

/// A node that the child graph itself becomes part of.
CUresult add_moved_child(Call& call, const NewNode& node, CUgraph child) {
    Graph* graph = call.state.graphs.find(to_token(child));
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    if (graph->is_child.load()) return CUDA_ERROR_NOT_SUPPORTED;
    if (graph->has_conditional.load() || child == node.graph) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result =
        add_node(call, node, CU_GRAPH_NODE_TYPE_GRAPH, [&](uint64_t token, std::span<const uint64_t> dependencies) {
            return gen::request_wlAddMovedGraph(call, token, to_token(node.graph), dependencies, to_token(child));
        });
    if (result != CUDA_SUCCESS) return result;
    hold_inner(call, node, graph->references);
    Graph& outer = *call.state.graphs.find(to_token(node.graph));
    graph->is_child.store(true);
    graph->is_moved.store(true);
    if (outer.is_body.load()) graph->is_body.store(true);
    if (graph->memory.load()) outer.memory.store(true);
    MemoryNodes memory;
    {
        MutexLock lock(graph->mutex);
        memory = graph->memory_nodes;
    }
    {
        MutexLock lock(outer.mutex);
        outer.memory_nodes.add(memory);
    }
    GraphNode& made = *call.state.graph_nodes.find(to_token(*node.out));
    MutexLock lock(made.mutex);
    made.child = to_token(child);
    return CUDA_SUCCESS;
}

/// A node whose call travels as the program made it.
CUresult add_plain(Call& call, const NewNode& node, const CUgraphNodeParams& params) {
    return add_node(call, node, params.type, [&](uint64_t token, std::span<const uint64_t> dependencies) -> CUresult {
        const uint64_t graph = to_token(node.graph);
        switch (params.type) {
            case CU_GRAPH_NODE_TYPE_EMPTY: return gen::issue_cuGraphAddEmptyNode(call, token, graph, dependencies, node.count);
            case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
                if (!call.state.events.find(to_token(params.eventWait.event))) return CUDA_ERROR_INVALID_HANDLE;
                return gen::issue_cuGraphAddEventWaitNode(call, token, graph, dependencies, node.count,
                                                          to_token(params.eventWait.event));
            case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
                if (!call.state.events.find(to_token(params.eventRecord.event))) return CUDA_ERROR_INVALID_HANDLE;
                call.state.device_records_events.store(true);
                return gen::issue_cuGraphAddEventRecordNode(call, token, graph, dependencies, node.count,
                                                            to_token(params.eventRecord.event));
            default: return WL_REFUSE_CALL("cuGraphAddNode", "nodes of this type (semaphores)");
        }
    });
}

}  // namespace

CUresult hook_client_cuGraphAddKernelNode_v2(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                             const CUgraphNode* dependencies, size_t numDependencies,
                                             const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    return add_kernel(call, {phGraphNode, hGraph, dependencies, numDependencies}, *nodeParams);
}

CUresult hook_client_cuGraphAddKernelNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                          size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    return add_kernel(call, {phGraphNode, hGraph, dependencies, numDependencies}, *nodeParams);
}

CUresult hook_client_cuGraphAddMemcpyNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                          size_t numDependencies, const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
    return add_copy(call, {phGraphNode, hGraph, dependencies, numDependencies}, *copyParams, ctx);
}

CUresult hook_client_cuGraphAddMemsetNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                          size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
    return add_fill(call, {phGraphNode, hGraph, dependencies, numDependencies}, *memsetParams, ctx);
}

CUresult hook_client_cuGraphAddHostNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                        size_t numDependencies, const CUDA_HOST_NODE_PARAMS* nodeParams) {
    return add_host(call, {phGraphNode, hGraph, dependencies, numDependencies}, nodeParams->fn, nodeParams->userData);
}

static CUresult add_any(Call& call, const NewNode& node, CUgraphNodeParams& params) {
    switch (params.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: return add_kernel(call, node, kernel_params(params));
        case CU_GRAPH_NODE_TYPE_MEMSET: return add_fill(call, node, memset_params(params), params.memset.ctx);
        case CU_GRAPH_NODE_TYPE_MEMCPY: return add_copy(call, node, params.memcpy.copyParams, params.memcpy.copyCtx);
        case CU_GRAPH_NODE_TYPE_HOST: return add_host(call, node, params.host.fn, params.host.userData);
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
            CUDA_MEM_ALLOC_NODE_PARAMS_v2& alloc = params.alloc;
            return add_allocation(call, node, alloc.poolProps, alloc.accessDescs, alloc.accessDescCount, alloc.bytesize,
                                  alloc.dptr);
        }
        case CU_GRAPH_NODE_TYPE_GRAPH:
            switch (params.graph.ownership) {
                case CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE: return add_child(call, node, params.graph.graph);
                case CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE: return add_moved_child(call, node, params.graph.graph);
                default: return CUDA_ERROR_INVALID_VALUE;
            }
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return add_batch(call, node, batch_params(params));
        case CU_GRAPH_NODE_TYPE_MEM_FREE: return add_free(call, node, params.free.dptr);
        case CU_GRAPH_NODE_TYPE_CONDITIONAL: return add_conditional(call, node, params.conditional);
        default: return add_plain(call, node, params);
    }
}

CUresult hook_client_cuGraphAddNode_v2(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                       const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                       CUgraphNodeParams* nodeParams) {
    if (!carries_data(dependencyData, numDependencies))
        return add_any(call, {phGraphNode, hGraph, dependencies, numDependencies}, *nodeParams);
    // The calls for nodes of each type know plain edges: these come behind.
    if (CUresult refused = check_nodes(call, dependencies, numDependencies); refused != CUDA_SUCCESS) return refused;
    CUgraphNode made = nullptr;
    CUresult result = add_any(call, {&made, hGraph, nullptr, 0}, *nodeParams);
    if (result != CUDA_SUCCESS) return result;
    const std::vector<uint64_t> to(numDependencies, to_token(made));
    result = gen::request_cuGraphAddDependencies_v2(call, to_token(hGraph), tokens_of(dependencies, numDependencies), to,
                                                    array_bytes(dependencyData, numDependencies), numDependencies);
    if (result == CUDA_SUCCESS) {
        note_with_data(call.state, {to_token(hGraph), tokens_of(dependencies, numDependencies), to});
        *phGraphNode = made;
    } else {
        hook_client_cuGraphDestroyNode(call, made);
    }
    return result;
}

CUresult hook_client_cuGraphAddNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                    size_t numDependencies, CUgraphNodeParams* nodeParams) {
    return hook_client_cuGraphAddNode_v2(call, phGraphNode, hGraph, dependencies, nullptr, numDependencies, nodeParams);
}

CUresult hook_client_cuGraphAddChildGraphNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                              const CUgraphNode* dependencies, size_t numDependencies, CUgraph childGraph) {
    return add_child(call, {phGraphNode, hGraph, dependencies, numDependencies}, childGraph);
}

CUresult hook_client_cuGraphAddEmptyNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                         size_t numDependencies) {
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_EMPTY;
    return add_plain(call, {phGraphNode, hGraph, dependencies, numDependencies}, params);
}

CUresult hook_client_cuGraphAddEventWaitNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                             const CUgraphNode* dependencies, size_t numDependencies, CUevent event) {
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    params.eventWait.event = event;
    return add_plain(call, {phGraphNode, hGraph, dependencies, numDependencies}, params);
}

CUresult hook_client_cuGraphAddEventRecordNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                               const CUgraphNode* dependencies, size_t numDependencies, CUevent event) {
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    params.eventRecord.event = event;
    return add_plain(call, {phGraphNode, hGraph, dependencies, numDependencies}, params);
}

CUresult hook_client_cuGraphAddBatchMemOpNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                              const CUgraphNode* dependencies, size_t numDependencies,
                                              const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
    return add_batch(call, {phGraphNode, hGraph, dependencies, numDependencies}, *nodeParams);
}

CUresult hook_client_cuGraphAddMemAllocNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                            const CUgraphNode* dependencies, size_t numDependencies,
                                            CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
    return add_allocation(call, {phGraphNode, hGraph, dependencies, numDependencies}, nodeParams->poolProps,
                          nodeParams->accessDescs, nodeParams->accessDescCount, nodeParams->bytesize, nodeParams->dptr);
}

CUresult hook_client_cuGraphAddMemFreeNode(Call& call, CUgraphNode* phGraphNode, CUgraph hGraph,
                                           const CUgraphNode* dependencies, size_t numDependencies, CUdeviceptr dptr) {
    return add_free(call, {phGraphNode, hGraph, dependencies, numDependencies}, dptr);
}

}  // namespace warpline::client
