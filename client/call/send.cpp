// What all calls have in common on their way: compiled once, and not for each of them.
#include "client/call/send.h"

#include <utility>

#include "client/call/mapped.h"
#include "client/call/pages.h"
#include "client/managed/faults.h"
#include "client/trace/trace.h"

namespace warpline::client {

namespace {

/// True for calls after which the device may be busy for longer than it takes the server to make them. Those that are known not
/// to leave work behind are named; any other may.
constexpr bool leaves_work(cuda::CallId id) {
    switch (id) {
        case cuda::CallId::cuMemFree_v2:
        case cuda::CallId::wlMap:
        case cuda::CallId::wlMapNow:
        case cuda::CallId::wlAlloc:
        case cuda::CallId::wlUnmap:
        case cuda::CallId::wlMemCreate:
        case cuda::CallId::cuMemCreate:
        case cuda::CallId::cuMemMap:
        case cuda::CallId::cuMemSetAccess:
        case cuda::CallId::cuMemRelease:
        case cuda::CallId::wlWritePages:
        case cuda::CallId::wlReadPages:
        case cuda::CallId::wlWaitPages:
        case cuda::CallId::wlWaitBesideCaptures:
        case cuda::CallId::wlReadAhead:
        case cuda::CallId::wlEventTimes:
        case cuda::CallId::wlImageLoad:
        case cuda::CallId::wlImageCompile:
        case cuda::CallId::wlFunctionGet:
        case cuda::CallId::wlFunctionAttributes:
        case cuda::CallId::cuLibraryGetGlobal:
        case cuda::CallId::cuModuleGetGlobal_v2:
        case cuda::CallId::cuMemGetInfo_v2:
        case cuda::CallId::cuStreamCreate:
        case cuda::CallId::cuStreamCreateWithPriority:
        case cuda::CallId::cuStreamQuery:
        case cuda::CallId::cuStreamSynchronize:
        case cuda::CallId::cuEventCreate:
        case cuda::CallId::cuEventDestroy_v2:
        case cuda::CallId::cuEventElapsedTime_v2:
        case cuda::CallId::cuEventQuery:
        case cuda::CallId::cuEventSynchronize:
        case cuda::CallId::cuCtxSynchronize:
        case cuda::CallId::cuMemcpyHtoD_v2:
        case cuda::CallId::cuMemcpyDtoH_v2: return false;
        default: return true;
    }
}

/// True for calls that do nothing but ask or wait, and tell of their own failure.
constexpr bool only_asks(cuda::CallId id) {
    switch (id) {
        case cuda::CallId::wlReadPages:
        case cuda::CallId::wlWaitPages:
        case cuda::CallId::wlWaitBesideCaptures:
        case cuda::CallId::wlReadAhead:
        case cuda::CallId::wlEventTimes:
        case cuda::CallId::wlFunctionAttributes:
        case cuda::CallId::cuMemGetInfo_v2:
        case cuda::CallId::cuStreamQuery:
        case cuda::CallId::cuStreamSynchronize:
        case cuda::CallId::cuEventElapsedTime_v2:
        case cuda::CallId::cuEventQuery:
        case cuda::CallId::cuEventSynchronize:
        case cuda::CallId::cuCtxSynchronize:
        case cuda::CallId::cuMemcpyDtoH_v2: return true;
        default: return false;
    }
}

/// Copies of the program's bytes to the device.
constexpr bool is_copy(cuda::CallId id) {
    switch (id) {
        case cuda::CallId::cuMemcpyHtoD_v2:
        case cuda::CallId::cuMemcpyHtoDAsync_v2:
        case cuda::CallId::wlCopyToDevice: return true;
        default: return false;
    }
}

/// Bytes that lie in memory whose pages the device may take meanwhile, as those of a module may. Copies see to theirs
/// (HostUses), and what is written back has been taken already.
bool may_be_taken(cuda::CallId id, BytesView payload) {
    if (payload.empty() || !SharedPages::in_use() || is_copy(id)) [[likely]]
        return false;
    return faults::is_watched(reinterpret_cast<uint64_t>(payload.data()));
}

/// The stream that the work is given to is not done before it: launches and asynchronous copies alone, of which CUDA says so.
void note_busy(const Call& call) {
    if (call.stream != Call::k_unknown_stream) call.session.note_busy(call.number, call.stream, call.identity_of(call.stream));
}

/// True for asynchronous work whose stream is busy until the device has done it.
constexpr bool keeps_busy(cuda::CallId id) {
    switch (id) {
        case cuda::CallId::cuLaunchKernel:
        case cuda::CallId::cuLaunchKernelEx:
        case cuda::CallId::cuLaunchCooperativeKernel:
        case cuda::CallId::cuMemcpyDtoDAsync_v2:
        case cuda::CallId::cuMemcpyDtoHAsync_v2:
        case cuda::CallId::cuMemcpyHtoDAsync_v2:
        case cuda::CallId::wlCopyToDeviceLate: return true;
        default: return false;
    }
}

/// True of calls behind which streams may wait for each other: all but what is known to concern its own stream alone.
constexpr bool may_join(cuda::CallId id) {
    switch (id) {
        case cuda::CallId::cuLaunchHostFunc:
        case cuda::CallId::cuStreamAddCallback:
        case cuda::CallId::cuEventRecord:
        case cuda::CallId::cuMemsetD8Async:
        case cuda::CallId::cuMemsetD32Async:
        case cuda::CallId::cuMemFreeAsync: return false;
        default: return !keeps_busy(id) && !only_asks(id);
    }
}

/// Registers who waits for a call, or where its bytes go, while the call is still under the outbox's lock.
struct NumberNote {
    Call& call;
    Waiter* waiter;
    void operator()(uint64_t number) const {
        call.number = number;
        call.session.note_number(number);
        if (trace::is_on()) [[unlikely]]
            trace::note_number(number);
        // Of a synchronous copy the driver may still be moving the bytes: what they are moved to may be fetched beside it.
        const bool is_copy = call.id == cuda::CallId::cuMemcpyHtoD_v2 && SharedPages::in_use();
        if (leaves_work(call.id) || is_copy) call.session.note_work(number);
        if (!only_asks(call.id)) call.session.note_change(number, call.known_stream());
        if (may_join(call.id)) call.session.note_join(number);
        if (keeps_busy(call.id)) note_busy(call);
        for (Waiter* one : {static_cast<Waiter*>(call.background), waiter})
            if (one) one->context = call.context;
        if (call.background) call.session.note_waiter(number, *call.background);
        if (waiter) call.session.note_waiter(number, *waiter);
        // What comes with a reply that is watched comes to the watch.
        if (call.copy_to && !call.background)
            call.session.note_copy(number, *call.copy_to, call.copy_repeats, call.copy_context, call.copy_stream);
        if (call.graph_launch) call.session.note_graph_launch(number, *call.graph_launch);
    }
};

/// The same for what nobody waits for and brings nothing back: a launch.
struct LaunchNote {
    Call& call;
    void operator()(uint64_t number) const {
        static_assert(leaves_work(cuda::CallId::cuLaunchKernel) && !only_asks(cuda::CallId::cuLaunchKernel));
        call.number = number;
        call.session.note_number(number);
        if (trace::is_on()) [[unlikely]]
            trace::note_number(number);
        call.session.note_work(number);
        call.session.note_change(number, call.known_stream());
        note_busy(call);
    }
};

CUresult queue_call(Call& call, Waiter* waiter, unsigned words, const protocol::FillArgs& fill, BytesView payload) {
    const protocol::CallHeader header = header_of(call, waiter != nullptr || call.background != nullptr);
    protocol::Outbox& outbox = call.session.calls().outbox();
    const NumberNote note{call, waiter};
    if (payload.size() > ConnectionToServer::k_chunk_bytes) {
        const auto lent = call.payload_stays ? protocol::Lent::until_given_back : protocol::Lent::until_return;
        call.session.calls().note_upload(payload.size());
        auto sent = outbox.add_streamed_call(header, words, fill, note, payload, lent);
        return sent.ok() ? CUDA_SUCCESS : call.session.not_sent(sent.error(), waiter);
    }
    auto urgency = waiter ? protocol::Urgency::caller : protocol::Urgency::writer;
    auto sent = outbox.add_call(header, words, fill, note, payload, urgency);
    if (waiter == nullptr) call.session.calls().note_queued();
    return sent.ok() ? CUDA_SUCCESS : call.session.not_sent(sent.error(), waiter);
}

CUresult queue_launch(Call& call, const protocol::CallHeader& header, const protocol::CallImage& image) {
    const LaunchNote note{call};
    auto sent = call.session.calls().outbox().add_call(header, image, note, {}, protocol::Urgency::writer);
    call.session.calls().note_queued();
    return sent.ok() ? CUDA_SUCCESS : call.session.not_sent(sent.error(), nullptr);
}

}  // namespace

CUresult send(Call& call, Waiter* waiter, unsigned words, protocol::FillArgs fill, BytesView payload) {
    if (is_copy(call.id)) note_memory_named_in_copy(call, payload);
    Bytes kept;
    if (may_be_taken(call.id, payload)) {
        // Not under the outbox's lock, without which the pages would not come back.
        kept.assign(payload.begin(), payload.end());
        payload = kept;
    }
    // What is sent on its behalf before is no launch.
    const GraphLaunch* const launch = std::exchange(call.graph_launch, nullptr);
    return with_pages_given(call, [&] {
        call.graph_launch = launch;
        return queue_call(call, waiter, words, fill, payload);
    });
}

CUresult send_launch(Call& call, const protocol::CallHeader& header, const protocol::CallImage& image) {
    return with_pages_given(call, [&] { return queue_launch(call, header, image); });
}

CUresult wait(const Call& call, Waiter& waiter) {
    const Context* context = call.current();
    const unsigned flags = context ? context->flags.load(std::memory_order_relaxed) : 0;
    return call.session.wait(waiter, call.id, flags & CU_CTX_SCHED_MASK);
}

CUresult read_values(cuda::CallId call, const Waiter& waiter, ReadValues read) {
    auto done = protocol::read_message<wire::Reply>(waiter.reply.body.view(),
                                                    [&](wire::Reply::Reader reply) { read(reply.getValues()); });
    if (done.ok()) return CUDA_SUCCESS;
    WL_LOG(error, "client", "the reply to {} is malformed", cuda::call_name(call));
    return CUDA_ERROR_UNKNOWN;
}

}  // namespace warpline::client
