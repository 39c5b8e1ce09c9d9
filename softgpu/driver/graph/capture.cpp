// Captures: how calls become nodes, and what must not be called meanwhile.
#include "softgpu/driver/graph/capture.h"

#include <algorithm>

#include "softgpu/driver/context/green_context.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/memory/memory_pool.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

std::atomic<uint64_t> next_capture_id{1};

/// Captures that are going on, for the calls that must not be made meanwhile.
struct Running {
    Mutex mutex;
    std::vector<std::shared_ptr<Capture>> captures WL_GUARDED_BY(mutex);
    std::atomic<size_t> count{0};  // looked at before the mutex is taken
};

Running& running() {
    static auto* made = new Running;  // leaked on purpose: calls come after static destructors
    return *made;
}

bool has_node(const std::vector<GraphEdge>& edges, const GraphNode* node) {
    return std::any_of(edges.begin(), edges.end(), [node](const GraphEdge& edge) { return edge.node == node; });
}

void merge(std::vector<GraphEdge>& into, const std::vector<GraphEdge>& more) {
    for (const GraphEdge& edge : more) {
        if (!has_node(into, edge.node)) into.push_back(edge);
    }
}

std::vector<GraphEdge> edges_of(const std::vector<Event::CapturedAfter>& nodes) {
    std::vector<GraphEdge> edges;
    for (const auto& [node, edge] : nodes) edges.push_back({node.get(), edge});
    return edges;
}

/// Invalidates the captures that a call of this thread would disturb. @param legacy  the legacy default stream that it uses
bool disturb(const Stream* legacy) {
    Running& all = running();
    if (all.count.load() == 0) return false;
    ThreadState& thread = thread_state();
    bool disturbed = false;
    MutexLock lock(all.mutex);
    for (const auto& capture : all.captures) {
        bool mine = capture->thread() == thread.number;
        bool concerned = false;
        if (legacy != nullptr) {
            concerned = capture->captures_blocking_stream(*legacy);
        } else if (thread.capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
            concerned = mine && capture->mode() != CU_STREAM_CAPTURE_MODE_RELAXED;
            bool global = thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
            concerned = concerned || (global && capture->mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
        }
        if (!concerned) continue;
        capture->invalidate();
        disturbed = true;
    }
    return disturbed;
}

/// A stream that is destroyed takes no further part, and the capture that it began is over.
void abandon_capture(Stream& stream) {
    std::shared_ptr<Capture> capture = stream.capture();
    if (capture == nullptr) return;
    // What the stream did stays captured: if the first stream has not waited for it, the end says so.
    capture->leave(stream);
    stream.set_capture(nullptr, nullptr);
    if (capture->origin() == &stream) capture->abandon();
}

}  // namespace

Capture::Capture(GraphPtr graph, bool own_graph, CUstreamCaptureMode mode)
    : m_graph(std::move(graph)),
      m_own_graph(own_graph),
      m_mode(mode),
      m_id(next_capture_id++),
      m_thread(thread_state().number) {}

