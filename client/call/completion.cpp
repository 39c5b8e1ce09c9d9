// How a program that polls is answered without a round trip for each question.
#include "client/call/completion.h"

#include <chrono>
#include <thread>

#include "client/call/expected_times.h"
#include "client/call/pages_along.h"
#include "client/gen/event_calls.gen.h"
#include "client/gen/internal_calls.gen.h"
#include "client/gen/stream_calls.gen.h"
#include "client/session/connection_to_server.h"
#include "client/session/watch.h"
#include "client/trace/trace.h"

namespace warpline::client {

namespace {

/// The trace is to say where the answer comes from: what waits for no reply of its own may have waited for this one.
void note_answer(const Completion& completion) {
    if (trace::is_on()) [[unlikely]]
        trace::note_answer(completion.told_by.load(std::memory_order_relaxed));
}

/// Has the server tell when work is complete, by the reply to a call that waits for it there.
///
/// @param find   finds the object's Completion again; null if the object has gone meanwhile
/// @param issue  queues the call
/// @param along  pages that come with the reply, or null
/// @param times  that come with it, which issue() may choose; or null
template <typename Find, typename Issue>
void watch(Call& call, uint64_t number, Completion& completion, Find find, Issue issue,
           const std::shared_ptr<PagesAlong>& along = nullptr,
           const std::shared_ptr<std::vector<EventTimes::Pair>>& times = nullptr) {
    Session& session = call.session;
    uint64_t watched = completion.watched.load();
    const bool is_over = watched == 0 || completion.done.load(std::memory_order_acquire) >= watched;
    if (!is_over || !session.calls().uses(config::Optimisation::polling) || !session.take_watch()) return;
    if (!completion.watched.compare_exchange_strong(watched, number)) return session.end_watch(CUDA_SUCCESS, call.context);
    const auto told_end = [&session, &state = call.state, number, find, along, times](CUresult result, const Waiter& reply) {
        if (along && result == CUDA_SUCCESS) along->has_come.store(true, std::memory_order_release);
        if (times && !times->empty() && result == CUDA_SUCCESS) keep_times(state, *times, times_in(reply));
        if (Completion* told = find()) {
            if (result == CUDA_SUCCESS) told->reached(number, reply.number);
            // Unless the next one is watched already: who heard of this end may have gone on.
            uint64_t own = number;
            told->watched.compare_exchange_strong(own, 0, std::memory_order_acq_rel);
        }
        session.end_watch(result, reply.context);
    };
    auto* background = along ? new Watch(CopyTarget::into(along->bytes), told_end) : new Watch(told_end);
    call.background = background;
    call.number = 0;
    issue();
    call.background = nullptr;
    if (call.number != 0) raise_to(completion.looked, call.number);
    if (call.number != 0) return;  // registered: it is the session's, which may have told it its end already
    completion.watched.store(0);
    session.end_watch(CUDA_SUCCESS, call.context);
    delete background;
}

constexpr uint64_t k_legacy_token = 1, k_per_thread_token = 2;  // and 0, which is the legacy stream as well

/// What is known of a stream that all threads share; null if it has gone.
Completion* completion_of_stream(State& state, uint64_t token, uint64_t context) {
    if (Stream* stream = state.streams.find(token)) return &stream->completion;
    Context* owner = token > 1 ? nullptr : state.contexts.find(context);
    return owner ? &owner->default_stream : nullptr;
}

/// What is known of the calling thread's own default stream in the call's context.
std::shared_ptr<ThreadState::OwnCompletion> own_completion(const Call& call) {
    auto& own = call.thread.own_completion;
    const uint64_t scope = call.scope();
    if (!own || own->context != scope) {
        own = std::make_shared<ThreadState::OwnCompletion>();
        own->context = scope;
    }
    return own;
}

/// What is known of the stream in which the event was recorded; null: nothing here.
Completion* completion_of_recorder(const Call& call, const Event& event) {
    const uint64_t stream = event.stream.load(std::memory_order_relaxed);
    if (stream == Event::k_no_stream) return nullptr;
    if (stream != k_per_thread_token)
        return completion_of_stream(call.state, stream, event.scope.load(std::memory_order_relaxed));
    const bool is_own = event.identity.load(std::memory_order_relaxed) == call.identity_of(k_per_thread_token);
    return is_own ? &own_completion(call)->completion : nullptr;
}

/// True if what the program was told since the server looked could imply that this is done, too.
bool may_be_implied(const Call& call, uint64_t identity, const Completion& completion) {
    return call.session.told_of_others(identity) >= completion.looked.load(std::memory_order_acquire);
}

Completion* completion_of(const Call& call, uint64_t stream) {
    if (stream == k_per_thread_token) return &own_completion(call)->completion;
    return completion_of_stream(call.state, stream, call.scope());
}

}  // namespace

namespace {

/// True if all work of the context was found to be done behind this change.
bool is_idle_since(const Call& call, const Context* context, uint64_t change) {
    return context && call.session.calls().uses(config::Optimisation::polling) &&
           context->idle_at.load(std::memory_order_acquire) >= change;
}

}  // namespace

bool is_context_known_idle(const Call& call) { return is_idle_since(call, call.scope_context(), call.session.last_change()); }

bool is_known_done(const Call& call, uint64_t stream) {
    const Stream* named = call.state.streams.find(stream);
    const uint64_t change = call.session.last_change(stream);
    if (is_idle_since(call, named ? call.state.contexts.find(named->context) : call.scope_context(), change)) return true;
    const Completion* completion = completion_of(call, stream);
    if (!completion || !call.session.calls().uses(config::Optimisation::polling) ||
        completion->done.load(std::memory_order_acquire) < change)
        return false;
    note_answer(*completion);
    return true;
}

namespace {

/// Who does nothing but ask leaves the processor to the threads that bring the news. Not who works between two questions: if
/// there is much to do, it comes back late.
CUresult not_ready(ThreadState& thread) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::microseconds k_work{5};
    if (Clock::now() - thread.told_not_ready < k_work) std::this_thread::yield();
    thread.told_not_ready = Clock::now();
    return CUDA_ERROR_NOT_READY;
}

/// True if the call with this number (0: none) has not reached the server: what it gave the device to do is not done, and
/// nobody has to be asked.
bool is_still_here(const Call& call, uint64_t number) {
    ConnectionToServer& calls = call.session.calls();
    return number != 0 && calls.uses(config::Optimisation::polling) && !calls.outbox().may_have_left(number);
}

/// @param find  see watch()
template <typename Find>
CUresult query(Call& call, uint64_t token, Completion& completion, Find find) {
    const uint64_t watched = completion.watched.load(std::memory_order_acquire);
    const uint64_t identity = call.identity_of(token);
    if (is_known_done(call, token)) {
        call.session.note_told(identity);
        return CUDA_SUCCESS;
    }
    // Nothing was sent since the question whose answer is on its way: so it is the answer to this one. News of the stream
    // itself counts as any other: that it is not known done may be for a call of another thread, which gave it nothing.
    if (watched != 0 && watched == call.session.last_number() && !may_be_implied(call, 0, completion))
        return not_ready(call.thread);
    uint64_t newest = call.session.last_number();
    if (!is_still_here(call, call.session.last_busy(token, identity))) {
        const CUresult result = gen::request_cuStreamQuery(call, token);
        if (result == CUDA_SUCCESS) note_done(call, token);
        newest = call.session.last_number();
        if (result != CUDA_ERROR_NOT_READY || newest != call.number) return result;
    }
    // The call that watches is the newest one then: it has the number after this one's, unless another thread comes between.
    watch(call, newest + 1, completion, find, [&] { return gen::issue_cuStreamSynchronize(call, token); });
    call.session.calls().send_now();
    return not_ready(call.thread);
}

}  // namespace

