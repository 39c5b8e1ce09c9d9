// Updates executable graphs as a whole.
#include <algorithm>
#include <map>

#include "softgpu/driver/graph/graph_exec.h"

namespace warpline::softgpu::driver {

namespace {

CUgraphExecUpdateResult compare(const ExecNode& now, const GraphNode& wanted) {
    if (type_of(now.body) != wanted.type()) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (const auto* kernel = std::get_if<KernelOperation>(&now.body)) {
        const auto& other = std::get<KernelOperation>(wanted.body);
        if (kernel->cooperative != other.cooperative) return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
        if (now.context != wanted.context) return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    }
    // "Only 1D cudaMemset/cudaMemcpy nodes can be changed" (CUDA programming guide, "Graph update limitations").
    if (const auto* copy = std::get_if<CopyOperation>(&now.body)) {
        const auto& other = std::get<CopyOperation>(wanted.body);
        const bool flat = is_one_dimensional(*copy) && is_one_dimensional(other);
        if (!flat && !is_same_copy(*copy, other)) return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    }
    if (const auto* batch = std::get_if<BatchMemoryOperation>(&now.body)) {
        if (!is_alike(*batch, std::get<BatchMemoryOperation>(wanted.body)))
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    }
    if (const auto* alloc = std::get_if<MemoryAllocOperation>(&now.body)) {
        if (alloc->memory != std::get<MemoryAllocOperation>(wanted.body).memory)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    }
    if (const auto* conditional = std::get_if<ConditionalOperation>(&now.body)) {
        const auto& other = std::get<ConditionalOperation>(wanted.body);
        if (conditional->type != other.type || conditional->bodies.size() != other.bodies.size()) {
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        }
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult fail(CUgraphExecUpdateResultInfo& info, CUgraphExecUpdateResult result, const GraphNode* node = nullptr,
              const GraphNode* from = nullptr) {
    info = {result, node != nullptr ? node->handle() : nullptr, from != nullptr ? from->handle() : nullptr};
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

}  // namespace

CUresult GraphExec::update(const Graph& graph, CUgraphExecUpdateResultInfo& info) {
    MutexLock lock(m_mutex);
    return update_locked(graph, info);
}

/// Which node is to take over from which, as the documentation of cuGraphExecUpdate has it: the last nodes of both graphs in
/// their order, then what each depends on, in the order of the edges.
CUresult GraphExec::pair(const Graph& graph, std::vector<GraphNode*>& pairs, CUgraphExecUpdateResultInfo& info) const {
    constexpr auto k_changed = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    pairs.assign(m_nodes.size(), nullptr);
    if (graph.nodes().size() != m_nodes.size()) return fail(info, k_changed);
    std::map<const GraphNode*, size_t> place_of;
    std::vector<size_t> todo;
    const auto join = [&](GraphNode& node, size_t place) {
        const auto [known, is_new] = place_of.emplace(&node, place);
        if (!is_new || pairs[place] != nullptr) return known->second == place && pairs[place] == &node;
        pairs[place] = &node;
        todo.push_back(place);
        return true;
    };
    for (const NodePtr& node : graph.nodes()) {
        if (!node->dependents.empty()) continue;
        if (place_of.size() == m_exits.size()) return fail(info, k_changed, node.get());
        join(*node, m_exits[place_of.size()]);
    }
    if (place_of.size() != m_exits.size()) return fail(info, k_changed);
    while (!todo.empty()) {
        const size_t place = todo.back();
        todo.pop_back();
        const std::vector<size_t>& now = m_nodes[place].dependencies;
        const std::vector<GraphEdge>& wanted = pairs[place]->dependencies;
        if (wanted.size() != now.size()) return fail(info, k_changed, pairs[place]);
        for (size_t i = 0; i < now.size(); ++i) {
            if (!join(*wanted[i].node, now[i])) return fail(info, k_changed, pairs[place], wanted[i].node);
        }
    }
    return CUDA_SUCCESS;
}

CUresult GraphExec::update_locked(const Graph& graph, CUgraphExecUpdateResultInfo& info) {
    info = {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
    std::vector<GraphNode*> order, pairs;
    if (!graph.sorted(order)) return fail(info, CU_GRAPH_EXEC_UPDATE_ERROR);
    CU_TRY(pair(graph, pairs, info));
    for (size_t i = 0; i < pairs.size(); ++i) {
        const CUgraphExecUpdateResult result = compare(m_nodes[i], *pairs[i]);
        if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return fail(info, result, pairs[i]);
    }
    for (size_t i = 0; i < pairs.size(); ++i) {
        ExecNode& node = m_nodes[i];
        if (auto* child = std::get_if<ChildGraphOperation>(&pairs[i]->body)) {
            CU_TRY(node.inner.front()->update(*child->graph, info));
        } else if (auto* conditional = std::get_if<ConditionalOperation>(&pairs[i]->body)) {
            for (size_t k = 0; k < node.inner.size(); ++k) CU_TRY(node.inner[k]->update(*conditional->bodies[k], info));
        }
        node.body = pairs[i]->body;
    }
    m_conditionals = graph.conditionals;
    m_user_objects = graph.user_objects.copy();  // launches under way keep what they were launched with
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
