// Events: making, recording and asking them.
#include "softgpu/driver/context/event.h"

#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

constexpr unsigned int k_flags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

CUresult record(CUevent handle, CUstream stream_handle, unsigned int flags) {
    if ((flags & ~static_cast<unsigned int>(CU_EVENT_RECORD_EXTERNAL)) != 0) return CUDA_ERROR_INVALID_VALUE;
    StreamPtr stream;
    CU_TRY(find_stream(stream_handle, stream));
    EventPtr event;
    CU_TRY(find_event(handle, event));
    if (event->context().get() != &stream->context()) return CUDA_ERROR_INVALID_HANDLE;
    return record_event(*stream, event, handle, (flags & CU_EVENT_RECORD_EXTERNAL) != 0);
}

}  // namespace

CUresult cuEventCreate(CUevent* phEvent, unsigned int Flags) {
    if (phEvent == nullptr || (Flags & ~k_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((Flags & CU_EVENT_INTERPROCESS) != 0 && (Flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    context->gate().pass_to_make();
    SharedEventPtr shared;
    if ((Flags & CU_EVENT_INTERPROCESS) != 0) {
        shared = SharedEvent::create(context->device().as_owner());
        if (shared == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    auto event = std::make_shared<Event>(context->shared_from_this(), Flags, std::move(shared));
    *phEvent = as_handle<CUevent>(process().events.add(std::move(event)));
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent hEvent) {
    if (const EventPtr event = process().events.find(hEvent)) event->context()->gate().pass_to_make();
    return process().events.remove(hEvent) != nullptr ? CUDA_SUCCESS : not_found(process().events, hEvent);
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream) { return record(hEvent, hStream, CU_EVENT_RECORD_DEFAULT); }
CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) { return record(hEvent, hStream, flags); }

CUresult cuEventQuery(CUevent hEvent) {
    EventPtr event;
    CU_TRY(find_event(hEvent, event));
    CU_TRY(check_wait_for_event(*event));
    CU_TRY(event->context()->sticky());
    if (event->shared() == nullptr) return event->last().done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    // Asked of what the processes share: no thread has to wait for an event that is only looked at.
    uint64_t latest = event->shared()->latest();
    if (event->shared()->ended(latest)) return CUDA_SUCCESS;
    if (!process().config().profile.lost_events_told || !event->shared()->lost(latest)) return CUDA_ERROR_NOT_READY;
    fail_of_lost_process(*event->context());
    return event->context()->sticky();
}

CUresult cuEventSynchronize(CUevent hEvent) {
    EventPtr event;
    CU_TRY(find_event(hEvent, event));
    CU_TRY(check_wait_for_event(*event));
    if (FencePtr fence = event->fence()) fence->wait();
    event->context()->device().flush_printf();
    return event->context()->sticky();
}

CUresult cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
    EventPtr start, end;
    CU_TRY(find_event(hStart, start));
    CU_TRY(find_event(hEnd, end));
    for (const EventPtr& event : {start, end}) CU_TRY(check_no_place_in_graph(*event));
    if (start->context() != end->context() || !start->timed() || !end->timed()) return CUDA_ERROR_INVALID_HANDLE;
    FencePtr from = start->fence(), to = end->fence();
    if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    CU_TRY(start->context()->sticky());
    if (pMilliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!from->done() || !to->done()) return CUDA_ERROR_NOT_READY;
    *pMilliseconds = std::chrono::duration<float, std::milli>(to->finished_at() - from->finished_at()).count();
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
