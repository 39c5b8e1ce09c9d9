// Names for nodes: those that a call is given, and those that the server has still to give.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "client/call/common.h"

namespace warpline::client {

/// True if an edge is more than a plain one: who asks without room for that would lose it.
inline bool any_data(const Bytes& edges) {
    return std::any_of(edges.begin(), edges.end(), [](std::byte byte) { return byte != std::byte{}; });
}

/// "Cloning is not supported for graphs which contain memory allocation nodes, memory free nodes, or conditional nodes" (CUDA
/// Driver API, cuGraphClone), and a child graph's node has a clone.
inline bool can_be_copied(const Graph& graph) { return !graph.memory.load() && !graph.has_conditional.load(); }

/// A node is known to be of a graph: it ends with that. @param graph  0, or of one that has gone: it ends with nothing
void join_graph(Call& call, uint64_t graph, uint64_t node);

/// Forgets a node, and the graphs inside it.
void end_node(State& state, uint64_t node);
/// Forgets a graph with its nodes, and the graphs inside those.
void end_graph(State& state, uint64_t graph);

/// Tokens for nodes that the client does not know yet, because capture or cloning has made them: the server gives them to such
/// nodes in the order in which it tells them. Those that were not needed end with this object.
class FreshNodes {
public:
    static constexpr size_t k_max = 1 << 16;

    FreshNodes(Call& call, size_t count) : m_call(call) {
        for (size_t i = 0; i < std::min(count, k_max); ++i) {
            auto made = make_object<HandleKind::graph_node>(call);
            if (!made) break;
            m_tokens.push_back(made.token);
        }
    }
    ~FreshNodes() {
        for (uint64_t token : m_tokens) m_call.state.graph_nodes.remove(token);
    }
    FreshNodes(const FreshNodes&) = delete;
    FreshNodes& operator=(const FreshNodes&) = delete;

    std::span<const uint64_t> tokens() const { return m_tokens; }

    /// These came back as nodes of this graph.
    void keep(std::span<const uint64_t> nodes, uint64_t graph) {
        const auto given = std::stable_partition(m_tokens.begin(), m_tokens.end(), [&](uint64_t token) {
            return std::find(nodes.begin(), nodes.end(), token) == nodes.end();
        });
        for (auto token = given; token != m_tokens.end(); ++token) join_graph(m_call, graph, *token);
        m_tokens.erase(given, m_tokens.end());
    }

private:
    Call& m_call;
    std::vector<uint64_t> m_tokens;
};

/// CUDA_SUCCESS if all of a node's dependencies are nodes.
inline CUresult check_nodes(const Call& call, const CUgraphNode* nodes, size_t count) {
    if (count != 0 && !nodes) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
        if (!call.state.graph_nodes.find(to_token(nodes[i]))) return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/// True if an edge is more than a plain one, which older forms of calls cannot pass on.
inline bool carries_data(const CUgraphEdgeData* edges, size_t count) {
    static constexpr CUgraphEdgeData k_plain{};
    return edges && std::any_of(edges, edges + count,
                                [](const CUgraphEdgeData& edge) { return std::memcmp(&edge, &k_plain, sizeof edge) != 0; });
}

}  // namespace warpline::client
