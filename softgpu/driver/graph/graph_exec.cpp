// Instantiates and launches graphs.
#include "softgpu/driver/graph/graph_exec.h"

#include <algorithm>
#include <map>
#include <set>

#include "softgpu/driver/code/module.h"
#include "softgpu/driver/context/event.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

constexpr uint64_t k_known_instantiate_flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                               CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                               CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

void wait_all(const std::vector<FencePtr>& fences) {
    for (const FencePtr& fence : fences) fence->wait();
}

/// Runs what a conditional node decides, until it is done. On a thread of the pool, which may block.
void run_conditional(const ConditionalOperation& operation, const std::vector<std::shared_ptr<GraphExec>>& bodies,
                     Context& context, int priority) {
    auto run = [&](size_t body) { wait_all(bodies[body]->submit({}, priority)); };
    switch (operation.type) {
        case CU_GRAPH_COND_TYPE_IF:
            if (operation.conditional->value() != 0) {
                run(0);
            } else if (bodies.size() > 1) {
                run(1);
            }
            break;
        case CU_GRAPH_COND_TYPE_WHILE:
            while (operation.conditional->value() != 0 && context.sticky() == CUDA_SUCCESS) run(0);
            break;
        default:
            if (operation.conditional->value() < bodies.size()) run(operation.conditional->value());
            break;
    }
}

/// What is not sorted comes after a cycle, or is in one: that is where its dependencies lead back to.
CUgraphNode node_of_cycle(const Graph& graph, const std::vector<GraphNode*>& sorted) {
    const std::set<const GraphNode*> fine(sorted.begin(), sorted.end());
    const auto is_fine = [&fine](const GraphNode* node) { return fine.count(node) != 0; };
    const GraphNode* at = nullptr;
    for (const NodePtr& node : graph.nodes()) {
        if (at == nullptr && !is_fine(node.get())) at = node.get();
    }
    for (size_t step = 0; at != nullptr && step < graph.nodes().size(); ++step) {
        for (const GraphEdge& edge : at->dependencies) {
            if (is_fine(edge.node)) continue;
            at = edge.node;
            break;
        }
    }
    return at != nullptr ? at->handle() : nullptr;
}

CUresult make_inner(NodeBody& body, uint64_t flags, ExecNode& node, GraphExec::Failure& failure) {
    auto add = [&](const GraphPtr& graph) {
        std::shared_ptr<GraphExec> exec;
        CU_TRY(GraphExec::create(*graph, flags, exec, failure));
        node.inner.push_back(std::move(exec));
        return CUDA_SUCCESS;
    };
    if (auto* child = std::get_if<ChildGraphOperation>(&body)) CU_TRY(add(child->graph));
    if (auto* conditional = std::get_if<ConditionalOperation>(&body)) {
        for (const GraphPtr& graph : conditional->bodies) CU_TRY(add(graph));
    }
    return CUDA_SUCCESS;
}

/// The work of a node, or nothing if its place in the order is all there is to it.
std::function<void()> work_of(const ExecNode& node, int priority) {
    auto context = node.context;
    auto guarded = [context](auto run) {
        return [context, run = std::move(run)] {
            if (context->sticky() == CUDA_SUCCESS) run();
        };
    };
    if (const auto* kernel = std::get_if<KernelOperation>(&node.body)) {
        return guarded([context, copy = std::make_shared<const KernelOperation>(*kernel)] { execute(*context, *copy, 0); });
    }
    if (const auto* copy = std::get_if<CopyOperation>(&node.body))
        return guarded([context, op = *copy] { execute(*context, op); });
    if (const auto* memset = std::get_if<MemsetOperation>(&node.body))
        return guarded([context, op = *memset] { execute(*context, op); });
    if (const auto* batch = std::get_if<BatchMemoryOperation>(&node.body))
        return guarded([context, op = *batch] { execute(*context, op); });
    if (const auto* host = std::get_if<HostOperation>(&node.body)) return [context, op = *host] { execute(*context, op); };
    if (const auto* conditional = std::get_if<ConditionalOperation>(&node.body)) {
        return guarded(
            [context, op = *conditional, inner = node.inner, priority] { run_conditional(op, inner, *context, priority); });
    }
    // Frees are among them: graphs' memory is accounted for when the launch is made, and stays.
    return {};
}

}  // namespace

