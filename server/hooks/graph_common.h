// Nodes of graphs and their names.
#pragma once

#include "server/hooks/common.h"

namespace warpline::server {

/// The nodes that a new one depends on.
inline CUresult find_nodes(ServerCall& call, const std::vector<uint64_t>& tokens, std::vector<CUgraphNode>& nodes) {
    nodes.clear();
    for (uint64_t token : tokens) nodes.push_back(WL_FIND(call, CUgraphNode, graph_node, token));
    return CUDA_SUCCESS;
}

/// Adds a node to a graph, by `add(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count)`, under the
/// client's token.
template <typename Add>
CUresult add_node(ServerCall& call, uint64_t token, uint64_t graph_token, const std::vector<uint64_t>& dependencies, Add add) {
    if (!call.may_bind(HandleKind::graph_node, token)) return CUDA_ERROR_INVALID_HANDLE;
    const auto graph = WL_FIND(call, CUgraph, graph, graph_token);
    std::vector<CUgraphNode> nodes;
    WL_CUDA(find_nodes(call, dependencies, nodes));
    CUgraphNode node = nullptr;
    WL_CUDA(add(&node, graph, nodes.data(), nodes.size()));
    call.bind(HandleKind::graph_node, token, node, graph_token);
    return CUDA_SUCCESS;
}

/// Names nodes that the driver has told: those that have a token keep it, the others get the client's fresh ones, in order.
class NodeNamer {
public:
    NodeNamer(ServerCall& call, const std::vector<uint64_t>& fresh, uint64_t owner)
        : m_call(call), m_fresh(fresh), m_owner(owner) {}

    /// 0: the fresh tokens are used up (the client sees fewer nodes than there are, and asks again with more).
    uint64_t name(CUgraphNode node) {
        const uint64_t known = m_call.session().handles().token_of(HandleKind::graph_node, handle_to_value(node));
        if (known != 0) return known;
        while (m_next < m_fresh.size()) {
            const uint64_t token = m_fresh[m_next++];
            if (!m_call.may_bind(HandleKind::graph_node, token)) continue;
            m_call.bind(HandleKind::graph_node, token, node, m_owner);
            return token;
        }
        return 0;
    }

private:
    ServerCall& m_call;
    const std::vector<uint64_t>& m_fresh;
    const uint64_t m_owner;
    size_t m_next = 0;
};

}  // namespace warpline::server
