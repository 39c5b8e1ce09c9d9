// Fetching pages that the device has: which, in what order, and with how few questions.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "client/call/pager.h"
#include "client/gen/internal_calls.gen.h"
#include "client/session/session.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

constexpr size_t k_most_read_ranges = 512;

}  // namespace

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

void note_done_with(uint64_t address, uint64_t given) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    SharedRegion* shared = pages.find(address);
    if (Attachment* attached = shared ? shared->attachment_at(address) : nullptr)
        attached->done = std::max(attached->done, std::min(given, attached->given));
}

bool Pager::is_here(SharedPages& pages, PageRegion& region, const PageFault& fault, uint64_t window, FaultAnswer& answer) {
    region.note_used(fault.address);
    region.take_held(fault.address);
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
    if (fault.wish == Wish::recall || fault.wish == Wish::recall_in_turns) {
        recall(fault.wish == Wish::recall_in_turns);
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
            note_order(pages, *shared, fault);
            shared->stays_until = {};
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
        // Who looks again and again for an answer looks at little.
        if (busy && m_pace.is_quick() && fault.wish == Wish::access)
            wanted.what = wanted.from.region->units_of({fault.address, 1});
        std::vector<Fetch> fetches{{wanted, busy}};
        if (fault.wish == Wish::access && !busy && wanted.stream == 0) add_next(pages, fetches);
        if (!fetch(fetches)) {
            answer = FaultAnswer::fails;
            return true;
        }
        if (fetches.front().out_of_date) continue;
        MutexLock lock(pages.mutex);
        pages.window_bytes = std::min(pages.window_bytes * 4, SharedPages::k_last_window);
        if (!fault.writes || wanted.from.region->make_writable({fault.address, fault.size_bytes})) return true;
        answer = FaultAnswer::fails;
        return true;
    }
}

void Pager::note_order(SharedPages& pages, const SharedRegion& shared, const PageFault& fault) {
    const uint64_t base = shared.region->range().base;
    if (base == m_succession.last()) return;
    const auto behind = pages.regions.upper_bound(m_succession.last());
    m_succession.came_to(base, fault.address, behind != pages.regions.end() && behind->first == base);
}

void Pager::add_next(SharedPages& pages, std::vector<Fetch>& fetches) {
    constexpr size_t k_most_ahead = 16;
    MutexLock lock(pages.mutex);
    uint64_t room = pages.window_bytes;
    const auto take = [&room](const PageRegion& region, AddressRange what) {
        for (const AddressRange& range : region.missing(what)) room -= std::min(room, range.size_bytes);
    };
    take(*fetches.front().wanted.from.region, fetches.front().wanted.what);
    uint64_t last = fetches.front().wanted.from.region->range().base;
    while (room >= SharedPages::k_first_window && fetches.size() <= k_most_ahead) {
        std::optional<uint64_t> next = m_succession.next(last);
        if (const auto behind = pages.regions.upper_bound(last);
            !next && m_succession.goes_on() && behind != pages.regions.end())
            next = behind->first;
        SharedRegion* shared = next ? pages.find(*next) : nullptr;
        if (!shared || !shared->attached.empty() || shared->region->sharing() != Sharing::in_turns) return;
        if (shared->context != fetches.front().wanted.from.context) return;
        last = shared->region->range().base;
        const auto is_same = [last](const Fetch& one) { return one.wanted.from.region->range().base == last; };
        if (std::any_of(fetches.begin(), fetches.end(), is_same)) return;
        const uint64_t unit = std::max(SharedPages::k_first_window, shared->region->unit_bytes());
        const uint64_t begin = std::max(*next / unit * unit, last),
                       size = std::min(room, shared->region->range().end() - begin);
        const AddressRange what = shared->region->units_of({begin, size});
        if (shared->region->holds_any() || shared->region->missing(what).empty()) continue;
        take(*shared->region, what);
        fetches.push_back({{*shared, what}, false, true});
    }
}

bool Pager::fetch(std::vector<Fetch>& fetches) {
    if (!begin_fetch(fetches)) return true;
    const CUresult result = read_all(fetches);
    WL_LOG(debug, "client", "pages at {:#x} were fetched, with those of {} regions ahead", fetches.front().wanted.what.base,
           std::count_if(fetches.begin(), fetches.end(), [](const Fetch& one) { return one.ahead; }));
    // What a failed context has left is undefined; the program may look at it nevertheless.
    const bool at_end = Process::instance().status() == CUDA_ERROR_DEINITIALIZED;  // destructors behind the goodbye
    const bool context_failed =
        at_end || (result != CUDA_SUCCESS && result != CUDA_ERROR_DEVICE_UNAVAILABLE &&
                   m_session->sticky_error() != CUDA_SUCCESS && m_session->sticky_error() != CUDA_ERROR_DEVICE_UNAVAILABLE);
    if (result != CUDA_SUCCESS && !m_told_failure) {
        m_told_failure = true;
        WL_LOG(error, "client", "memory at {:#x} that the device has cannot be fetched (CUDA error {}){}",
               fetches.front().wanted.what.base, static_cast<int>(result),
               context_failed ? ": the context has failed" : "; the access fails with SIGSEGV");
    }
    return end_fetch(fetches, result, result == CUDA_SUCCESS || context_failed);
}