CUresult GraphExec::create(const Graph& graph, uint64_t flags, std::shared_ptr<GraphExec>& exec, Failure& failure) {
    if ((flags & ~k_known_instantiate_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
        failure.result = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    std::vector<GraphNode*> order;
    if (!graph.sorted(order)) {
        // cuda.h: "hErrNode_out will be set to one of the offending nodes."
        failure = {node_of_cycle(graph, order), CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE};
        return CUDA_ERROR_INVALID_VALUE;
    }
    exec.reset(new GraphExec);
    MutexLock lock(exec->m_mutex);
    exec->m_flags = flags;
    exec->m_conditionals = graph.conditionals;
    exec->m_user_objects = graph.user_objects.copy();
    std::map<const GraphNode*, size_t> places;
    for (GraphNode* node : order) {
        ExecNode made;
        made.source = reinterpret_cast<uint64_t>(node->handle());
        made.body = node->body;
        made.context = node->context;
        failure.node = node->handle();
        CU_TRY(make_inner(made.body, flags, made, failure));
        for (const GraphEdge& edge : node->dependencies) {
            made.dependencies.push_back(places[edge.node]);
            exec->m_nodes[places[edge.node]].is_leaf = false;
        }
        places[node] = exec->m_nodes.size();
        exec->m_nodes.push_back(std::move(made));
    }
    for (const NodePtr& node : graph.nodes()) {
        if (node->dependents.empty()) exec->m_exits.push_back(places[node.get()]);
    }
    failure = {nullptr, CUDA_GRAPH_INSTANTIATE_SUCCESS};
    return CUDA_SUCCESS;
}

GraphExec::~GraphExec() = default;

ExecNode* GraphExec::find(uint64_t source) {
    for (ExecNode& node : m_nodes) {
        if (node.source == source) return &node;
    }
    for (ExecNode& node : m_nodes) {
        for (const auto& inner : node.inner) {
            MutexLock lock(inner->m_mutex);
            if (ExecNode* found = inner->find(source)) return found;
        }
    }
    return nullptr;
}

CUresult GraphExec::account_for_memory() {
    bool auto_free = (m_flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
    for (const ExecNode& node : m_nodes) {
        const auto* alloc = std::get_if<MemoryAllocOperation>(&node.body);
        if (alloc != nullptr && alloc->memory->live() && !auto_free) return CUDA_ERROR_INVALID_VALUE;
    }
    for (const ExecNode& node : m_nodes) {
        if (std::holds_alternative<ChildGraphOperation>(node.body)) {
            MutexLock lock(node.inner.front()->m_mutex);
            CU_TRY(node.inner.front()->account_for_memory());
        }
        if (const auto* alloc = std::get_if<MemoryAllocOperation>(&node.body)) alloc->memory->set_live(true);
        const auto* free = std::get_if<MemoryFreeOperation>(&node.body);
        if (free == nullptr) continue;
        if (auto memory = GraphMemory::find(free->address)) memory->set_live(false);
    }
    return CUDA_SUCCESS;
}

CUresult GraphExec::check_memory() const {
    for (const ExecNode& node : m_nodes) {
        if (const auto* batch = std::get_if<BatchMemoryOperation>(&node.body)) CU_TRY(check_operated_memory(batch->operations));
        if (!std::holds_alternative<ChildGraphOperation>(node.body)) continue;
        MutexLock lock(node.inner.front()->m_mutex);
        CU_TRY(node.inner.front()->check_memory());
    }
    return CUDA_SUCCESS;
}

void GraphExec::collect_memory(std::vector<std::shared_ptr<GraphMemory>>& memory) const {
    MutexLock lock(m_mutex);
    for (const ExecNode& node : m_nodes) {
        if (const auto* alloc = std::get_if<MemoryAllocOperation>(&node.body)) memory.push_back(alloc->memory);
        if (const auto* free = std::get_if<MemoryFreeOperation>(&node.body)) {
            if (auto freed = GraphMemory::find(free->address)) memory.push_back(std::move(freed));
        }
        for (const auto& inner : node.inner) inner->collect_memory(memory);
    }
}

void GraphExec::collect_user_objects(std::vector<UserObjectsPtr>& objects) const {
    MutexLock lock(m_mutex);
    if (m_user_objects != nullptr) objects.push_back(m_user_objects);
    for (const ExecNode& node : m_nodes) {
        for (const auto& inner : node.inner) inner->collect_user_objects(objects);
    }
}

FencePtr GraphExec::submit_node(const ExecNode& node, std::span<const FencePtr> after, int priority) {
    Scheduler& scheduler = Scheduler::instance();
    if (!node.enabled) return scheduler.submit_free({}, after, priority);
    if (const auto* record = std::get_if<EventRecordOperation>(&node.body)) {
        FencePtr fence;
        record->event->record([&](std::function<void()> end) {
            fence = scheduler.submit_free(std::move(end), after, priority);
            return fence;
        });
        return fence;
    }
    if (const auto* wait = std::get_if<EventWaitOperation>(&node.body)) {
        std::vector<FencePtr> all(after.begin(), after.end());
        Recorded recorded = wait->event->last();
        if (recorded.done()) return scheduler.submit_free({}, all, priority);
        all.push_back(recorded.fence);
        return scheduler.submit_free(recorded.check_for(node.context), all, priority);
    }
    if (std::holds_alternative<ChildGraphOperation>(node.body)) {
        return scheduler.submit_free({}, node.inner.front()->submit(after, priority), priority);
    }
    return scheduler.submit_free(work_of(node, priority), after, priority);
}

std::vector<FencePtr> GraphExec::submit(std::span<const FencePtr> after, int priority) {
    MutexLock lock(m_mutex);
    std::vector<FencePtr> before(after.begin(), after.end());
    if (!m_conditionals.empty()) {
        before = {Scheduler::instance().submit_free(
            [conditionals = m_conditionals] {
                for (const auto& conditional : conditionals) conditional->launch_started();
            },
            after, priority)};
    }
    std::vector<FencePtr> fences, leaves;
    fences.reserve(m_nodes.size());
    for (const ExecNode& node : m_nodes) {
        std::vector<FencePtr> dependencies;
        for (size_t place : node.dependencies) dependencies.push_back(fences[place]);
        fences.push_back(submit_node(node, node.dependencies.empty() ? before : dependencies, priority));
        if (node.is_leaf) leaves.push_back(fences.back());
    }
    if (leaves.empty()) return before;
    return leaves;
}

CUresult GraphExec::launch(Stream& stream) {
    FencePtr previous;
    // The graphs may end while the launch goes on, and what it frees is free for the program from now on.
    std::vector<std::shared_ptr<GraphMemory>> memory;
    collect_memory(memory);
    {
        MutexLock lock(m_mutex);
        previous = m_last;
        CU_TRY(check_memory());
        CU_TRY(account_for_memory());
    }
    std::vector<FencePtr> after;
    if (previous != nullptr && !previous->done()) after.push_back(previous);
    stream.wait_for_room();
    std::vector<FencePtr> start = {stream.submit_always({}, after)};
    std::vector<FencePtr> leaves = submit(start, stream.priority());
    std::vector<UserObjectsPtr> objects;
    collect_user_objects(objects);
    std::function<void()> let_go;
    if (!objects.empty() || !memory.empty()) {
        let_go = [objects = std::move(objects), memory = std::move(memory)]() mutable {
            objects.clear();
            memory.clear();
        };
    }
    FencePtr end = stream.submit_always(std::move(let_go), leaves);
    MutexLock lock(m_mutex);
    m_last = std::move(end);
    return CUDA_SUCCESS;
}

CUresult find_exec(CUgraphExec handle, ExecPtr& exec) {
    exec = process().graph_execs.find(handle);
    return exec != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace warpline::softgpu::driver
