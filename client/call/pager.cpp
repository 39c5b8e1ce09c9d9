// The threads behind accesses to pages that the device has: one fetches them, one waits for the device where that comes first.
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "client/abi/process.h"
#include "client/call/common.h"
#include "client/call/completion.h"
#include "client/gen/internal_calls.gen.h"
#include "client/gen/stream_calls.gen.h"
#include "client/managed/faults.h"
#include "client/session/session.h"
#include "client/session/watch.h"
#include "common/base/quiet_thread.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

using PageClock = std::chrono::steady_clock;

/// How long an access to managed memory waits for the device before it gets what is there: a kernel that waits for this very
/// access would never end.
constexpr std::chrono::seconds k_patience(2);
constexpr std::chrono::milliseconds k_refresh(5);
/// Registered memory travels whole. Where that is much, it is done for a fifth of the time at most.
constexpr uint64_t k_much_mirrored = 256ull << 10;
constexpr int k_mirror_pause = 4;
constexpr uint64_t k_most_read_bytes = 4ull << 20;
constexpr size_t k_most_read_ranges = 512;

/// An access that has not been answered.
struct Access {
    PageFault* fault = nullptr;
    bool waited = false;  ///< the device has been waited for, or for as long as there is patience
    PageClock::time_point since = PageClock::now();
    uint64_t watched = 0;  ///< number of the wait for the stream that the memory is attached to; 0: it waits for none
    uint64_t given = 0;    ///< what that stream had been given by then (Attachment)
};

/// What is to be fetched, and from whom.
struct Wanted {
    SharedRegion from;
    AddressRange what;
    uint64_t stream = 0;   ///< the memory is attached to this stream, which is done: whatever else runs, it does not use it
    uint64_t given = 0;    ///< to that stream (Attachment)
    bool is_done = false;  ///< it is known to be done with that
};

/// Of memory that is attached to a stream, only that. The caller has the lock of the pages.
void narrow(const State& state, uint64_t address, SharedRegion& shared, Wanted& wanted) {
    for (const AttachedPiece& piece : attached_pieces(state, shared, shared.region->range())) {
        if (piece.stream == 0 || address - piece.range.base >= piece.range.size_bytes) continue;
        const uint64_t begin = std::max(piece.range.base, wanted.what.base),
                       end = std::min(piece.range.end(), wanted.what.end());
        wanted.what = {begin, end - begin};
        wanted.stream = piece.stream;
        const Attachment* attached = shared.attachment_at(address);
        wanted.given = attached->given;
        wanted.is_done = attached->done == attached->given;
    }
}

/// A stream is done with what it had been given.
void note_done_with(uint64_t address, uint64_t given) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    SharedRegion* shared = pages.find(address);
    if (Attachment* attached = shared ? shared->attachment_at(address) : nullptr)
        attached->done = std::max(attached->done, std::min(given, attached->given));
}

class Pager {
public:
    static Pager& instance() {
        static auto* pager = new Pager;
        return *pager;
    }
    bool start(const Call& call) WL_EXCLUDES(m_mutex);

private:
    void run_fetching();
    void run_waiting() WL_EXCLUDES(m_mutex);
    void collect(std::deque<Access>& accesses) WL_EXCLUDES(m_mutex);
    void serve(Access access) WL_EXCLUDES(m_mutex);
    /// @returns false: the access has to wait for the device, or for the stream if one is set
    bool serve_now(const Access& access, FaultAnswer& answer, Wanted& wanted);
    /// True if the page is here: nothing is to be fetched.
    bool is_here(SharedPages& pages, PageRegion& region, const PageFault& fault, uint64_t window, FaultAnswer& answer)
        WL_REQUIRES(pages.mutex);
    bool fetch(const Wanted& wanted, bool while_busy, bool& out_of_date);
    bool is_done(const Wanted& wanted);
    void wait_for_stream(Access access, const Wanted& wanted) WL_EXCLUDES(m_mutex);
    void take_told() WL_EXCLUDES(m_told_mutex) WL_REQUIRES(m_mutex);
    CUresult read(uint64_t context, PageRegion& region, const std::vector<AddressRange>& ranges);
    void recall();
    void read_mirrored(bool busy);
    CUresult read_bytes(uint64_t context, uint64_t address, Bytes& bytes);
    void refresh();
    std::vector<uint64_t> busy_contexts();
    bool is_busy();
    Call call_in(uint64_t context) { return Call{cuda::CallId::wlReadPages, this_thread(), *m_session, *m_state, context}; }

