// The threads behind accesses to pages that the device has: one fetches them, one waits for the device where that comes first.
#include "client/call/pager.h"

#include <algorithm>

#include "client/call/completion.h"
#include "client/call/load_turn.h"
#include "client/gen/stream_calls.gen.h"
#include "client/managed/signal_mask.h"
#include "client/session/session.h"
#include "client/session/watch.h"
#include "common/base/quiet_thread.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

/// How long an access to managed memory waits for the device before it gets what is there: a kernel that waits for this very
/// access would never end.
constexpr std::chrono::seconds k_patience(2);

}  // namespace

bool Pager::start(const Call& call) {
    MutexLock lock(m_mutex);
    if (m_started) return true;
    m_session = &call.session;
    m_state = &call.state;
    if (!start_quiet_thread([this] { run_fetching(); }).ok()) return false;
    faults::add_thread();
    m_started = start_quiet_thread([this] { run_waiting(); }).ok();
    if (m_started) faults::add_thread();
    // All addresses that memory with pages may get, however many pieces there will be; variables come to it one by one.
    faults::watch(m_state->memory.window_base(), m_state->memory.window_bytes());
    faults::watch(m_state->host_memory.window_base(), m_state->host_memory.window_bytes());
    return m_started;
}

void Pager::collect(std::deque<Access>& accesses) {
    for (PageFault* fault = faults::take(); fault;) {
        PageFault* next = fault->next;
        accesses.push_front({fault});
        fault = next;
    }
    MutexLock lock(m_mutex);
    take_told();
    accesses.insert(accesses.end(), m_ready.begin(), m_ready.end());
    m_ready.clear();
    // Who has waited in vain for too long gets what there is.
    const auto now = PageClock::now();
    for (;;) {
        std::deque<Access>& impatient =
            !m_waiting.empty() && now - m_waiting.front().since > k_patience ? m_waiting : m_watched;
        if (impatient.empty() || now - impatient.front().since <= k_patience) break;
        Access access = impatient.front();
        access.watched = 0;
        impatient.pop_front();
        access.waited = true;
        SharedPages& pages = SharedPages::instance();
        MutexLock pages_lock(pages.mutex);
        if (SharedRegion* shared = pages.find(access.fault->address);
            shared && shared->region->sharing() == Sharing::in_turns) {
            shared->region->share();
            WL_LOG(warn, "client",
                   "managed memory at {:#x} is used here while a kernel runs that does not end; both see what the other one "
                   "writes some milliseconds later (concurrentManagedAccess is 0)",
                   access.fault->address);
        }
        accesses.push_back(access);
    }
}

void Pager::run_fetching() {
    ::pthread_setname_np(::pthread_self(), "wl-client-pages");
    // It looks at registered memory, which may be gone: a fault that is blocked ends the process.
    const sigset_t fault = signal_mask::only(SIGSEGV);
    ::pthread_sigmask(SIG_UNBLOCK, &fault, nullptr);
    uint32_t seen = 0;
    std::deque<Access> accesses;
    for (;;) {
        collect(accesses);
        if (accesses.empty()) {
            bool sleeps_long = true;
            {
                MutexLock lock(m_mutex);
                sleeps_long = m_waiting.empty() && m_watched.empty();
            }
            SharedPages& pages = SharedPages::instance();
            {
                MutexLock lock(pages.mutex);
                for (const auto& [base, mirrored] : pages.mirrored)
                    sleeps_long = sleeps_long && mirrored->read_work == m_session->last_work();
                for (const auto& [base, shared] : pages.regions) sleeps_long = sleeps_long && !shared.region->has_busy_units();
            }
            m_looks = m_looks && !sleeps_long;
            faults::wait(seen, sleeps_long ? 1000 : static_cast<int>(m_pace.pause().count()));
        }
        while (!accesses.empty()) {
            serve(accesses.front());
            accesses.pop_front();
        }
        refresh();
    }
}

void Pager::run_waiting() {
    ::pthread_setname_np(::pthread_self(), "wl-client-idle");
    MutexLock lock(m_mutex);
    for (;;) {
        while (m_waiting.empty()) m_changed.wait(m_mutex);
        PageFault* const last = m_waiting.back().fault;
        lock.unlock();
        for (uint64_t context : contexts_at_work(*m_session, *m_state)) {
            Call own = call_in(context);
            // Its result is told to the program by its own calls.
            (void)wait_beside_captures(own);
        }
        lock.lock();
        // Those that came meanwhile wait for another turn.
        while (!m_waiting.empty()) {
            Access access = m_waiting.front();
            m_waiting.pop_front();
            access.waited = true;
            m_ready.push_back(access);
            if (access.fault == last) break;
        }
        faults::wake();
    }
}

void Pager::serve(Access access) {
    FaultAnswer answer = FaultAnswer::again;
    try {
        Wanted wanted;
        if (!serve_now(access, answer, wanted)) {
            if (wanted.stream != 0) return wait_for_stream(access, wanted);
            MutexLock lock(m_mutex);
            m_waiting.push_back(access);
            m_changed.notify_all();
            return;
        }
    } catch (const std::bad_alloc&) {
        answer = FaultAnswer::fails;
    }
    faults::answer(*access.fault, answer);
}

bool Pager::is_done(const Wanted& wanted) {
    if (!wanted.is_done && !is_known_done(call_in(wanted.from.context), wanted.stream)) return false;
    note_done_with(wanted.what.base, wanted.given);
    return true;
}

/// The server tells when the stream is done: other accesses are served meanwhile.
void Pager::wait_for_stream(Access access, const Wanted& wanted) {
    const auto wait_for_all = [&] {
        MutexLock lock(m_mutex);
        std::erase_if(m_watched, [&](const Access& one) { return one.watched == access.watched; });
        access.watched = 0;
        m_waiting.push_back(access);
        m_changed.notify_all();
    };
    {
        MutexLock lock(m_mutex);
        access.watched = ++m_watches;
        access.given = wanted.given;
        m_watched.push_back(access);
    }
    if (!m_session->take_watch()) return wait_for_all();
    Call own = call_in(wanted.from.context);
    // An error of the stream's is told to the program by its own calls.
    auto* background = new Watch([this, number = access.watched](CUresult result, const Waiter& reply) {
        {
            MutexLock lock(m_told_mutex);
            m_told.push_back(number);
        }
        faults::wake();
        m_session->end_watch(result, reply.context);
    });
    own.background = background;
    static_cast<void>(gen::issue_cuStreamSynchronize(own, wanted.stream));
    if (own.number != 0) return;  // registered: it is the session's
    m_session->end_watch(CUDA_SUCCESS, own.context);
    delete background;
    wait_for_all();
}

/// Accesses whose stream is done can be served.
void Pager::take_told() {
    std::vector<uint64_t> told;
    {
        MutexLock lock(m_told_mutex);
        told.swap(m_told);
    }
    for (const uint64_t number : told) {
        const auto found =
            std::find_if(m_watched.begin(), m_watched.end(), [number](const Access& one) { return one.watched == number; });
        if (found == m_watched.end()) continue;  // its patience has come to an end
        found->waited = true;
        m_ready.push_back(*found);
        m_watched.erase(found);
    }
}

bool start_pager(Call& call) {
    if (!Pager::instance().start(call)) return false;
    const bool first = SharedPages::note_in_use();
    LoadTurn loaded;
    loaded.begin_use(call);
    if (!first) return true;
    // Of what was given to streams before, nothing else is noted.
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    pages.given.note(std::nullopt, call.session.last_work());
    return true;
}

}  // namespace warpline::client