CUresult Capture::begin(const StreamPtr& stream, GraphPtr graph, std::vector<GraphEdge> after, CUstreamCaptureMode mode) {
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    if (stream->kind() == QueueKind::legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture() != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    bool own = graph == nullptr;
    if (own) graph = Graph::create(false);
    std::shared_ptr<Capture> capture(new Capture(std::move(graph), own, mode));
    capture->m_origin = stream.get();
    capture->join(stream, after);
    Running& all = running();
    MutexLock lock(all.mutex);
    all.captures.push_back(std::move(capture));
    all.count = all.captures.size();
    return CUDA_SUCCESS;
}

bool Capture::joined(const Stream& origin) const {
    MutexLock lock(m_mutex);
    auto last = m_branches.find(&origin);
    for (const auto& added : m_added) {
        NodePtr node = added.lock();
        if (node == nullptr || !node->dependents.empty()) continue;
        if (last == m_branches.end() || !has_node(last->second.after, node.get())) return false;
    }
    return true;
}

CUresult Capture::end(Stream& stream, GraphPtr& graph) {
    graph = nullptr;
    std::shared_ptr<Capture> capture = stream.capture();
    if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->m_origin != &stream) {
        capture->invalidate();  // DB-39
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    CUresult result = CUDA_SUCCESS;
    if (!capture->joined(stream)) result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (capture->invalidated()) result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    // It is over all the same (DB-39).
    const bool own_thread = capture->m_thread == thread_state().number;
    if (capture->m_mode != CU_STREAM_CAPTURE_MODE_RELAXED && !own_thread) result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    capture->finish();
    if (result == CUDA_SUCCESS) {
        graph = capture->m_graph;
    } else if (capture->m_own_graph) {
        capture->m_graph->forget();
    }
    return result;
}

void Capture::finish() {
    std::vector<StreamPtr> streams;
    {
        MutexLock lock(m_mutex);
        for (auto& [key, branch] : m_branches) {
            if (auto alive = branch.stream.lock()) streams.push_back(std::move(alive));
        }
        m_branches.clear();
        m_ended = true;
    }
    for (const StreamPtr& taking_part : streams) taking_part->set_capture(nullptr, nullptr);
    Running& all = running();
    MutexLock lock(all.mutex);
    std::erase_if(all.captures, [this](const auto& other) { return other.get() == this; });
    all.count = all.captures.size();
}

void Capture::abandon() {
    invalidate();
    finish();
    if (m_own_graph) m_graph->forget();
}

CUresult Capture::add(Stream& stream, NodeBody body) {
    if (invalidated()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    MutexLock lock(m_mutex);
    Branch& branch = m_branches[&stream];
    NodePtr node;
    CU_TRY(m_graph->add(std::move(body), stream.context_ptr(), branch.after, node));
    branch.after = {{node.get(), {}}};
    m_added.push_back(node);
    return CUDA_SUCCESS;
}

std::vector<GraphEdge> Capture::next_after(const Stream& stream) const {
    MutexLock lock(m_mutex);
    auto branch = m_branches.find(&stream);
    return branch != m_branches.end() ? branch->second.after : std::vector<GraphEdge>();
}

void Capture::set_next_after(const Stream& stream, std::vector<GraphEdge> after) {
    MutexLock lock(m_mutex);
    Branch& branch = m_branches[&stream];
    std::erase_if(m_added, [&](const auto& added) {
        NodePtr node = added.lock();
        return node == nullptr || (has_node(branch.after, node.get()) && !has_node(after, node.get()));
    });
    branch.after = std::move(after);
}

void Capture::join(const StreamPtr& stream, const std::vector<GraphEdge>& after) {
    {
        MutexLock lock(m_mutex);
        Branch& branch = m_branches[stream.get()];
        branch.stream = stream;
        merge(branch.after, after);
    }
    stream->set_capture(shared_from_this(), &abandon_capture);
}

void Capture::leave(const Stream& stream) {
    MutexLock lock(m_mutex);
    m_branches.erase(&stream);
}

Capture::Shown& Capture::shown(const Stream& stream) {
    MutexLock lock(m_mutex);
    Branch& branch = m_branches[&stream];
    branch.shown.nodes.clear();
    branch.shown.edges.clear();
    for (const GraphEdge& edge : branch.after) {
        branch.shown.nodes.push_back(edge.node->handle());
        branch.shown.edges.push_back(edge.data);
    }
    return branch.shown;
}

bool Capture::captures_stream_of(const Context& context) const {
    MutexLock lock(m_mutex);
    return std::any_of(m_branches.begin(), m_branches.end(),
                       [&context](const auto& entry) { return &entry.first->context() == &context; });
}

bool Capture::captures_blocking_stream(const Stream& legacy) const {
    MutexLock lock(m_mutex);
    return std::any_of(m_branches.begin(), m_branches.end(), [&legacy](const auto& entry) {
        return entry.first->same_scope(legacy) && entry.first->kind() == QueueKind::blocking;
    });
}

bool Capture::captures_on(const Device& device) const {
    MutexLock lock(m_mutex);
    return std::any_of(m_branches.begin(), m_branches.end(),
                       [&device](const auto& entry) { return &entry.first->context().device() == &device; });
}

CUresult check_unsafe_call() { return disturb(nullptr) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS; }

CUresult check_device_wait(const Device& device) {
    Running& all = running();
    if (all.count.load() == 0) return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    MutexLock lock(all.mutex);
    for (const auto& capture : all.captures) {
        if (!capture->captures_on(device)) continue;
        capture->invalidate();
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

bool legacy_stream_blocked(const Stream& legacy) {
    Running& all = running();
    if (all.count.load() == 0) return false;
    MutexLock lock(all.mutex);
    return std::any_of(all.captures.begin(), all.captures.end(),
                       [&legacy](const auto& capture) { return capture->captures_blocking_stream(legacy); });
}

CUresult check_not_capturing(Stream& stream) {
    std::shared_ptr<Capture> capture;
    CU_TRY(capture_of(stream, capture));
    if (capture == nullptr) return CUDA_SUCCESS;
    capture->invalidate();
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult check_wait_for_stream(Stream& stream) {
    CU_TRY(check_not_capturing(stream));
    return check_unsafe_call();
}

CUresult check_context_not_capturing(const Context& context) {
    Running& all = running();
    if (all.count.load() == 0) return CUDA_SUCCESS;
    bool disturbed = false;
    MutexLock lock(all.mutex);
    for (const auto& capture : all.captures) {
        if (!capture->captures_stream_of(context)) continue;
        capture->invalidate();
        disturbed = true;
    }
    return disturbed ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult check_green_not_capturing(const GreenContext& green) {
    CUresult result = CUDA_SUCCESS;
    for (const StreamPtr& stream : green.streams()) {
        auto capture = stream->capture();
        if (capture == nullptr) continue;
        capture->invalidate();
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

CUresult check_no_place_in_graph(const Event& event) {
    std::shared_ptr<Capture> capture = event.capture(nullptr);
    if (capture == nullptr) return CUDA_SUCCESS;
    return capture->ended() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_CAPTURED_EVENT;  // DB-53
}

CUresult check_wait_for_event(const Event& event) {
    if (std::shared_ptr<Capture> capture = event.capture(nullptr)) capture->invalidate();  // nothing to one that has ended
    CU_TRY(check_no_place_in_graph(event));
    return check_unsafe_call();
}

CUresult check_event_not_captured(const Event& event) {
    std::shared_ptr<Capture> capture = event.capture(nullptr);
    if (capture == nullptr || capture->ended()) return CUDA_SUCCESS;
    capture->invalidate();
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_of(Stream& stream, std::shared_ptr<Capture>& capture) {
    if (stream.kind() == QueueKind::legacy) {
        return disturb(&stream) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
    }
    capture = stream.capture();
    if (capture == nullptr) return CUDA_SUCCESS;
    return capture->invalidated() ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

bool is_being_captured(const Graph& graph) {
    Running& all = running();
    if (all.count.load() == 0) return false;
    MutexLock lock(all.mutex);
    return std::any_of(all.captures.begin(), all.captures.end(),
                       [&graph](const auto& capture) { return capture->graph().get() == &graph; });
}

CUresult record_event(Stream& stream, const EventPtr& event, CUevent handle, bool external) {
    std::shared_ptr<Capture> capture;
    CU_TRY(capture_of(stream, capture));
    // cuda.h of CU_EVENT_RECORD_EXTERNAL, and of CU_EVENT_WAIT_EXTERNAL: "This flag is invalid when used outside of capture."
    if (external && capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;  // DB-54
    if (capture == nullptr) {
        stream.wait_for_room();
        event->record([&stream](std::function<void()> end) { return stream.submit_always(std::move(end)); });
        return CUDA_SUCCESS;
    }
    if (external) return capture->add(stream, EventRecordOperation{event, handle});
    std::vector<Event::CapturedAfter> after;
    for (const GraphEdge& edge : capture->next_after(stream)) after.push_back({edge.node->shared_from_this(), edge.data});
    event->record_captured(capture, std::move(after));
    return CUDA_SUCCESS;
}

CUresult wait_for_event(const StreamPtr& stream, const EventPtr& event, CUevent handle, bool external) {
    std::shared_ptr<Capture> capture;
    CU_TRY(capture_of(*stream, capture));
    if (external && capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    std::vector<Event::CapturedAfter> after;
    std::shared_ptr<Capture> recorded_in = event->capture(&after);
    if (recorded_in != nullptr && recorded_in->ended()) {  // DB-53
        if (capture != nullptr) capture->invalidate();
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (external) return capture->add(*stream, EventWaitOperation{event, handle});
    if (recorded_in == nullptr) {
        if (capture != nullptr) {
            capture->invalidate();
            return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        }
        Recorded recorded = event->last();
        if (recorded.done()) return CUDA_SUCCESS;
        stream->submit_always(recorded.check_for(stream->context_ptr()), std::span(&recorded.fence, 1));
        return CUDA_SUCCESS;
    }
    if (capture != nullptr && capture != recorded_in) {
        capture->invalidate();
        recorded_in->invalidate();
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (recorded_in->invalidated()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->kind() == QueueKind::legacy) {
        recorded_in->invalidate();
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    recorded_in->join(stream, edges_of(after));
    return CUDA_SUCCESS;
}

CUresult capture_allocation(Stream& stream, MemoryPool& pool, size_t bytes, CUdeviceptr* out) {
    std::shared_ptr<Capture> capture;
    CU_TRY(capture_of(stream, capture));
    if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    MemoryAllocOperation operation;
    operation.access = pool.access_of_others();
    operation.memory = GraphMemory::create(pool.device(), bytes, operation.access);
    if (operation.memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    operation.params.poolProps = pool.properties();
    operation.params.bytesize = bytes;
    operation.params.dptr = operation.memory->address();
    CUdeviceptr address = operation.params.dptr;
    CU_TRY(capture->add(stream, std::move(operation)));
    *out = address;
    return CUDA_SUCCESS;
}

CUresult capture_free(Stream& stream, CUdeviceptr address) {
    std::shared_ptr<Capture> capture;
    CU_TRY(capture_of(stream, capture));
    if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    if (GraphMemory::find(address) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return capture->add(stream, MemoryFreeOperation{address});
}

}  // namespace warpline::softgpu::driver
