// When work is known to be done: what the program sees of memory that the device has, and what of it is fetched at once.
#include <algorithm>
#include <utility>

#include "client/call/pages.h"
#include "client/call/pages_along.h"
#include "client/managed/earlier_masks.h"
#include "client/managed/faults.h"
#include "client/session/session.h"

namespace warpline::client {

namespace {

/// @param now  of what came without an access, only what has stayed for long enough; null: all
CUresult refresh(const Call& call, SharedPages& pages, const std::chrono::steady_clock::time_point* now)
    WL_REQUIRES(pages.mutex) {
    for (auto& [base, shared] : pages.regions) {
        if (now && *now < shared.stays_until) continue;
        if (!now) shared.stays_until = {};
        // What is being fetched in this moment may be of the time before, too.
        shared.region->outdate();
        shared.region->forget_seen();
        if (!shared.region->has_busy_units()) continue;
        pages.window_bytes = SharedPages::k_first_window;  // who looks again and again looks at little
        const auto changed = shared.region->refresh(now != nullptr);
        if (CUresult result = write_to_device(call, shared, changed); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

/// Up to which number all of a context's work is known to be done.
uint64_t idle_until(const Context& context, const State& state) {
    const uint64_t idle = context.idle_at.load(std::memory_order_acquire);
    // Where no stream works beside the legacy one, all rest when that one does.
    const bool beside = state.works_beside_default.load(std::memory_order_relaxed);
    return beside ? idle : std::max(idle, context.default_idle_at.load(std::memory_order_acquire));
}

/// True if what streams other than this one were given is known to be done.
bool is_done_beside(SharedPages& pages, const State& state, uint64_t stream, uint64_t idle) WL_REQUIRES(pages.mutex) {
    return pages.given.is_done_beside(stream, idle, [&](uint64_t other) {
        const Stream* const found = state.streams.find(other);
        return found ? found->completion.done.load(std::memory_order_acquire) : 0;
    });
}

std::vector<uint64_t> at_work(SharedPages& pages, const Session& session, const State& state) WL_REQUIRES(pages.mutex) {
    std::erase_if(pages.busy_contexts, [&state](uint64_t token) {
        const Context* context = state.contexts.find(token);
        return !context || !context->active();
    });
    std::vector<uint64_t> busy;
    for (uint64_t token : pages.busy_contexts) {
        if (session.last_work() >= idle_until(*state.contexts.find(token), state)) busy.push_back(token);
    }
    // What was waited for stream by stream is done as well, as far as it may use such memory.
    constexpr uint64_t k_none = UINT64_MAX;
    if (busy.size() == 1 && pages.launching == 0 &&
        is_done_beside(pages, state, k_none, idle_until(*state.contexts.find(busy.front()), state)))
        busy.clear();
    return busy;
}

/// True if something was heard of the device since the last such call: else the program need see no more than it has seen.
bool has_news(SharedPages& pages, const Session& session) WL_REQUIRES(pages.mutex) {
    const uint64_t news = session.news();
    return std::exchange(pages.settled_news, news) != news;
}

}  // namespace

std::vector<uint64_t> contexts_at_work(const Session& session, const State& state) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    return at_work(pages, session, state);
}

bool is_device_busy(SharedPages& pages, const Session& session, const State& state) {
    return pages.launching != 0 || !at_work(pages, session, state).empty();
}

bool is_device_busy(const Session& session, const State& state) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    return is_device_busy(pages, session, state);
}

bool stands_still(SharedPages& pages, const Session& session, const State& state) {
    const StreamFunction function = pages.function;
    // Default streams that threads have of their own are one here.
    constexpr uint64_t k_legacy = 1, k_per_thread = 2;
    if (!function.runs || !function.stream || *function.stream == k_per_thread || function.had_company || pages.launching != 0)
        return false;
    const Context* const context = state.contexts.find(function.context);
    const auto busy = at_work(pages, session, state);
    if (!context || std::any_of(busy.begin(), busy.end(), [&](uint64_t token) { return token != function.context; }))
        return false;
    const bool beside = state.works_beside_default.load(std::memory_order_relaxed);
    // All other streams wait for the legacy one then.
    if (!beside && *function.stream <= k_legacy) return true;
    return is_done_beside(pages, state, *function.stream, idle_until(*context, state));
}

CUresult refresh_pages(const Call& call) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    return refresh(call, pages, nullptr);
}

CUresult take_back_from_function(const Call& call) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    const bool still = stands_still(pages, call.session, call.state);
    for (auto& [base, shared] : pages.regions) shared.region->note_still(still);
    const CUresult result = refresh(call, pages, nullptr);
    for (auto& [base, shared] : pages.regions) shared.region->note_still(false);
    pages.function.runs = false;
    return result;
}

CUresult refresh_pages_in_time(const Call& call) {
    SharedPages& pages = SharedPages::instance();
    const auto now = std::chrono::steady_clock::now();
    MutexLock lock(pages.mutex);
    return refresh(call, pages, &now);
}

CUresult settle_pages_slow(const Call& call, CUresult done, PagesAlong* along, Told told) {
    earlier_masks::settle();
    // In a function that a stream calls, the device cannot be waited for, nor is it idle.
    if (HostCalls::in_callback()) return done;
    SharedPages& pages = SharedPages::instance();
    {
        MutexLock lock(pages.mutex);
        bool any = false;
        // A function that a stream has called, on another thread, sees what the device has now, and this may be older.
        const bool runs = pages.function.runs;
        // Asked before the news are: what is known to rest has told so by then, and pages from before that are not the newest.
        const bool busy = along && is_device_busy(pages, call.session, call.state);
        if (!has_news(pages, call.session)) {
            for (auto& [base, shared] : pages.regions) {
                if (runs || !shared.region->has_seen_units()) continue;
                shared.stays_until = std::chrono::steady_clock::now() + SharedPages::k_stay;
                (void)shared.region->see_again();
            }
        } else {
            if (along && (runs || !along->is_newest(pages))) along = nullptr;
            if (along) along->leave_out_changed(pages);
            (void)refresh(call, pages, nullptr);
            if (along) along->put_in_place(pages, busy);
        }
        // Page-locked memory whose copies have events is used after many of them: an access brings it.
        for (const auto& [base, shared] : pages.regions)
            any = any || ((told == Told::there || shared.region->sharing() == Sharing::in_turns) &&
                          shared.region->misses_lately_used());
        for (const auto& [base, mirrored] : pages.mirrored)
            any = any || (mirrored->read_work != call.session.last_work() && !(along && along->has_brought(*mirrored)));
        if (!any) return done;
    }
    faults::recall(told == Told::there ? Wish::recall : Wish::recall_in_turns);
    return done;
}

}  // namespace warpline::client
