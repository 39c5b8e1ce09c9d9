// Graphs: making, cloning, their nodes and edges.
#include "softgpu/driver/graph/graph.h"

#include <algorithm>

#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/process/ask.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// Hands out a list of nodes in CUDA's way: with a null array the number is asked for; with one, what is left is cleared. An
/// array without room is no question.
CUresult list(const std::vector<GraphNode*>& found, CUgraphNode* out, size_t* count) {
    if (count == nullptr || (out != nullptr && *count == 0)) return CUDA_ERROR_INVALID_VALUE;
    if (out != nullptr) {
        for (size_t i = 0; i < *count; ++i) out[i] = i < found.size() ? found[i]->handle() : nullptr;
        *count = std::min(*count, found.size());
    } else {
        *count = found.size();
    }
    return CUDA_SUCCESS;
}

struct Edge {
    GraphNode* from;
    GraphNode* to;
    CUgraphEdgeData data;
};

CUresult list_edges(const std::vector<Edge>& found, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
    if (count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    if (from == nullptr) {
        if (data != nullptr) return CUDA_ERROR_INVALID_VALUE;
        *count = found.size();
        return CUDA_SUCCESS;
    }
    if (*count == 0) return CUDA_ERROR_INVALID_VALUE;
    bool loses = std::any_of(found.begin(), found.end(), [](const Edge& edge) { return !is_plain(edge.data); });
    if (data == nullptr && loses) return CUDA_ERROR_LOSSY_QUERY;
    for (size_t i = 0; i < *count; ++i) {
        bool exists = i < found.size();
        from[i] = exists ? found[i].from->handle() : nullptr;
        to[i] = exists ? found[i].to->handle() : nullptr;
        if (data != nullptr) data[i] = exists ? found[i].data : CUgraphEdgeData{};
    }
    *count = std::min(*count, found.size());
    return CUDA_SUCCESS;
}

CUresult edges_of(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
    GraphPtr graph;
    CU_TRY(find_graph(handle, graph));
    std::vector<Edge> found;
    for (const NodePtr& node : graph->nodes()) {
        for (const GraphEdge& edge : node->dependencies) found.push_back({edge.node, node.get(), edge.data});
    }
    return list_edges(found, from, to, data, count);
}

CUresult neighbours(CUgraphNode handle, std::vector<GraphEdge> GraphNode::*side, CUgraphNode* out, CUgraphEdgeData* data,
                    size_t* count) {
    NodePtr node;
    CU_TRY(find_node(handle, node));
    if (count == nullptr || (out == nullptr && data != nullptr)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<GraphNode*> nodes;
    bool loses = false;
    size_t room = *count;
    if (out != nullptr && room == 0) return CUDA_ERROR_INVALID_VALUE;
    for (const GraphEdge& edge : (*node).*side) {
        if (data != nullptr && nodes.size() < room) data[nodes.size()] = edge.data;
        loses = loses || !is_plain(edge.data);
        nodes.push_back(edge.node);
    }
    if (out != nullptr && data == nullptr && loses) return CUDA_ERROR_LOSSY_QUERY;
    return list(nodes, out, count);
}

template <typename Change>
CUresult change_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data, size_t count,
                      Change change) {
    GraphPtr graph;
    CU_TRY(find_graph(handle, graph));
    if (count != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        NodePtr source, target;
        CU_TRY(find_node(from[i], source));
        CU_TRY(find_node(to[i], target));
        CU_TRY(change(*graph, *source, *target, data != nullptr ? data[i] : CUgraphEdgeData{}));
    }
    return CUDA_SUCCESS;
}

CUresult add_edges(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data, size_t count) {
    return change_edges(graph, from, to, data, count, [](Graph& g, GraphNode& a, GraphNode& b, const CUgraphEdgeData& d) {
        return g.add_dependency(a, b, d);
    });
}

CUresult remove_edges(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                      size_t count) {
    return change_edges(graph, from, to, data, count, [](Graph& g, GraphNode& a, GraphNode& b, const CUgraphEdgeData& d) {
        return g.remove_dependency(a, b, d);
    });
}

}  // namespace

