// Graphs that can be launched.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "softgpu/driver/context/scheduler.h"
#include "softgpu/driver/graph/graph.h"

namespace warpline::softgpu::driver {

class GraphExec;

/// A node of an executable graph: a copy of the node's body at the time of the instantiation, with later updates.
struct ExecNode {
    uint64_t source = 0;  ///< handle of the node it was made of
    NodeBody body;
    std::shared_ptr<Context> context;
    std::vector<size_t> dependencies;  ///< places in the list of nodes, all before this one
    bool is_leaf = true;
    bool enabled = true;
    std::vector<std::shared_ptr<GraphExec>> inner;  ///< of a child graph, or the bodies of a conditional
};

/// An executable graph. Any thread may call; launches of one follow each other.
class GraphExec {
public:
    struct Failure {
        CUgraphNode node = nullptr;
        CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_ERROR;
    };
    /// Errors: invalid value (cycles), not supported (flags, nodes), with the reason in `failure`.
    static CUresult create(const Graph& graph, uint64_t flags, std::shared_ptr<GraphExec>& exec, Failure& failure);
    ~GraphExec();

    uint64_t flags() const { return m_flags; }
    unsigned int id() const { return m_id; }

    /// Errors: invalid value (memory of an earlier launch was not freed).
    CUresult launch(Stream& stream);
    /// Executes the nodes after some fences and returns the fences of its end.
    std::vector<FencePtr> submit(std::span<const FencePtr> after, int priority);

    /// Takes over the parameters of a graph of the same shape.
    CUresult update(const Graph& graph, CUgraphExecUpdateResultInfo& info);
    /// Calls `change(ExecNode&)` with the copy of a node. Errors: invalid value (no such node), those of `change`.
    template <typename Change>
    CUresult change(CUgraphNode source, Change change) {
        MutexLock lock(m_mutex);
        ExecNode* node = find(reinterpret_cast<uint64_t>(source));
        return node != nullptr ? change(*node) : CUDA_ERROR_INVALID_VALUE;
    }

private:
    GraphExec() = default;
    ExecNode* find(uint64_t source) WL_REQUIRES(m_mutex);
    /// Those of the graphs within included.
    /// What its nodes allocate and free.
    void collect_memory(std::vector<std::shared_ptr<GraphMemory>>& memory) const;
    void collect_user_objects(std::vector<UserObjectsPtr>& objects) const;
    FencePtr submit_node(const ExecNode& node, std::span<const FencePtr> after, int priority);
    CUresult pair(const Graph& graph, std::vector<GraphNode*>& pairs, CUgraphExecUpdateResultInfo& info) const
        WL_REQUIRES(m_mutex);
    CUresult update_locked(const Graph& graph, CUgraphExecUpdateResultInfo& info) WL_REQUIRES(m_mutex);
    /// Marks the memory of the graph's allocation nodes as taken by a launch. Errors: invalid value (it still is).
    CUresult account_for_memory() WL_REQUIRES(m_mutex);
    /// Whether there is memory where batches of memory operations wait and write. Errors: invalid value.
    CUresult check_memory() const WL_REQUIRES(m_mutex);

    const unsigned int m_id = next_graph_id();
    uint64_t m_flags = 0;
    mutable Mutex m_mutex;
    std::vector<ExecNode> m_nodes WL_GUARDED_BY(m_mutex);
    std::vector<size_t> m_exits WL_GUARDED_BY(m_mutex);  // places of the nodes on which none depends, as they were made
    FencePtr m_last WL_GUARDED_BY(m_mutex);              // of the latest launch
    std::vector<std::shared_ptr<Conditional>> m_conditionals WL_GUARDED_BY(m_mutex);
    UserObjectsPtr m_user_objects WL_GUARDED_BY(m_mutex);  // shared with launches under way; null: none
};

using ExecPtr = std::shared_ptr<GraphExec>;

/// Errors: invalid value.
CUresult find_exec(CUgraphExec handle, ExecPtr& exec);

}  // namespace warpline::softgpu::driver
