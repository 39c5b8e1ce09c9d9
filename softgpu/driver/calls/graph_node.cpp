// Adding nodes to graphs.
#include "softgpu/driver/graph/graph_params.h"

namespace warpline::softgpu::driver {

namespace {

/// Where a node is added.
struct Place {
    CUgraph graph;
    const CUgraphNode* dependencies;
    const CUgraphEdgeData* data;
    size_t count;
};

CUresult read(const Place& place, GraphPtr& graph, std::vector<GraphEdge>& edges) {
    CU_TRY(find_graph(place.graph, graph));
    if (place.count != 0 && place.dependencies == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < place.count; ++i) {
        NodePtr node;
        CU_TRY(find_node(place.dependencies[i], node));
        edges.push_back({node.get(), place.data != nullptr ? place.data[i] : CUgraphEdgeData{}});
    }
    return CUDA_SUCCESS;
}

/// `make(body, context)` makes the node's body when the place has been found good.
template <typename Make>
CUresult add(CUgraphNode* out, const Place& place, Make make) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GraphPtr graph;
    std::vector<GraphEdge> edges;
    CU_TRY(read(place, graph, edges));
    NodeBody body;
    std::shared_ptr<Context> context;
    CU_TRY(node_context(nullptr, context));
    CU_TRY(make(body, context));
    if (const auto* conditional = std::get_if<ConditionalOperation>(&body)) {
        // cuda.h: the handle is made for the "graph which will contain the conditional node".
        if (!graph->may_use(conditional->conditional.get())) return CUDA_ERROR_INVALID_VALUE;
        for (const GraphPtr& inner : conditional->bodies) inner->lies_in(*graph);
    }
    NodePtr node;
    CU_TRY(graph->add(std::move(body), std::move(context), edges, node));
    *out = node->handle();
    return CUDA_SUCCESS;
}

/// What is launched is looked at before where.
CUresult add_kernel(CUgraphNode* out, const Place& place, const CUDA_KERNEL_NODE_PARAMS& params) {
    if (params.func == nullptr && params.kern == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return add(out, place, [&](NodeBody& body, auto& context) { return make_body(params, body, context); });
}

CUresult add_any(CUgraphNode* out, const Place& place, CUgraphNodeParams* params) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const bool no_kernel = params->kernel.func == nullptr && params->kernel.kern == nullptr;
    if (params->type == CU_GRAPH_NODE_TYPE_KERNEL && no_kernel) return CUDA_ERROR_INVALID_HANDLE;
    CU_TRY(add(out, place, [&](NodeBody& body, auto& context) { return make_body(*params, body, context); }));
    if (params->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return CUDA_SUCCESS;
    NodePtr node;
    ConditionalOperation* conditional = nullptr;
    CU_TRY(find_node(*out, node, conditional));
    params->conditional.phGraph_out = conditional->body_handles.data();
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                 size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add_kernel(phGraphNode, {hGraph, dependencies, nullptr, numDependencies}, *nodeParams);
}
CUresult cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
                              const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add_kernel(phGraphNode, {hGraph, dependencies, nullptr, numDependencies}, widen(*nodeParams));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
                              const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
    if (copyParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies}, [&](NodeBody& body, auto& context) {
        CU_TRY(node_context(ctx, context));
        return make_body(*copyParams, body);
    });
}

CUresult cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
                              const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
    if (memsetParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies}, [&](NodeBody& body, auto& context) {
        CU_TRY(node_context(ctx, context));
        return make_body(*memsetParams, body);
    });
}

CUresult cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
                            const CUDA_HOST_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto&) { return make_body(*nodeParams, body); });
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                  size_t numDependencies, CUgraph childGraph) {
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto&) { return make_child(childGraph, body); });
}

CUresult cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                             size_t numDependencies) {
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies}, [](NodeBody& body, auto&) {
        body = EmptyOperation{};
        return CUDA_SUCCESS;
    });
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                   size_t numDependencies, CUevent event) {
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto&) { return make_event_record(event, body); });
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                 size_t numDependencies, CUevent event) {
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto&) { return make_event_wait(event, body); });
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                  size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto& context) { return make_body(*nodeParams, body, context); });
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto& context) { return make_body(*nodeParams, body, context); });
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                               size_t numDependencies, CUdeviceptr dptr) {
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto&) { return make_memory_free(dptr, body); });
}

CUresult cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* dependencyData, size_t numDependencies, CUgraphNodeParams* nodeParams) {
    return add_any(phGraphNode, {hGraph, dependencies, dependencyData, numDependencies}, nodeParams);
}
CUresult cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
                        CUgraphNodeParams* nodeParams) {
    return add_any(phGraphNode, {hGraph, dependencies, nullptr, numDependencies}, nodeParams);
}

}  // namespace warpline::softgpu::driver