CUresult cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
    if (phGraph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *phGraph = Graph::create(false)->handle();
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph hGraph) {
    GraphPtr graph;
    CU_TRY(find_graph(hGraph, graph));
    if (graph->belongs_to_node()) return CUDA_ERROR_INVALID_VALUE;
    if (is_being_captured(*graph)) return CUDA_ERROR_ILLEGAL_STATE;
    graph->forget();
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
    if (phGraphClone == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GraphPtr graph, copy;
    CU_TRY(find_graph(originalGraph, graph));
    CU_TRY(graph->clone(false, copy));
    *phGraphClone = copy->handle();
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph) {
    if (phNode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GraphPtr graph;
    CU_TRY(find_graph(hClonedGraph, graph));
    if (hOriginalNode != nullptr) *phNode = nullptr;
    for (const NodePtr& node : graph->nodes()) {
        if (node->cloned_from != reinterpret_cast<uint64_t>(hOriginalNode) || hOriginalNode == nullptr) continue;
        *phNode = node->handle();
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
    GraphPtr graph;
    CU_TRY(find_graph(hGraph, graph));
    std::vector<GraphNode*> found;
    for (const NodePtr& node : graph->nodes()) found.push_back(node.get());
    return list(found, nodes, numNodes);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
    GraphPtr graph;
    CU_TRY(find_graph(hGraph, graph));
    std::vector<GraphNode*> found;
    for (const NodePtr& node : graph->nodes()) {
        if (node->dependencies.empty()) found.push_back(node.get());
    }
    return list(found, rootNodes, numRootNodes);
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edgeData, size_t* numEdges) {
    return edges_of(hGraph, from, to, edgeData, numEdges);
}
CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, size_t* numEdges) {
    return edges_of(hGraph, from, to, nullptr, numEdges);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode* dependencies, CUgraphEdgeData* edgeData,
                                       size_t* numDependencies) {
    return neighbours(hNode, &GraphNode::dependencies, dependencies, edgeData, numDependencies);
}
CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies, size_t* numDependencies) {
    return neighbours(hNode, &GraphNode::dependencies, dependencies, nullptr, numDependencies);
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode* dependentNodes, CUgraphEdgeData* edgeData,
                                         size_t* numDependentNodes) {
    return neighbours(hNode, &GraphNode::dependents, dependentNodes, edgeData, numDependentNodes);
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependentNodes, size_t* numDependentNodes) {
    return neighbours(hNode, &GraphNode::dependents, dependentNodes, nullptr, numDependentNodes);
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edgeData, size_t numDependencies) {
    return add_edges(hGraph, from, to, edgeData, numDependencies);
}
CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to, size_t numDependencies) {
    return add_edges(hGraph, from, to, nullptr, numDependencies);
}
CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* edgeData, size_t numDependencies) {
    return remove_edges(hGraph, from, to, edgeData, numDependencies);
}
CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to, size_t numDependencies) {
    return remove_edges(hGraph, from, to, nullptr, numDependencies);
}

CUresult cuGraphDestroyNode(CUgraphNode hNode) {
    NodePtr node;
    CU_TRY(find_node(hNode, node));
    // cuda.h: "Nodes which belong to a graph which contains allocation or free nodes cannot be destroyed."
    if (node->graph->has_memory()) return CUDA_ERROR_NOT_SUPPORTED;
    if (is_being_captured(*node->graph)) return CUDA_ERROR_ILLEGAL_STATE;
    node->graph->remove(*node);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
    return ask<GraphNode>(find_node, hNode, type, [](const GraphNode& node) { return node.type(); });
}

CUresult cuGraphGetId(CUgraph hGraph, unsigned int* graphId) {
    return ask<Graph>(find_graph, hGraph, graphId, [](const Graph& graph) { return graph.id(); });
}

CUresult cuGraphNodeGetLocalId(CUgraphNode hNode, unsigned int* nodeId) {
    return ask<GraphNode>(find_node, hNode, nodeId, [](const GraphNode& node) { return node.local_id; });
}

CUresult cuGraphNodeGetToolsId(CUgraphNode hNode, unsigned long long* toolsNodeId) {
    return ask<GraphNode>(find_node, hNode, toolsNodeId, [](const GraphNode& node) {
        return static_cast<unsigned long long>(node.graph->id()) << 32 | node.local_id;
    });
}

CUresult cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph* phGraph) {
    return ask<GraphNode>(find_node, hNode, phGraph, [](const GraphNode& node) { return node.graph->handle(); });
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int flags) {
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GraphPtr graph;
    CU_TRY(find_graph(hGraph, graph));
    return print_dot(*graph, path, flags);
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* pHandle_out, CUgraph hGraph, CUcontext ctx,
                                        unsigned int defaultLaunchValue, unsigned int flags) {
    if (pHandle_out == nullptr || (flags & ~static_cast<unsigned int>(CU_GRAPH_COND_ASSIGN_DEFAULT)) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    GraphPtr graph;
    CU_TRY(find_graph(hGraph, graph));
    if (ctx == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    NamedContext named;
    if (find_named_context(ctx, named) != CUDA_SUCCESS) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    auto conditional = Conditional::create(defaultLaunchValue, (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0);
    *pHandle_out = conditional->handle();
    graph->conditionals.push_back(std::move(conditional));
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
