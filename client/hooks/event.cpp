// Events. Only those that were recorded are asked about.
#include "client/call/ahead.h"
#include "client/call/common.h"
#include "client/call/completion.h"
#include "client/call/pages_along.h"
#include "client/gen/event_calls.gen.h"
#include "client/graph/capture.h"

namespace warpline::client {

namespace {

constexpr unsigned k_event_flags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

/// An event's record is known to be complete.
CUresult settle_event(const Call& call, CUresult done, uint64_t token, uint64_t record) {
    if (!SharedPages::in_use() || done != CUDA_SUCCESS) [[likely]]
        return done;
    const auto along = PagesAlong::take(token, record);
    return settle_pages_slow(call, done, along.get(), Told::here);
}

CUresult record(Call& call, CUevent hEvent, CUstream hStream, unsigned flags) {
    if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;
    Event* event = call.state.events.find(to_token(hEvent));
    if (!event) return unknown_handle<HandleKind::event>(to_token(hEvent));
    if (flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) return CUDA_ERROR_INVALID_VALUE;
    // An event belongs to a context, and its stream has to be of the same.
    const Stream* stream = call.state.streams.find(to_token(hStream));
    if ((stream ? stream->context : call.context) != event->context) return CUDA_ERROR_INVALID_HANDLE;
    const uint64_t stream_name = stream_token(call, hStream);
    call.stream = stream_name;
    // Recorded by a node of the graph, it is no place in the graph. cuda.h: "This flag is invalid when used outside of
    // capture." (DB-54)
    const bool external = (flags & CU_EVENT_RECORD_EXTERNAL) != 0;
    const bool capturing = is_capturing(call, stream_name);
    if (external && !capturing) return CUDA_ERROR_ILLEGAL_STATE;
    if (external) call.state.device_records_events.store(true);
    // Another process may be told that it is recorded as soon as we have returned.
    const bool waits = event->is_shared();
    const auto send = waits ? gen::request_cuEventRecord : gen::issue_cuEventRecord;
    const auto send_with_flags = waits ? gen::request_cuEventRecordWithFlags : gen::issue_cuEventRecordWithFlags;
    const CUresult result =
        flags == 0 ? send(call, to_token(hEvent), stream_name) : send_with_flags(call, to_token(hEvent), stream_name, flags);
    if (result != CUDA_SUCCESS) return result;
    if (!external) note_record(call, stream_name, *event);
    if (!capturing && (event->flags & CU_EVENT_DISABLE_TIMING) == 0)
        call.state.event_times.recorded({to_token(hEvent), event->record.load(std::memory_order_relaxed)});
    if (!capturing) expect_question(call, to_token(hEvent), *event);
    return result;
}

}  // namespace

CUresult hook_client_cuEventCreate(Call& call, CUevent* phEvent, unsigned int Flags) {
    if (Flags & ~k_event_flags) return CUDA_ERROR_INVALID_VALUE;
    if ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
    const Device* device = find_device(call.device());
    if ((Flags & CU_EVENT_INTERPROCESS) && (!device || device->attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED) == 0)) {
        return WL_REFUSE_CALL("cuEventCreate", "the server, or its driver, gives no events to other processes");
    }
    auto made = make_object<HandleKind::event>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made.object->flags = Flags;
    CUresult result = gen::issue_cuEventCreate(call, made.token, Flags);
    if (result != CUDA_SUCCESS) {
        call.state.events.remove(made.token);
        return result;
    }
    *phEvent = to_handle<CUevent>(made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuEventDestroy_v2(Call& call, CUevent hEvent) {
    const Event* event = call.state.events.find(to_token(hEvent));
    if (!event) return unknown_handle<HandleKind::event>(to_token(hEvent));
    call.context = event->context;
    CUresult result = gen::issue_cuEventDestroy_v2(call, to_token(hEvent));
    call.state.events.remove(to_token(hEvent));
    return result;
}

CUresult hook_client_cuEventRecord(Call& call, CUevent hEvent, CUstream hStream) { return record(call, hEvent, hStream, 0); }

CUresult hook_client_cuEventRecordWithFlags(Call& call, CUevent hEvent, CUstream hStream, unsigned int flags) {
    return record(call, hEvent, hStream, flags);
}

CUresult hook_client_cuEventQuery(Call& call, CUevent hEvent) {
    Event* event = call.state.events.find(to_token(hEvent));
    if (!event) return unknown_handle<HandleKind::event>(to_token(hEvent));
    if (CUresult refused = check_wait_for_event(call, *event); refused != CUDA_SUCCESS) return refused;
    call.context = event->context;
    const uint64_t number = event->record.load(std::memory_order_acquire);
    return settle_event(call, query_event(call, to_token(hEvent), *event), to_token(hEvent), number);
}

CUresult hook_client_cuEventSynchronize(Call& call, CUevent hEvent) {
    Event* event = call.state.events.find(to_token(hEvent));
    if (!event) return unknown_handle<HandleKind::event>(to_token(hEvent));
    if (CUresult refused = check_wait_for_event(call, *event); refused != CUDA_SUCCESS) return refused;
    const uint64_t number = event->record.load(std::memory_order_acquire);
    if (is_complete(call, *event, number)) {
        note_reached(call, *event, number, 0);
        return settle_event(call, CUDA_SUCCESS, to_token(hEvent), number);
    }
    call.context = event->context;
    return with_pages_along(call, [&] {
        const CUresult result = wait_for_event(call, to_token(hEvent));
        if (result == CUDA_SUCCESS) note_reached(call, *event, number, call.number);
        return result;
    });
}

CUresult hook_client_cuEventElapsedTime_v2(Call& call, float* pMilliseconds, CUevent hStart, CUevent hEnd) {
    Event* start = call.state.events.find(to_token(hStart));
    Event* end = call.state.events.find(to_token(hEnd));
    for (const Event* event : {start, end}) {
        if (!event) return unknown_handle<HandleKind::event>(to_token(event == start ? hStart : hEnd));
        if (CUresult refused = check_not_captured(call, *event); refused != CUDA_SUCCESS) return refused;
        if (event->flags & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
        // Graphs record events on the device, of which this side knows nothing.
        if (event->record.load() == 0 && !call.state.device_records_events.load()) return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!pMilliseconds) return CUDA_ERROR_INVALID_VALUE;
    call.context = start->context;
    const uint64_t starts = start->record.load(), ends = end->record.load();
    const CUresult result = elapsed_time(call, to_token(hStart), to_token(hEnd), *pMilliseconds);
    if (result != CUDA_SUCCESS) return result;
    note_reached(call, *start, starts, call.number);
    note_reached(call, *end, ends, call.number);
    return result;
}

}  // namespace warpline::client
