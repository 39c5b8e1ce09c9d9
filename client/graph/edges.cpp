// What each node comes after.
#include "client/graph/edges.h"

#include <set>
#include <utility>

namespace warpline::client {

namespace {

/// The nodes of an edge, if all edges to the second one are known.
struct EdgeEnds {
    GraphNode* from = nullptr;
    GraphNode* to = nullptr;
};
EdgeEnds ends_of(const State& state, const Edges& edges, size_t index) {
    const EdgeEnds ends{state.graph_nodes.find(edges.from[index]), state.graph_nodes.find(edges.to[index])};
    const bool is_known = ends.from && ends.to && ends.to->made != 0 && ends.from->graph == edges.graph &&
                          ends.to->graph == edges.graph && ends.from != ends.to;
    return is_known ? ends : EdgeEnds{};
}

/// True if all are known, different, and there or not, as wanted.
bool all_are(const State& state, const Edges& edges, bool there) {
    const Graph* graph = state.graphs.find(edges.graph);
    if (!graph || state.captures.adds_to(edges.graph)) return false;
    std::set<std::pair<uint64_t, uint64_t>> seen;
    for (size_t i = 0; i < edges.from.size(); ++i) {
        const EdgeEnds ends = ends_of(state, edges, i);
        if (!ends.to || !seen.emplace(edges.from[i], edges.to[i]).second) return false;
        MutexLock lock(ends.to->mutex);
        if (ends.to->has_data_edges || ends.to->after.contains(edges.from[i]) != there) return false;
    }
    return true;
}

}  // namespace

bool are_new(const State& state, const Edges& edges) { return all_are(state, edges, false); }

bool are_there(const State& state, const Edges& edges) {
    const Graph* graph = state.graphs.find(edges.graph);
    return graph && !graph->memory.load() && all_are(state, edges, true);
}

namespace {

enum class News : uint8_t { added, with_data, gone };

void note(const State& state, const Edges& edges, News news) {
    for (size_t i = 0; i < edges.from.size(); ++i) {
        const EdgeEnds ends = ends_of(state, edges, i);
        if (!ends.to) continue;
        MutexLock lock(ends.to->mutex);
        switch (news) {
            case News::added: ends.to->after.insert(edges.from[i]); break;
            case News::with_data: ends.to->has_data_edges = true; break;
            case News::gone: ends.to->after.erase(edges.from[i]); break;
        }
    }
}

}  // namespace

void note_new(const State& state, const Edges& edges) { note(state, edges, News::added); }
void note_with_data(const State& state, const Edges& edges) { note(state, edges, News::with_data); }
void note_gone(const State& state, const Edges& edges) { note(state, edges, News::gone); }

}  // namespace warpline::client
