// Graphs, their nodes and edges, and copies of them.
#include "softgpu/driver/graph/graph.h"

#include <algorithm>
#include <map>

#include "softgpu/driver/code/module.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

template <typename... Cases>
struct Overloaded : Cases... {
    using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

bool same(const CUgraphEdgeData& a, const CUgraphEdgeData& b) {
    return a.from_port == b.from_port && a.to_port == b.to_port && a.type == b.type;
}

bool has_edge(const std::vector<GraphEdge>& edges, const GraphNode* node) {
    return std::any_of(edges.begin(), edges.end(), [node](const GraphEdge& edge) { return edge.node == node; });
}

bool frees(const std::vector<NodePtr>& nodes, CUdeviceptr address) {
    return std::any_of(nodes.begin(), nodes.end(), [address](const NodePtr& node) {
        const auto* free = std::get_if<MemoryFreeOperation>(&node->body);
        return free != nullptr && free->address == address;
    });
}

/// The graph inside a child graph's node becomes a copy, too.
CUresult clone_inner(NodeBody& body) {
    if (auto* child = std::get_if<ChildGraphOperation>(&body)) {
        GraphPtr copy;
        CU_TRY(child->graph->clone(true, copy));
        child->graph = std::move(copy);
    }
    return CUDA_SUCCESS;
}

void forget_inner(NodeBody& body) {
    if (auto* child = std::get_if<ChildGraphOperation>(&body)) child->graph->forget();
    if (auto* conditional = std::get_if<ConditionalOperation>(&body)) {
        for (const GraphPtr& graph : conditional->bodies) graph->forget();
    }
}

}  // namespace

CUgraphNodeType type_of(const NodeBody& body) {
    return std::visit(Overloaded{
                          [](const EmptyOperation&) { return CU_GRAPH_NODE_TYPE_EMPTY; },
                          [](const KernelOperation&) { return CU_GRAPH_NODE_TYPE_KERNEL; },
                          [](const CopyOperation&) { return CU_GRAPH_NODE_TYPE_MEMCPY; },
                          [](const MemsetOperation&) { return CU_GRAPH_NODE_TYPE_MEMSET; },
                          [](const HostOperation&) { return CU_GRAPH_NODE_TYPE_HOST; },
                          [](const ChildGraphOperation&) { return CU_GRAPH_NODE_TYPE_GRAPH; },
                          [](const EventRecordOperation&) { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; },
                          [](const EventWaitOperation&) { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; },
                          [](const BatchMemoryOperation&) { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; },
                          [](const MemoryAllocOperation&) { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; },
                          [](const MemoryFreeOperation&) { return CU_GRAPH_NODE_TYPE_MEM_FREE; },
                          [](const ConditionalOperation&) { return CU_GRAPH_NODE_TYPE_CONDITIONAL; },
                      },
                      body);
}

void** GraphNode::param_pointers() {
    auto& kernel = std::get<KernelOperation>(body);
    m_param_pointers.clear();
    for (const auto& param : kernel.function->info().params) {
        m_param_pointers.push_back(kernel.params.data() + param.offset_bytes);
    }
    return m_param_pointers.data();
}

bool UserObject::release(uint32_t count) {
    uint32_t now = m_references.load();
    do {
        if (count > now) return false;
    } while (!m_references.compare_exchange_weak(now, now - count));
    if (now == count) {
        process().user_objects.remove(m_handle);
        Scheduler::instance().submit_free([destroy = m_destroy, object = m_object] { destroy(object); }, {}, 0);
    }
    return true;
}

void UserObjectReferences::clear() {
    for (const auto& [object, count] : m_counts) object->release(count);
    m_counts.clear();
}

bool UserObjectReferences::remove(const std::shared_ptr<UserObject>& object, uint32_t count) {
    auto found = m_counts.find(object);
    if (found == m_counts.end() || found->second < count) return false;
    found->second -= count;
    if (found->second == 0) m_counts.erase(found);
    return object->release(count);
}

void UserObjectReferences::copy_to(UserObjectReferences& other) const {
    for (const auto& [object, count] : m_counts) {
        object->retain(count);
        other.add(object, count);
    }
}

UserObjectsPtr UserObjectReferences::copy() const {
    if (m_counts.empty()) return nullptr;
    auto other = std::make_shared<UserObjectReferences>();
    copy_to(*other);
    return other;
}

unsigned int next_graph_id() {
    static std::atomic<unsigned int> s_last{0};
    return ++s_last;
}

GraphPtr Graph::create(bool belongs_to_node) {
    GraphPtr graph(new Graph);
    graph->m_belongs_to_node = belongs_to_node;
    graph->m_handle = process().graphs.add(graph);
    return graph;
}

Graph::~Graph() = default;

bool Graph::may_use(const Conditional* conditional) const {
    for (const auto& own : conditionals) {
        if (own.get() == conditional) return true;
    }
    const auto outer = m_outer.lock();
    return outer != nullptr && outer->may_use(conditional);
}