bool is_complete(const Call& call, const Event& event, uint64_t number) {
    // Graphs may have recorded it, also one that no call has.
    if (event.is_shared() || call.state.device_records_events.load(std::memory_order_relaxed)) return false;
    if (number == 0) return true;
    if (event.completion.done.load(std::memory_order_acquire) >= number) {
        note_answer(event.completion);
        return true;
    }
    const uint64_t given = event.given.load(std::memory_order_relaxed);
    const Completion* recorder = given != 0 ? completion_of_recorder(call, event) : nullptr;
    if (recorder && recorder->done.load(std::memory_order_acquire) >= given) {
        note_answer(*recorder);
        return true;
    }
    const Context* context = call.state.contexts.find(event.context);
    if (context && context->synced.load(std::memory_order_acquire) >= number) return true;
    const uint64_t recorded_in = event.stream.load(std::memory_order_relaxed);
    if (recorded_in <= k_legacy_token) {
        const Context* scope = call.state.contexts.find(event.scope.load(std::memory_order_relaxed));
        return scope && scope->default_synced.load(std::memory_order_acquire) >= number;
    }
    const Stream* stream = call.state.streams.find(recorded_in);
    return stream && stream->synced.load(std::memory_order_acquire) >= number;
}

namespace {

/// True if all that is to be known of the event's records comes by this session's calls.
bool is_known_here(const Call& call, const Event& event) {
    return !event.is_shared() && !call.state.device_records_events.load(std::memory_order_relaxed);
}

void watch_event(Call& call, uint64_t token, Event& event, uint64_t number) {
    auto find = [&state = call.state, token]() -> Completion* {
        Event* found = state.events.find(token);
        return found ? &found->completion : nullptr;
    };
    if (SharedPages::in_use()) {
        const auto along = std::make_shared<PagesAlong>();
        const auto issue = [&] {
            along->choose_for_later(call);
            if (along->empty()) return gen::issue_cuEventSynchronize(call, token);
            PagesAlong::keep(token, number, along);
            return gen::issue_wlWaitPages(call, 0, token, along->ranges(), CopyTarget::into(along->bytes));
        };
        return watch(call, number, event.completion, find, issue, along);
    }
    const auto times = std::make_shared<std::vector<EventTimes::Pair>>();
    const auto issue = [&] {
        *times = times_behind_wait(call);
        if (times->empty()) return gen::issue_cuEventSynchronize(call, token);
        std::vector<uint64_t> events;
        append_events(events, *times);
        return gen::issue_wlEventTimes(call, token, events, 0);
    };
    watch(call, number, event.completion, find, issue, nullptr, times);
}

}  // namespace

