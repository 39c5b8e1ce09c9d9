// Graphs as programs build them. As in CUDA, one graph is not to be changed by two threads at the same time.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/graph/conditional.h"
#include "softgpu/driver/graph/graph_memory.h"
#include "softgpu/driver/operations/operation.h"

namespace warpline::softgpu::driver {

class Graph;
class GraphNode;
using GraphPtr = std::shared_ptr<Graph>;
using NodePtr = std::shared_ptr<GraphNode>;

/// True if an edge is nothing but an order: who asks without room for more loses nothing.
inline bool is_plain(const CUgraphEdgeData& data) { return data.from_port == 0 && data.to_port == 0 && data.type == 0; }

struct EmptyOperation {};

struct ChildGraphOperation {
    GraphPtr graph;  // the node's own
};

struct MemoryAllocOperation {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    std::vector<CUmemAccessDesc> access;
    std::shared_ptr<GraphMemory> memory;  // shared with executable graphs, which keep it
};

struct ConditionalOperation {
    std::shared_ptr<Conditional> conditional;
    CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
    std::vector<GraphPtr> bodies;
    std::vector<CUgraph> body_handles;  ///< what phGraph_out points at
};

using NodeBody = std::variant<EmptyOperation, KernelOperation, CopyOperation, MemsetOperation, HostOperation,
                              ChildGraphOperation, EventRecordOperation, EventWaitOperation, BatchMemoryOperation,
                              MemoryAllocOperation, MemoryFreeOperation, ConditionalOperation>;

CUgraphNodeType type_of(const NodeBody& body);

struct GraphEdge {
    GraphNode* node = nullptr;
    CUgraphEdgeData data{};
};

/// A node. Lives as long as its graph; the handle is found in the process's table.
class GraphNode : public std::enable_shared_from_this<GraphNode> {
public:
    GraphNode(Graph& graph, NodeBody body, std::shared_ptr<Context> context)
        : body(std::move(body)), context(std::move(context)), graph(&graph) {}

    CUgraphNode handle() const { return reinterpret_cast<CUgraphNode>(m_handle); }
    void set_handle(uint64_t handle) { m_handle = handle; }
    CUgraphNodeType type() const { return type_of(body); }
    /// As cuGraphKernelNodeGetParams hands them out: good until the parameters change.
    void** param_pointers();

    NodeBody body;
    std::shared_ptr<Context> context;  // where the work is done; shared: the context may be destroyed before the graph
    Graph* graph;
    std::vector<GraphEdge> dependencies, dependents;
    unsigned int local_id = 0;  ///< number in its graph
    uint64_t cloned_from = 0;   ///< handle of the node that this one is a copy of

private:
    uint64_t m_handle = 0;
    std::vector<void*> m_param_pointers;
};

/// A program's object whose destructor runs when the last reference has gone.
class UserObject {
public:
    UserObject(void* object, CUhostFn destroy, uint32_t references)
        : m_object(object), m_destroy(destroy), m_references(references) {}
    void set_handle(uint64_t handle) { m_handle = handle; }
    void retain(uint32_t count) { m_references += count; }
    /// False if there are not so many references. With the last one the handle goes, and the destructor runs on a thread of the
    /// driver, as CUDA says.
    bool release(uint32_t count);

private:
    void* const m_object;
    const CUhostFn m_destroy;
    std::atomic<uint32_t> m_references;
    uint64_t m_handle = 0;
};

class UserObjectReferences;
using UserObjectsPtr = std::shared_ptr<const UserObjectReferences>;

/// References to user objects, given up at its end.
class UserObjectReferences {
public:
    UserObjectReferences() = default;
    ~UserObjectReferences() { clear(); }
    UserObjectReferences(const UserObjectReferences&) = delete;
    UserObjectReferences& operator=(const UserObjectReferences&) = delete;
    void clear();
    void add(const std::shared_ptr<UserObject>& object, uint32_t count) { m_counts[object] += count; }
    bool remove(const std::shared_ptr<UserObject>& object, uint32_t count);
    /// Takes as many references again, for a copy.
    void copy_to(UserObjectReferences& other) const;
    /// The same as an object of its own; null if there are none.
    UserObjectsPtr copy() const;

private:
    std::map<std::shared_ptr<UserObject>, uint32_t> m_counts;
};

/// A number that no other graph of the process has, executable ones included.
unsigned int next_graph_id();

class Graph : public std::enable_shared_from_this<Graph> {
public:
    /// Makes a graph and its handle. A graph that belongs to a node cannot be destroyed by its handle.
    static GraphPtr create(bool belongs_to_node);
    ~Graph();

    CUgraph handle() const { return reinterpret_cast<CUgraph>(m_handle); }
    bool belongs_to_node() const { return m_belongs_to_node; }
    /// It becomes part of a node, with its handles.
    void move_to_node() { m_belongs_to_node = m_is_child = true; }
    /// It is a child graph's node's, moved there or copied: it can be cloned, and is used as part of its graph only (DB-48).
    bool is_child() const { return m_is_child; }
    unsigned int id() const { return m_id; }
    const std::vector<NodePtr>& nodes() const { return m_nodes; }

    /// Errors: invalid value (a dependency of another graph, one named twice).
    CUresult add(NodeBody body, std::shared_ptr<Context> context, const std::vector<GraphEdge>& dependencies, NodePtr& node);
    CUresult add_dependency(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data);
    CUresult remove_dependency(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data);
    void remove(GraphNode& node);
    /// A copy with nodes and handles of its own. @param for_node  it is a child graph's node's. Errors: not supported (memory
    /// nodes have one address).
    CUresult clone(bool for_node, GraphPtr& copy) const;
    /// Nodes such that dependencies come first. False if there is a cycle.
    bool sorted(std::vector<GraphNode*>& order) const;
    /// Gives up the handles of the graph and of its nodes, and its references to user objects. Events that were recorded in its
    /// capture may keep the rest for a while.
    void forget();

    /// It allocates or frees memory.
    bool has_memory() const;

    /// It is a body of a conditional node of `outer`.
    void lies_in(const Graph& outer) { m_outer = outer.weak_from_this(); }
    /// A conditional was made for this graph, or for one that this is a body in.
    bool may_use(const Conditional* conditional) const;

    uint64_t executable = 0;  ///< handle of the executable graph that was made of it last
    UserObjectReferences user_objects;
    /// Handles of conditionals that were made for this graph.
    std::vector<std::shared_ptr<Conditional>> conditionals;

private:
    Graph() = default;

    uint64_t m_handle = 0;
    bool m_belongs_to_node = false;
    bool m_is_child = false;
    const unsigned int m_id = next_graph_id();
    unsigned int m_next_node = 0;
    std::vector<NodePtr> m_nodes;
    std::weak_ptr<const Graph> m_outer;
};

/// Finders by handle: invalid value, as CUDA says for graphs.
CUresult find_graph(CUgraph handle, GraphPtr& graph);
CUresult find_node(CUgraphNode handle, NodePtr& node);
/// The node if its body is of a kind: invalid value if it is of another.
template <typename Operation>
CUresult find_node(CUgraphNode handle, NodePtr& node, Operation*& operation) {
    CU_TRY(find_node(handle, node));
    operation = std::get_if<Operation>(&node->body);
    return operation != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// Writes a graph in the language of Graphviz. Errors: operating system (the file).
CUresult print_dot(const Graph& graph, const char* path, unsigned int flags);

}  // namespace warpline::softgpu::driver