bool Pager::is_busy() { return is_device_busy(*m_session, *m_state); }

bool Pager::begin_fetch(std::vector<Fetch>& fetches) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    bool any = false;
    for (Fetch& one : fetches) {
        // What a call that is about to be queued does to it is not to be told from here.
        one.out_of_date = pages.launching != 0 && !one.while_busy && one.wanted.stream == 0;
        if (one.out_of_date) continue;
        any = true;
        one.missing = one.wanted.from.region->missing(one.wanted.what);
        one.epoch = one.wanted.from.region->epoch();
        one.wanted.from.region->begin_fetch();
    }
    return any;
}

bool Pager::end_fetch(std::vector<Fetch>& fetches, CUresult result, bool may_be_used) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    bool ok = may_be_used;
    for (Fetch& one : fetches) {
        if (one.out_of_date) continue;
        PageRegion& region = *one.wanted.from.region;
        region.end_fetch();
        // Work of other streams, which goes on all the time, does not concern what is attached to one.
        one.out_of_date = one.wanted.stream == 0 && region.epoch() != one.epoch;
        if (one.out_of_date || !may_be_used) continue;
        if (!one.ahead)
            ok = region.fetched(one.wanted.what, one.while_busy) && ok;
        else if (result == CUDA_SUCCESS)
            region.hold(one.wanted.what);
    }
    return ok;
}

/// In as few questions as there are contexts, and messages can carry.
CUresult Pager::read_all(std::vector<Fetch>& fetches) {
    std::map<uint64_t, std::vector<PieceOfRegion>> by_context;
    for (const Fetch& one : fetches) {
        for (const AddressRange& bytes : one.missing)
            by_context[one.wanted.from.context].push_back({one.wanted.from.region.get(), bytes});
    }
    for (const auto& [context, pieces] : by_context) {
        if (CUresult result = read(context, pieces); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

/// In pieces that a message can carry, into the second mapping.
CUresult Pager::read(uint64_t context, const std::vector<PieceOfRegion>& all) {
    SharedPages::Counters& counters = SharedPages::instance().counters;
    std::vector<PieceOfRegion> left(all.rbegin(), all.rend());
    while (!left.empty()) {
        std::vector<uint64_t> asked;
        std::vector<PieceOfRegion> pieces;
        uint64_t total = 0;
        while (!left.empty() && total < k_most_read_bytes && pieces.size() < k_most_read_ranges) {
            AddressRange& range = left.back().bytes;
            const uint64_t bytes = std::min(range.size_bytes, k_most_read_bytes - total);
            asked.insert(asked.end(), {range.base, bytes});
            pieces.push_back({left.back().region, {range.base, bytes}});
            total += bytes;
            range = {range.base + bytes, range.size_bytes - bytes};
            if (range.size_bytes == 0) left.pop_back();
        }
        Bytes bytes;
        const PieceOfRegion& first = pieces.front();
        const CopyTarget target =
            pieces.size() == 1 ? CopyTarget::linear(first.region->at(first.bytes.base), total) : CopyTarget::into(bytes);
        Call own = call_in(context);
        if (CUresult result = gen::request_wlReadPages(own, asked, target); result != CUDA_SUCCESS) return result;
        uint64_t offset = 0;
        for (const PieceOfRegion& piece : pieces) {
            if (pieces.size() == 1) break;
            if (offset + piece.bytes.size_bytes > bytes.size()) return CUDA_ERROR_UNKNOWN;
            std::memcpy(piece.region->at(piece.bytes.base), bytes.data() + offset, piece.bytes.size_bytes);
            offset += piece.bytes.size_bytes;
        }
        counters.fetches.fetch_add(1, std::memory_order_relaxed);
        counters.fetched_bytes.fetch_add(total, std::memory_order_relaxed);
    }
    return CUDA_SUCCESS;
}

/// What the program has used between kernels it will use again, and the kernel of its machine can only find memory there that
/// is in place: read(2) into a page that is not ends with EFAULT.
void Pager::recall(bool in_turns) {
    SharedPages& pages = SharedPages::instance();
    std::vector<Wanted> wanted;
    {
        MutexLock lock(pages.mutex);
        PageRegion::Room room;
        for (auto& [base, shared] : pages.regions) {
            if (in_turns && shared.region->sharing() != Sharing::in_turns) continue;
            for (const AddressRange& range : shared.region->used_before(room)) {
                for (const AttachedPiece& piece : attached_pieces(*m_state, shared, range)) {
                    wanted.push_back({shared, piece.range});
                    narrow(*m_state, piece.range.base, shared, wanted.back());
                }
            }
        }
    }
    const bool busy = is_busy();
    read_mirrored(busy);
    std::vector<Fetch> fetches;
    for (const Wanted& one : wanted) {
        // What is attached to a stream that may not be done yet comes with an access, which waits for that.
        if (one.stream == 0 || is_done(one)) fetches.push_back({one, busy && one.stream == 0});
    }
    if (fetches.empty() || !fetch(fetches)) return;
    MutexLock lock(pages.mutex);
    for (const Fetch& one : fetches)
        if (!one.out_of_date) one.wanted.from.region->recalled(one.wanted.what);
}

}  // namespace warpline::client
