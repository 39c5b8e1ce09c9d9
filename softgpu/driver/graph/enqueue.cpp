// Operations become nodes of a capture, or work of their stream.
#include "softgpu/driver/graph/enqueue.h"

#include <span>

#include "softgpu/driver/context/event.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// An event that a launch records, and the port of the kernel's node that it stands for in a graph.
struct LaunchEvent {
    EventPtr event;
    unsigned char port;
};

std::vector<LaunchEvent> events_of(std::span<const CUlaunchAttribute> attributes) {
    std::vector<LaunchEvent> events;
    for (const CUlaunchAttribute& attribute : attributes) {
        CUevent handle = nullptr;
        unsigned char port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
            handle = attribute.value.programmaticEvent.event;
            // cuda.h: "A trigger can also be inserted at the beginning of each block's execution if triggerAtBlockStart is
            // set to non-0."
            if (attribute.value.programmaticEvent.triggerAtBlockStart != 0) port = CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
        } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
            handle = attribute.value.launchCompletionEvent.event;
            port = CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
        }
        if (handle == nullptr) continue;
        if (auto event = process().events.find(handle)) events.push_back({std::move(event), port});
    }
    return events;
}

void record_events(const KernelOperation& operation, Stream& stream) {
    auto submit = [&stream](std::function<void()> end) { return stream.submit_always(std::move(end)); };
    for (const LaunchEvent& recorded : events_of(operation.attributes)) recorded.event->record(submit);
}

/// The node that the launch has become is the only one that the stream comes after.
void record_captured_events(const std::vector<LaunchEvent>& events, const std::shared_ptr<Capture>& capture,
                            const Stream& stream) {
    for (const auto& [event, port] : events) {
        std::vector<Event::CapturedAfter> after;
        CUgraphEdgeData edge{};
        edge.from_port = port;
        edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
        for (const GraphEdge& last : capture->next_after(stream)) after.push_back({last.node->shared_from_this(), edge});
        event->record_captured(capture, std::move(after));
    }
}

bool is_host_visible(CUdeviceptr address) {
    const AllocationPtr allocation = process().addresses.find(address);
    return allocation != nullptr && (allocation->on_host() || allocation->kind == MemoryKind::managed);
}

}  // namespace

CUresult enqueue(Stream& stream, KernelOperation operation) {
    std::shared_ptr<Capture> capture;
    CU_TRY(capture_of(stream, capture));
    if (capture != nullptr) {
        const std::vector<LaunchEvent> events = events_of(operation.attributes);
        CU_TRY(capture->add(stream, std::move(operation)));
        record_captured_events(events, capture, stream);
        return CUDA_SUCCESS;
    }
    auto context = stream.context_ptr();
    if (!context->device().config().execute) {
        // What is left of a kernel in dry mode is its turn.
        stream.mark();
        if (!operation.attributes.empty()) record_events(operation, stream);
        return CUDA_SUCCESS;
    }
    auto shared = std::make_shared<const KernelOperation>(std::move(operation));
    stream.submit([context, shared, id = stream.id()] { execute(*context, *shared, id); });
    if (!shared->attributes.empty()) record_events(*shared, stream);
    return CUDA_SUCCESS;
}

CUresult enqueue(Stream& stream, MemsetOperation operation, CopyMode mode) {
    std::shared_ptr<Capture> capture;
    CU_TRY(capture_of(stream, capture));
    if (capture != nullptr) return capture->add(stream, operation);
    const auto waits = [&](CUdeviceptr at) {
        return is_host_visible(at) || always_waits(stream, reinterpret_cast<const void*>(at));
    };
    if (mode == CopyMode::synchronous && waits(operation.params.dst)) {
        stream.submit_and_wait([&] { execute(stream.context(), operation); });
        return CUDA_SUCCESS;
    }
    stream.submit([context = stream.context_ptr(), operation] { execute(*context, operation); });
    return CUDA_SUCCESS;
}

CUresult enqueue(Stream& stream, HostOperation operation) {
    std::shared_ptr<Capture> capture;
    CU_TRY(capture_of(stream, capture));
    if (capture != nullptr) return capture->add(stream, operation);
    stream.context().gate().pass_to_make();
    stream.wait_for_room();
    stream.submit_always([context = stream.context_ptr(), operation] { execute(*context, operation); });
    return CUDA_SUCCESS;
}

CUresult enqueue(Stream& stream, BatchMemoryOperation operation) {
    std::shared_ptr<Capture> capture;
    CU_TRY(capture_of(stream, capture));
    if (capture != nullptr) return capture->add(stream, std::move(operation));
    stream.submit([context = stream.context_ptr(), operation = std::move(operation)] { execute(*context, operation); });
    return CUDA_SUCCESS;
}

namespace {

/// Copies may be given to the streams of any device, kernels to those of the current one.
CUresult check_device(const Stream& stream) {
    Context* current = nullptr;
    if (current_context_even_failed(current) != CUDA_SUCCESS) return CUDA_SUCCESS;
    return &current->device() == &stream.context().device() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

CUresult enqueue_launch(const LaunchRequest& request, CUstream handle) {
    StreamPtr stream;
    CU_TRY(find_stream(handle, stream));
    CU_TRY(check_device(*stream));
    KernelOperation operation;
    operation.green = stream->green();
    CU_TRY(make_kernel(stream->context(), request, operation));
    return enqueue(*stream, std::move(operation));
}

}  // namespace warpline::softgpu::driver
