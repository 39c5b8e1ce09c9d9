// Names for nodes: those that a call is given, and those that the server has still to give.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "client/call/common.h"

namespace warpline::client {

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

    /// These came back as nodes.
    void keep(std::span<const uint64_t> nodes) {
        std::erase_if(m_tokens, [&](uint64_t token) { return std::find(nodes.begin(), nodes.end(), token) != nodes.end(); });
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

/// CUDA_SUCCESS if no edge carries data, which only newer forms of calls can pass on.
inline CUresult check_plain_edges(const CUgraphEdgeData* edges, size_t count) {
    static constexpr CUgraphEdgeData k_plain{};
    for (size_t i = 0; edges && i < count; ++i) {
        if (std::memcmp(&edges[i], &k_plain, sizeof k_plain) != 0)
            return WL_REFUSE_CALL("cuGraphAddNode", "edges that carry data");
    }
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