void note_reached(const Call& call, Event& event, uint64_t number, uint64_t by) {
    const bool known_here = is_known_here(call, event);
    if (known_here && number == 0) return;  // it was never recorded: that tells of nothing
    if (by != 0) event.completion.told_by.store(by, std::memory_order_relaxed);
    raise_to(event.completion.done, number);
    const uint64_t given = event.given.load(std::memory_order_relaxed);
    Completion* const recorder = known_here && given != 0 ? completion_of_recorder(call, event) : nullptr;
    // Its stream has come as far; unless it was recorded anew meanwhile, perhaps in another one.
    if (recorder && event.record.load(std::memory_order_acquire) == number) raise_to(recorder->done, given);
    call.session.note_told(recorder ? event.identity.load(std::memory_order_relaxed) : 0);
}

CUresult query_event(Call& call, uint64_t token, Event& event) {
    const uint64_t number = event.record.load(std::memory_order_acquire);
    const uint64_t watched = event.completion.watched.load(std::memory_order_acquire);
    const bool known_here = is_known_here(call, event);
    if (known_here && number != 0) event.expected_questions.store(Event::k_expected_after_question, std::memory_order_relaxed);
    if (is_complete(call, event, number)) {
        note_reached(call, event, number, 0);
        return CUDA_SUCCESS;
    }
    const Completion* const recorder = completion_of_recorder(call, event);
    const uint64_t identity = recorder ? event.identity.load(std::memory_order_relaxed) : 0;
    if (known_here && watched == number && !may_be_implied(call, identity, event.completion)) {
        // Since the record, perhaps, which may not have left either.
        if (event.completion.asked.load(std::memory_order_relaxed) != number) {
            event.completion.asked.store(number, std::memory_order_relaxed);
            call.session.calls().send_now();
        }
        return not_ready(call.thread);
    }
    if (!known_here || !is_still_here(call, event.given.load(std::memory_order_relaxed))) {
        const CUresult result = gen::request_cuEventQuery(call, token);
        if (result == CUDA_SUCCESS) note_reached(call, event, number, known_here ? call.number : 0);
        if (result == CUDA_ERROR_NOT_READY) raise_to(event.completion.looked, call.number);
        if (!known_here || result != CUDA_ERROR_NOT_READY) return result;
    }
    watch_event(call, token, event, number);
    call.session.calls().send_now();
    return not_ready(call.thread);
}

void expect_question(Call& call, uint64_t token, Event& event) {
    if (event.expected_questions.load(std::memory_order_relaxed) == 0) return;
    if (!call.session.calls().uses(config::Optimisation::prefetch) || !is_known_here(call, event)) return;
    event.expected_questions.fetch_sub(1, std::memory_order_relaxed);
    watch_event(call, token, event, event.record.load(std::memory_order_acquire));
}

bool is_over(const Call& call, const Gates::Gate& gate) {
    const bool is_own = gate.stream == k_per_thread_token;  // some thread's
    const Completion* completion = is_own ? nullptr : completion_of_stream(call.state, gate.stream, gate.scope);
    if (completion && completion->done.load(std::memory_order_acquire) >= gate.number) return true;
    const Context* context = call.state.contexts.find(gate.context);
    return !context || context->idle_at.load(std::memory_order_acquire) >= gate.number;
}

void note_done(const Call& call, uint64_t stream) {
    if (Completion* completion = completion_of(call, stream)) completion->reached(call.number, call.number);
    call.session.note_told(call.identity_of(stream));
}

CUresult query_stream(Call& call, uint64_t token) {
    if (token == k_per_thread_token) {
        const auto own = own_completion(call);
        return query(call, token, own->completion, [own] { return &own->completion; });
    }
    Completion* completion = completion_of_stream(call.state, token, call.scope());
    if (!completion) return gen::request_cuStreamQuery(call, token);
    return query(call, token, *completion,
                 [&state = call.state, token, context = call.scope()] { return completion_of_stream(state, token, context); });
}

}  // namespace warpline::client
