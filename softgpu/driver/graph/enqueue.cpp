// Operations become nodes of a capture, or work of their stream.
#include "softgpu/driver/graph/enqueue.h"

#include "softgpu/driver/context/event.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

void record_events(const KernelOperation& operation, Stream& stream) {
    for (const CUlaunchAttribute& attribute : operation.attributes) {
        CUevent handle = nullptr;
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) handle = attribute.value.programmaticEvent.event;
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) handle = attribute.value.launchCompletionEvent.event;
        if (handle == nullptr) continue;
        auto submit = [&stream](std::function<void()> end) { return stream.submit_always(std::move(end)); };
        if (auto event = process().events.find(handle)) event->record(submit);
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
    if (capture != nullptr) return capture->add(stream, std::move(operation));
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
    const bool waits =
        is_host_visible(operation.params.dst) || always_waits(stream, reinterpret_cast<const void*>(operation.params.dst));
    if (mode == CopyMode::synchronous && waits) {
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

}  // namespace warpline::softgpu::driver