CUresult Graph::add(NodeBody body, std::shared_ptr<Context> context, const std::vector<GraphEdge>& dependencies,
                    NodePtr& node) {
    for (size_t i = 0; i < dependencies.size(); ++i) {
        if (dependencies[i].node->graph != this) return CUDA_ERROR_INVALID_VALUE;
        for (size_t k = 0; k < i; ++k) {
            if (dependencies[k].node == dependencies[i].node) return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (const auto* free = std::get_if<MemoryFreeOperation>(&body); free != nullptr && frees(m_nodes, free->address)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    node = std::make_shared<GraphNode>(*this, std::move(body), std::move(context));
    node->set_handle(process().nodes.add(node));
    node->local_id = m_next_node++;
    m_nodes.push_back(node);
    for (const GraphEdge& edge : dependencies) {
        node->dependencies.push_back(edge);
        edge.node->dependents.push_back({node.get(), edge.data});
    }
    return CUDA_SUCCESS;
}

CUresult Graph::add_dependency(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data) {
    if (from.graph != this || to.graph != this || &from == &to) return CUDA_ERROR_INVALID_VALUE;
    if (has_edge(to.dependencies, &from)) return CUDA_ERROR_INVALID_VALUE;
    to.dependencies.push_back({&from, data});
    from.dependents.push_back({&to, data});
    return CUDA_SUCCESS;
}

CUresult Graph::remove_dependency(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data) {
    if (from.graph != this || to.graph != this) return CUDA_ERROR_INVALID_VALUE;
    if (has_memory()) return CUDA_ERROR_NOT_SUPPORTED;
    auto matches = [&data](const GraphNode& node) {
        return [&data, &node](const GraphEdge& edge) { return edge.node == &node && same(edge.data, data); };
    };
    if (std::erase_if(to.dependencies, matches(from)) == 0) return CUDA_ERROR_INVALID_VALUE;
    std::erase_if(from.dependents, matches(to));
    return CUDA_SUCCESS;
}

void Graph::remove(GraphNode& node) {
    auto to = [&node](const GraphEdge& edge) { return edge.node == &node; };
    for (const GraphEdge& edge : node.dependencies) std::erase_if(edge.node->dependents, to);
    for (const GraphEdge& edge : node.dependents) std::erase_if(edge.node->dependencies, to);
    forget_inner(node.body);
    process().nodes.remove(node.handle());
    std::erase_if(m_nodes, [&node](const NodePtr& other) { return other.get() == &node; });
}

bool Graph::has_memory() const {
    return std::any_of(m_nodes.begin(), m_nodes.end(), [](const NodePtr& node) {
        return node->type() == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type() == CU_GRAPH_NODE_TYPE_MEM_FREE;
    });
}

CUresult Graph::clone(bool for_node, GraphPtr& copy) const {
    copy = create(for_node);
    copy->m_is_child = for_node;
    std::map<const GraphNode*, GraphNode*> copies;
    for (const NodePtr& node : m_nodes) {
        // "Cloning is not supported for graphs which contain memory allocation nodes, memory free nodes, or conditional nodes"
        // (CUDA Driver API, cuGraphClone).
        CUgraphNodeType type = node->type();
        if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
            type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
            copy->forget();
            return CUDA_ERROR_NOT_SUPPORTED;
        }
        NodeBody body = node->body;
        CU_TRY(clone_inner(body));
        NodePtr made;
        CU_TRY(copy->add(std::move(body), node->context, {}, made));
        made->cloned_from = reinterpret_cast<uint64_t>(node->handle());
        copies[node.get()] = made.get();
    }
    for (const NodePtr& node : m_nodes) {
        for (const GraphEdge& edge : node->dependencies) {
            CU_TRY(copy->add_dependency(*copies[edge.node], *copies[node.get()], edge.data));
        }
    }
    user_objects.copy_to(copy->user_objects);
    return CUDA_SUCCESS;
}

bool Graph::sorted(std::vector<GraphNode*>& order) const {
    std::map<const GraphNode*, size_t> waiting;
    std::vector<GraphNode*> ready;
    for (const NodePtr& node : m_nodes) {
        waiting[node.get()] = node->dependencies.size();
        if (node->dependencies.empty()) ready.push_back(node.get());
    }
    order.clear();
    for (size_t next = 0; next < ready.size(); ++next) {
        GraphNode* node = ready[next];
        order.push_back(node);
        for (const GraphEdge& edge : node->dependents) {
            if (--waiting[edge.node] == 0) ready.push_back(edge.node);
        }
    }
    return order.size() == m_nodes.size();
}

void Graph::forget() {
    process().graphs.remove(m_handle);
    user_objects.clear();
    for (const NodePtr& node : m_nodes) {
        process().nodes.remove(node->handle());
        forget_inner(node->body);
    }
}

CUresult find_graph(CUgraph handle, GraphPtr& graph) {
    graph = process().graphs.find(handle);
    return graph != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult find_node(CUgraphNode handle, NodePtr& node) {
    node = process().nodes.find(handle);
    return node != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace warpline::softgpu::driver
