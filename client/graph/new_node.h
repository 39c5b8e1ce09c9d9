// What adding a node is, whatever its type.
#pragma once

#include <set>

#include "client/graph/edges.h"
#include "client/graph/node_tokens.h"

namespace warpline::client {

/// What every new node has: a graph, and nodes that it depends on.
struct NewNode {
    CUgraphNode* out;
    CUgraph graph;
    const CUgraphNode* dependencies;
    size_t count;
};

/// "pDependencies may not have any duplicate entries" (CUDA Driver API, cuGraphAddNode), and they are nodes of the same graph.
inline CUresult check_dependencies(const Call& call, const NewNode& node) {
    if (CUresult refused = check_nodes(call, node.dependencies, node.count); refused != CUDA_SUCCESS) return refused;
    std::set<CUgraphNode> seen;
    for (size_t i = 0; i < node.count; ++i) {
        const uint64_t graph = call.state.graph_nodes.find(to_token(node.dependencies[i]))->graph;
        if (graph != 0 && graph != to_token(node.graph)) return CUDA_ERROR_INVALID_VALUE;
        if (node.count > 1 && !seen.insert(node.dependencies[i]).second) return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/// Makes a token for a node, and lets `issue(token, dependencies)` send it.
template <typename Issue>
CUresult add_node(Call& call, const NewNode& node, CUgraphNodeType type, Issue&& issue) {
    if (!call.state.graphs.find(to_token(node.graph))) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult refused = check_dependencies(call, node); refused != CUDA_SUCCESS) return refused;
    auto made = make_object<HandleKind::graph_node>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = issue(made.token, tokens_of(node.dependencies, node.count));
    if (result != CUDA_SUCCESS) {
        call.state.graph_nodes.remove(made.token);
        return result;
    }
    made.object->type.store(type);
    made.object->made = call.number;
    join_graph(call, to_token(node.graph), made.token);
    const std::vector<uint64_t> to(node.count, made.token);
    note_new(call.state, {to_token(node.graph), tokens_of(node.dependencies, node.count), to});
    *node.out = to_handle<CUgraphNode>(made.token);
    return CUDA_SUCCESS;
}

/// A graph inside a new node has its references to user objects from now on: as long as the node and its graph live.
inline void hold_inner(Call& call, const NewNode& node, const UserReferencesPtr& references) {
    call.state.graphs.find(to_token(node.graph))->references->add_inner(references);
    GraphNode* made = call.state.graph_nodes.find(to_token(*node.out));
    MutexLock lock(made->mutex);
    made->inner.push_back(references);
}

}  // namespace warpline::client
