// Which tokens of nodes and of graphs inside them end with what.
#include "client/graph/node_tokens.h"

#include <utility>

namespace warpline::client {

void join_graph(Call& call, uint64_t graph, uint64_t node) {
    GraphNode* made = call.state.graph_nodes.find(node);
    Graph* known = call.state.graphs.find(graph);
    if (!made || !known) return;
    made->graph = graph;
    MutexLock lock(known->mutex);
    known->nodes.push_back(node);
}

void end_node(State& state, uint64_t node) {
    GraphNode* known = state.graph_nodes.find(node);
    if (!known) return;
    std::vector<uint64_t> inside;
    {
        MutexLock lock(known->mutex);
        for (CUgraph body : known->bodies) inside.push_back(to_token(body));
        if (known->child != 0) inside.push_back(known->child);
    }
    if (Graph* graph = state.graphs.find(known->graph)) {
        MutexLock lock(graph->mutex);
        // Of nodes that go while their graph stays it is mostly one of the last.
        const auto mine = std::find(graph->nodes.rbegin(), graph->nodes.rend(), node);
        if (mine != graph->nodes.rend()) {
            *mine = graph->nodes.back();
            graph->nodes.pop_back();
        }
    }
    state.graph_nodes.remove(node);
    for (uint64_t graph : inside) end_graph(state, graph);
}

void end_graph(State& state, uint64_t graph) {
    Graph* known = state.graphs.find(graph);
    if (!known) return;
    std::vector<uint64_t> nodes;
    MemoryNodes memory;  // given up without the lock
    {
        MutexLock lock(known->mutex);
        nodes.swap(known->nodes);
        std::swap(memory, known->memory_nodes);
    }
    for (uint64_t node : nodes) end_node(state, node);
    state.graphs.remove(graph);
}

}  // namespace warpline::client
