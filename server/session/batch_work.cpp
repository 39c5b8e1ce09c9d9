// Calls on their way through the executor: served at once, or kept back behind one that was overtaken.
#include "server/session/batch_work.h"

#include <bitset>
#include <cstring>

#include "common/log/log.h"
#include "protocol/schema/launch.capnp.h"
#include "server/session/call.h"
#include "server/session/serve.h"

namespace warpline::server {

namespace {

/// Calls that ask whether work is done, and never wait for it.
bool only_asks(uint16_t id) {
    switch (static_cast<cuda::CallId>(id)) {
        case cuda::CallId::cuStreamQuery:
        case cuda::CallId::cuEventQuery:
        case cuda::CallId::cuEventElapsedTime_v2: return true;
        default: return false;
    }
}

/// The events that a launch records are named in its attributes alone.
void add_recorded_events(const protocol::CallView& view, Footprint& footprint) {
    const auto attributes = view.args<wire::CuLaunchKernelEx>().getAttributes();
    CUlaunchAttribute one{};
    for (size_t at = 0; at + sizeof one <= attributes.size(); at += sizeof one) {
        std::memcpy(&one, attributes.begin() + at, sizeof one);
        if (one.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            footprint.make(handle_to_value(one.value.programmaticEvent.event));
        else if (one.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            footprint.make(handle_to_value(one.value.launchCompletionEvent.event));
    }
}

/// What a call has to do with, by the server's knowledge of its objects.
Footprint footprint_of(Session& session, const protocol::CallView& view) {
    Footprint footprint;
    const DispatchEntry* entry = find_dispatch(view.header.id);
    // Who cannot be read is refused when it is served; until then it is a call like no other.
    const auto touch = [&] {
        entry->touch(view, footprint);
        if (view.header.id == static_cast<uint16_t>(cuda::CallId::cuLaunchKernelEx)) add_recorded_events(view, footprint);
    };
    if (entry == nullptr || !protocol::guarded(touch).ok()) footprint.before_all = true;
    footprint.client_waits = view.header.wants_reply;
    footprint.only_asks = only_asks(view.header.id);
    session.place_streams(view.header, footprint);
    return footprint;
}

/// Calls that give work to the legacy default stream without naming it.
bool uses_default_stream(cuda::CallId id) {
    static const auto* const k_users = [] {
        auto* users = new std::bitset<size_t{1} << 16>;
        for (const cuda::CallInfo& info : cuda::all_calls()) {
            const std::string_view area(info.area);
            (*users)[static_cast<size_t>(info.id)] = area == "memset" || area == "copy";
        }
        (*users)[static_cast<size_t>(cuda::CallId::wlCopyToDevice)] = true;
        (*users)[static_cast<size_t>(cuda::CallId::wlCopyOnDevice)] = true;
        return users;
    }();
    return (*k_users)[static_cast<uint16_t>(id)];
}

/// Sees to it that what a call in this context takes for granted is there. The context is current.
void prepare_context(Session& session, uint64_t context) {
    session.context_used(context);
    CUdevice device = 0;
    if (session.memory().was_reset() && context != 0 && session.contexts().device_of(context, device))
        session.memory().restore(device);
}

}  // namespace

/// A call that waits for others to end, and then has its turn.
class KeptBack final : public OrderedWork, public std::enable_shared_from_this<KeptBack> {
public:
    explicit KeptBack(std::shared_ptr<BatchWork> batch) : m_batch(std::move(batch)) {}
    ~KeptBack() noexcept override {}

    Result<void> keep(const protocol::CallView& view) { return m_call.keep(view); }
    uint64_t& number() { return m_number; }

    bool step() override {
        Session& session = m_batch->m_session;
        // What comes after a call whose client waits has nothing to wait for.
        const bool client_waits = m_call.view().header.wants_reply;
        if (client_waits) session.call_ended(m_number);
        m_batch->serve(m_call.view());
        m_batch->part_done();
        if (!client_waits) session.call_ended(m_number);
        return false;
    }

private:
    const std::shared_ptr<BatchWork> m_batch;
    protocol::KeptCall m_call;
    uint64_t m_number = 0;
};

Result<std::shared_ptr<BatchWork>> BatchWork::create(Session& session, protocol::CallReceiver::Unit unit) {
    auto work = std::shared_ptr<BatchWork>(new BatchWork(session, std::move(unit)));
    auto reader = protocol::BatchReader::open(work->m_unit.batch.body.view(), work->m_unit.batch.payload_view());
    if (!reader.ok()) return reader.error();
    work->m_reader.emplace(std::move(*reader));
    return work;
}

bool BatchWork::step() {
    auto more = m_reader->next();
    if (!more.ok()) {
        m_session.client().did_misbehave(more.error().what);
        return false;
    }
    if (!*more) return false;
    const protocol::CallView& view = m_reader->call();
    const bool is_last = m_reader->at_last();
    if (is_last) m_session.counters().calls.fetch_add(m_unit.calls, std::memory_order_relaxed);
    const bool has_order = m_session.call_order().any();
    const bool not_ready = has_order && is_not_ready(view);
    const bool kept_back = has_order && !not_ready && keep_back(view);
    // Before the call may give the order free: nobody comes back for a batch that has no more of them.
    if (is_last) part_done();
    if (not_ready) {
        answer_not_ready(view);
    } else if (!kept_back) {
        serve(view);
    }
    return !is_last;
}

std::function<void()> BatchWork::overtaken() {
    const uint64_t number = m_session.call_order().overtaken(footprint_of(m_session, m_reader->call()));
    return [self = shared_from_this(), number] { self->m_session.call_ended(number); };
}

/// True if the call cannot run yet: it is remembered.
bool BatchWork::keep_back(const protocol::CallView& view) {
    auto kept = std::make_shared<KeptBack>(shared_from_this());
    if (!kept->keep(view).ok()) return false;
    m_parts.fetch_add(1, std::memory_order_relaxed);
    const bool held = m_session.call_order().hold(footprint_of(m_session, view), kept, kept->number());
    if (!held) m_parts.fetch_sub(1, std::memory_order_relaxed);
    return held;
}

/// True if the call asks whether work is done that has not all reached the driver: a copy whose bytes are on their way.
bool BatchWork::is_not_ready(const protocol::CallView& view) {
    return only_asks(view.header.id) && m_session.call_order().is_unfinished(footprint_of(m_session, view));
}

void BatchWork::answer_not_ready(const protocol::CallView& view) {
    ServerCall call(m_session, view, nullptr);
    const Result<void> answered = finish(call, CUDA_ERROR_NOT_READY);
    if (!answered.ok() && answered.error().code != Code::shutting_down) m_session.client().did_misbehave(answered.error().what);
}

void BatchWork::serve(const protocol::CallView& view) {
    const DispatchEntry* entry = find_dispatch(view.header.id);
    if (entry == nullptr) return m_session.client().did_misbehave("a call that does not exist");
    const ExecutedCalls::Clock::time_point began = m_session.executed().now();
    // Whoever executes a step holds its work, and that this batch.
    ServerCall call(m_session, view, view.streamed ? m_unit.stream : nullptr);
    const CUresult current = m_session.contexts().make_current(view.header.context);
    if (current == CUDA_SUCCESS) prepare_context(m_session, view.header.context);
    if (uses_default_stream(call.id())) m_session.streams().note_default_used(view.header.context);
    const Result<void> served = current != CUDA_SUCCESS && entry->needs_context ? finish(call, current) : entry->serve(call);
    // From here on the batch may be another thread's.
    if (!served.ok() && served.error().code != Code::shutting_down) m_session.client().did_misbehave(served.error().what);
    call.skip_payload();
    m_session.executed().add(call, began);
}

void BatchWork::part_done() {
    if (m_parts.fetch_sub(1, std::memory_order_acq_rel) == 1) m_session.work_done(m_unit.cost_bytes, m_unit.calls);
}

bool LastWork::step() {
    Footprint everything;
    everything.before_all = true;
    if (!m_order.any() || !m_order.hold(everything, shared_from_this(), m_number)) m_done();
    return false;
}

}  // namespace warpline::server