    Session* m_session = nullptr;  // this and the next: set before the threads begin
    State* m_state = nullptr;
    bool m_told_failure = false;  // the fetching thread's
    PageClock::time_point m_refreshed{}, m_mirror_again{};
    Mutex m_mutex;
    bool m_started WL_GUARDED_BY(m_mutex) = false;
    std::deque<Access> m_waiting WL_GUARDED_BY(m_mutex);  // for the device
    std::deque<Access> m_watched WL_GUARDED_BY(m_mutex);  // for a stream
    uint64_t m_watches WL_GUARDED_BY(m_mutex) = 0;
    Mutex m_told_mutex;                                        // nothing else is locked with it: the receiving thread takes it
    std::vector<uint64_t> m_told WL_GUARDED_BY(m_told_mutex);  // waits for streams that are over
    std::deque<Access> m_ready WL_GUARDED_BY(m_mutex);         // have waited
    ConditionVariable m_changed;
};

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
            faults::wait(seen, sleeps_long ? 1000 : static_cast<int>(k_refresh.count()));
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
        for (uint64_t context : busy_contexts()) {
            Call own = call_in(context);
            // Its result is told to the program by its own calls.
            (void)synchronize_context(own);
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

/// Those that may still be working for the program.
std::vector<uint64_t> Pager::busy_contexts() {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    std::erase_if(pages.busy_contexts, [this](uint64_t token) {
        const Context* context = m_state->contexts.find(token);
        return !context || !context->active();
    });
    std::vector<uint64_t> busy;
    for (uint64_t token : pages.busy_contexts) {
        const Context* context = m_state->contexts.find(token);
        // Where no stream works beside the legacy one, all rest when that one does.
        const bool beside = m_state->works_beside_default.load(std::memory_order_relaxed);
        const uint64_t idle_at = beside ? context->idle_at.load(std::memory_order_acquire)
                                        : std::max(context->idle_at.load(std::memory_order_acquire),
                                                   context->default_idle_at.load(std::memory_order_acquire));
        if (m_session->last_work() >= idle_at) busy.push_back(token);
    }
    return busy;
}

bool Pager::is_busy() {
    {
        SharedPages& pages = SharedPages::instance();
        MutexLock lock(pages.mutex);
        if (pages.launching != 0) return true;
    }
    return !busy_contexts().empty();
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
    auto* background = new Watch([this, number = access.watched](CUresult result) {
        {
            MutexLock lock(m_told_mutex);
            m_told.push_back(number);
        }
        faults::wake();
        m_session->end_watch(result);
    });
    own.background = background;
    static_cast<void>(gen::issue_cuStreamSynchronize(own, wanted.stream));
    if (own.number != 0) return;  // registered: it is the session's
    m_session->end_watch(CUDA_SUCCESS);
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

bool Pager::is_here(SharedPages& pages, PageRegion& region, const PageFault& fault, uint64_t window, FaultAnswer& answer) {
    region.note_used(fault.address);
    if (!region.is_in_place({fault.address, fault.size_bytes}, false)) return false;
    // The next ones will be written, too, as a rule.
    const bool ok = !fault.writes || region.make_writable({fault.address, std::max(window, fault.size_bytes)});
    pages.window_bytes = std::min(pages.window_bytes * 2, SharedPages::k_last_window);
    answer = ok ? FaultAnswer::again : FaultAnswer::fails;
    return true;
}

bool Pager::serve_now(const Access& access, FaultAnswer& answer, Wanted& wanted) {
    SharedPages& pages = SharedPages::instance();
    const PageFault& fault = *access.fault;
    if (fault.wish == Wish::recall) {
        recall();
        return true;
    }
    if (fault.wish == Wish::mirrored) {
        read_mirrored(true);
        return true;
    }
    pages.counters.faults.fetch_add(1, std::memory_order_relaxed);
    const bool in_callback = m_session->host_calls().is_callback_thread(fault.thread);
    for (;;) {
        bool must_wait = false;
        {
            MutexLock lock(pages.mutex);
            SharedRegion* shared = pages.find(fault.address);
            if (!shared) {
                answer = FaultAnswer::fails;
                return true;
            }
            PageRegion& region = *shared->region;
            const uint64_t window = std::max(pages.window_bytes, region.unit_bytes());
            if (is_here(pages, region, fault, window, answer)) return true;
            const AddressRange named{fault.address, fault.size_bytes};
            wanted = {*shared, fault.wish == Wish::bring ? named : AddressRange{fault.address / window * window, window}};
            if (fault.address - shared->wanted_here.base < shared->wanted_here.size_bytes) wanted.what = shared->wanted_here;
            // What is attached to one stream is nobody else's, unless both sides write as they like by now.
            if (!in_callback && region.sharing() == Sharing::in_turns) narrow(*m_state, fault.address, *shared, wanted);
            must_wait = region.must_wait(named) && !access.waited && !in_callback;
        }
        if (wanted.stream != 0 && must_wait && !is_done(wanted)) return false;
        if (wanted.stream != 0 && access.watched != 0) note_done_with(fault.address, access.given);
        const bool busy = wanted.stream == 0 && is_busy();
        if (busy && must_wait) return false;
        bool out_of_date = false;
        if (!fetch(wanted, busy, out_of_date)) {
            answer = FaultAnswer::fails;
            return true;
        }
        if (out_of_date) continue;
        MutexLock lock(pages.mutex);
        pages.window_bytes = std::min(pages.window_bytes * 4, SharedPages::k_last_window);
        if (!fault.writes || wanted.from.region->make_writable({fault.address, fault.size_bytes})) return true;
        answer = FaultAnswer::fails;
        return true;
    }
}

bool Pager::fetch(const Wanted& wanted, bool while_busy, bool& out_of_date) {
    SharedPages& pages = SharedPages::instance();
    PageRegion& region = *wanted.from.region;
    const bool alone = wanted.stream != 0;
    std::vector<AddressRange> missing;
    uint64_t epoch = 0;
    {
        MutexLock lock(pages.mutex);
        // What a call that is about to be queued does to it is not to be told from here.
        if (pages.launching != 0 && !while_busy && !alone) {
            out_of_date = true;
            return true;
        }
        missing = region.missing(wanted.what);
        epoch = region.epoch();
    }
    const CUresult result = read(wanted.from.context, region, missing);
    // What a failed context has left is undefined; the program may look at it nevertheless.
    const bool at_end = Process::instance().status() == CUDA_ERROR_DEINITIALIZED;  // destructors behind the goodbye
    const bool context_failed =
        at_end || (result != CUDA_SUCCESS && result != CUDA_ERROR_DEVICE_UNAVAILABLE &&
                   m_session->sticky_error() != CUDA_SUCCESS && m_session->sticky_error() != CUDA_ERROR_DEVICE_UNAVAILABLE);
    if (result != CUDA_SUCCESS && !m_told_failure) {
        m_told_failure = true;
        WL_LOG(error, "client", "memory at {:#x} that the device has cannot be fetched (CUDA error {}){}", wanted.what.base,
               static_cast<int>(result), context_failed ? ": the context has failed" : "; the access fails with SIGSEGV");
    }
    if (result != CUDA_SUCCESS && !context_failed) return false;
    MutexLock lock(pages.mutex);
    // Work of other streams, which goes on all the time, does not concern what is attached to one.
    out_of_date = !alone && region.epoch() != epoch;
    return out_of_date || region.fetched(wanted.what, while_busy);
}

/// In pieces that a message can carry, into the second mapping.
CUresult Pager::read(uint64_t context, PageRegion& region, const std::vector<AddressRange>& ranges) {
    SharedPages::Counters& counters = SharedPages::instance().counters;
    std::vector<AddressRange> left(ranges.rbegin(), ranges.rend());
    while (!left.empty()) {
        std::vector<uint64_t> asked;
        std::vector<AddressRange> pieces;
        uint64_t total = 0;
        while (!left.empty() && total < k_most_read_bytes && pieces.size() < k_most_read_ranges) {
            AddressRange& range = left.back();
            const uint64_t bytes = std::min(range.size_bytes, k_most_read_bytes - total);
            asked.insert(asked.end(), {range.base, bytes});
            pieces.push_back({range.base, bytes});
            total += bytes;
            range = {range.base + bytes, range.size_bytes - bytes};
            if (range.size_bytes == 0) left.pop_back();
        }
        Bytes bytes;
        const CopyTarget target =
            pieces.size() == 1 ? CopyTarget::linear(region.at(pieces[0].base), total) : CopyTarget::into(bytes);
        Call own = call_in(context);
        if (CUresult result = gen::request_wlReadPages(own, asked, target); result != CUDA_SUCCESS) return result;
        uint64_t offset = 0;
        for (const AddressRange& piece : pieces) {
            if (pieces.size() == 1) break;
            if (offset + piece.size_bytes > bytes.size()) return CUDA_ERROR_UNKNOWN;
            std::memcpy(region.at(piece.base), bytes.data() + offset, piece.size_bytes);
            offset += piece.size_bytes;
        }
        counters.fetches.fetch_add(1, std::memory_order_relaxed);
        counters.fetched_bytes.fetch_add(total, std::memory_order_relaxed);
    }
    return CUDA_SUCCESS;
}

/// What the program has used between kernels it will use again, and the kernel of its machine can only find memory there that
/// is in place: read(2) into a page that is not ends with EFAULT.
void Pager::recall() {
    constexpr uint64_t k_most_recalled = 64ull << 10;
    SharedPages& pages = SharedPages::instance();
    std::vector<Wanted> wanted;
    {
        MutexLock lock(pages.mutex);
        uint64_t left = k_most_recalled;
        for (auto& [base, shared] : pages.regions) {
            for (const AddressRange& range : shared.region->used_before(left)) {
                left -= std::min(left, range.size_bytes);
                for (const AttachedPiece& piece : attached_pieces(*m_state, shared, range)) {
                    wanted.push_back({shared, piece.range});
                    narrow(*m_state, piece.range.base, shared, wanted.back());
                }
            }
        }
    }
    const bool busy = is_busy();
    read_mirrored(busy);
    for (const Wanted& one : wanted) {
        bool out_of_date = false;
        // What is attached to a stream that may not be done yet comes with an access, which waits for that.
        if (one.stream != 0 && !is_done(one)) continue;
        if (!fetch(one, busy && one.stream == 0, out_of_date) || out_of_date) continue;
        MutexLock lock(pages.mutex);
        one.from.region->recalled(one.what);
    }
}

CUresult Pager::read_bytes(uint64_t context, uint64_t address, Bytes& bytes) {
    SharedPages::Counters& counters = SharedPages::instance().counters;
    for (uint64_t offset = 0; offset < bytes.size();) {
        const uint64_t size = std::min<uint64_t>(k_most_read_bytes, bytes.size() - offset);
        const std::vector<uint64_t> asked{address + offset, size};
        Call own = call_in(context);
        const CUresult result = gen::request_wlReadPages(own, asked, CopyTarget::linear(bytes.data() + offset, size));
        if (result != CUDA_SUCCESS) return result;
        counters.fetches.fetch_add(1, std::memory_order_relaxed);
        counters.fetched_bytes.fetch_add(size, std::memory_order_relaxed);
        offset += size;
    }
    return CUDA_SUCCESS;
}

/// What the device has changed of the program's own memory: these bytes are written there, and no others.
void Pager::read_mirrored(bool busy) {
    SharedPages& pages = SharedPages::instance();
    std::vector<std::pair<std::shared_ptr<MirroredRange>, uint64_t>> all;
    const uint64_t work = m_session->last_work();
    {
        MutexLock lock(pages.mutex);
        for (const auto& [base, mirrored] : pages.mirrored)
            if (!mirrored->twin.empty() && mirrored->read_work != work) all.emplace_back(mirrored, mirrored->epoch);
    }
    for (const auto& [mirrored, epoch] : all) {
        Bytes bytes(mirrored->size_bytes);
        if (read_bytes(mirrored->context, mirrored->device, bytes) != CUDA_SUCCESS) return;
        MutexLock lock(pages.mutex);
        const auto still = pages.mirrored.find(mirrored->host);
        if (mirrored->epoch != epoch || still == pages.mirrored.end() || still->second != mirrored) continue;
        auto* here = reinterpret_cast<std::byte*>(mirrored->host);
        for (uint64_t i = 0; i < bytes.size(); ++i)
            if (bytes[i] != mirrored->twin[i]) here[i] = bytes[i];
        mirrored->twin = std::move(bytes);
        if (!busy) mirrored->read_work = work;
    }
}

/// Both sides see what the other one writes, at the next access.
void Pager::refresh() {
    const auto now = PageClock::now();
    if (now - m_refreshed < k_refresh) return;
    m_refreshed = now;
    uint64_t mirrored_bytes = 0;
    {
        SharedPages& pages = SharedPages::instance();
        MutexLock lock(pages.mutex);
        for (const auto& [base, mirrored] : pages.mirrored) mirrored_bytes += mirrored->size_bytes;
    }
    if (mirrored_bytes != 0 && now >= m_mirror_again && is_busy()) {
        (void)write_all_mirrored(call_in(0));
        read_mirrored(true);
        if (mirrored_bytes > k_much_mirrored) {
            const auto done = PageClock::now();
            m_mirror_again = done + k_mirror_pause * (done - now);
        }
    }
    {
        SharedPages& pages = SharedPages::instance();
        MutexLock lock(pages.mutex);
        const auto is_busy_region = [](const auto& item) { return item.second.region->has_busy_units(); };
        if (std::none_of(pages.regions.begin(), pages.regions.end(), is_busy_region)) return;
    }
    (void)refresh_pages(call_in(0));
}

}  // namespace

bool start_pager(const Call& call) { return Pager::instance().start(call); }

}  // namespace warpline::client
