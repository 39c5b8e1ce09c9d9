// One question for pages: what it asks, what is true of what the program has already, and what of the answer it gets.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "client/call/pager.h"
#include "client/gen/internal_calls.gen.h"
#include "client/session/session.h"
#include "common/base/fingerprint.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

constexpr size_t k_most_read_ranges = 512;
/// Of what the program has beside a busy device: both sides read it with each question.
constexpr uint64_t k_most_seen_bytes = 4ull << 20;

/// True if the stream that the memory is attached to may have been given something since it was found to be done.
bool has_new_work(SharedPages& pages, const Wanted& wanted) WL_REQUIRES(pages.mutex) {
    SharedRegion* shared = pages.find(wanted.what.base);
    const Attachment* attached = shared ? shared->attachment_at(wanted.what.base) : nullptr;
    return !attached || attached->stream != wanted.stream || attached->given != wanted.given;
}

}  // namespace

bool Pager::fetch(std::vector<Fetch>& fetches) {
    PageQuestion question{fetches};
    if (!begin_fetch(question)) return true;
    const CUresult result = read_all(question);
    // The server knows nothing of memory that was freed meanwhile: who still wants other memory asks again.
    if (result == CUDA_ERROR_INVALID_VALUE && leave_if_withdrawn(question)) return true;
    WL_LOG(debug, "client", "pages at {:#x} were fetched, with those of {} regions ahead", fetches.front().wanted.what.base,
           std::count_if(fetches.begin(), fetches.end(), [](const Fetch& one) { return one.ahead; }));
    const Usable usable = usable_after(result);
    if (result != CUDA_SUCCESS) tell_failure(question, result, usable);
    return end_fetch(question, result, usable);
}

/// What a failed context has left is undefined; the program may look at it nevertheless. What was lost with the session is not
/// there; memory that is the host's stays what the program has last seen of it, so that its other contents can be saved.
Pager::Usable Pager::usable_after(CUresult result) const {
    if (result == CUDA_SUCCESS) return Usable::all;
    const bool at_end = Process::instance().status() == CUDA_ERROR_DEINITIALIZED;  // destructors behind the goodbye
    const CUresult sticky = m_session->sticky_error();
    const bool is_lost = result == CUDA_ERROR_DEVICE_UNAVAILABLE || sticky == CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (at_end || (!is_lost && sticky != CUDA_SUCCESS)) return Usable::all;
    return is_lost ? Usable::own : Usable::none;
}

/// Once: a program that goes on comes to many pages.
void Pager::tell_failure(const PageQuestion& question, CUresult result, Usable usable) {
    if (std::exchange(m_told_failure, true)) return;
    const auto& first = question.fetches.front().wanted;
    const char* what = "; the access fails with SIGSEGV";
    if (usable == Usable::all) what = ": the context has failed";
    if (usable == Usable::own && first.from.region->sharing() == Sharing::concurrent)
        what = ": the session is lost, and page-locked memory stays as the program has it";
    WL_LOG(error, "client", "memory at {:#x} that the device has cannot be fetched (CUDA error {}){}", first.what.base,
           static_cast<int>(result), what);
}

/// What the program gets now may have been written behind what it has: a ring's index, and the data that it has looked at
/// before. So of what was fetched beside a busy device it keeps what is asked about with the same question, as far as it has
/// not changed: first of where it has come to last. What an instruction needs of two regions must not go with each other, or it
/// never ends.
void Pager::look_beside(SharedPages& pages, PageQuestion& question) {
    uint64_t room = k_most_seen_bytes;
    const auto look = [&](SharedRegion& shared, uint64_t least_bytes) WL_NO_THREAD_SAFETY_ANALYSIS {  // under the lock
        if (!shared.region->has_busy_units()) return;
        std::vector<AddressRange> kept;
        const auto changed = shared.region->keep_beside(std::max(room, least_bytes), kept);
        // Its result is that of a lost session, which the question behind it has as well.
        (void)write_to_device(call_in(0), shared, changed);
        for (const AddressRange& bytes : kept) {
            room -= std::min(room, bytes.size_bytes);
            question.seen.push_back({shared.region, bytes, shared.region->epoch(), shared.context});
        }
    };
    const uint64_t now = question.fetches.front().wanted.from.region->range().base;
    const auto known = std::find(m_needed.begin(), m_needed.end(), now);
    std::rotate(m_needed.begin(), known != m_needed.end() ? known : m_needed.end() - 1,
                known != m_needed.end() ? known + 1 : m_needed.end());
    m_needed.front() = now;
    for (const uint64_t base : m_needed) {
        const auto shared = pages.regions.find(base);
        if (shared == pages.regions.end()) continue;
        look(shared->second, 2 * shared->second.region->unit_bytes());  // what is not aligned lies in two
    }
    for (auto& [base, shared] : pages.regions)
        if (std::find(m_needed.begin(), m_needed.end(), base) == m_needed.end()) look(shared, 0);
}

bool Pager::leave_if_withdrawn(PageQuestion& question) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    const auto is_gone = [](const std::shared_ptr<PageRegion>& region) { return region->is_withdrawn(); };
    const bool any =
        std::any_of(question.fetches.begin(), question.fetches.end(),
                    [&](const Fetch& one) { return is_gone(one.wanted.from.region); }) ||
        std::any_of(question.seen.begin(), question.seen.end(), [&](const Seen& one) { return is_gone(one.region); });
    if (!any) return false;
    for (Fetch& one : question.fetches) {
        if (!one.out_of_date) one.wanted.from.region->end_fetch();
        one.out_of_date = true;
    }
    return true;
}

/// What has changed meanwhile the program has no more.
void Pager::drop_changed(SharedPages& pages, const PageQuestion& question) {
    std::vector<const Seen*> dropped;
    for (const Seen& seen : question.seen) {
        if (!seen.is_unchanged && seen.region->epoch() == seen.epoch) dropped.push_back(&seen);
    }
    for (const Seen* seen : dropped) {
        SharedRegion* shared = pages.find(seen->bytes.base);
        if (!shared || shared->region != seen->region) continue;
        const auto changed = seen->region->give_back(seen->bytes);
        (void)write_to_device(call_in(0), *shared, changed);
    }
}

bool Pager::begin_fetch(PageQuestion& question) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    bool any = false;
    const bool busy = is_device_busy(pages, *m_session, *m_state);
    // What the function has is as it was, and so is what it gets.
    const bool still = question.fetches.front().still && stands_still(pages, *m_session, *m_state);
    if (!still) look_beside(pages, question);
    for (Fetch& one : question.fetches) {
        // What others had when they were given away is older than this.
        if (one.while_busy)
            for (auto& [base, shared] : pages.regions) shared.region->forget_seen();
        // The device has been given something since it was found at rest: what is read now may be of before that is done.
        one.out_of_date = one.wanted.stream == 0 ? busy && !one.while_busy : has_new_work(pages, one.wanted);
        one.out_of_date = one.out_of_date || (one.still && !still);
        if (one.out_of_date) continue;
        any = true;
        if (one.while_busy && !still) pages.function.had_company = true;
        one.open = one.wanted.from.region->not_here(one.wanted.what);
        one.missing = one.wanted.from.region->missing(one.wanted.what);
        one.epoch = one.wanted.from.region->epoch();
        one.wanted.from.region->begin_fetch();
    }
    return any;
}

bool Pager::end_fetch(PageQuestion& question, CUresult result, Usable usable) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    const auto may_be_used = [usable](const PageRegion& region) {
        return usable == Usable::all || (usable == Usable::own && region.sharing() == Sharing::concurrent);
    };
    bool ok = true;
    for (Fetch& one : question.fetches) {
        if (one.out_of_date) continue;
        PageRegion& region = *one.wanted.from.region;
        region.end_fetch();
        // Work of other streams, which goes on all the time, does not concern what is attached to one.
        one.out_of_date = one.wanted.stream == 0 ? region.epoch() != one.epoch : has_new_work(pages, one.wanted);
    }
    // Before the program can see any of the answer.
    if (result == CUDA_SUCCESS) drop_changed(pages, question);
    for (Fetch& one : question.fetches) {
        PageRegion& region = *one.wanted.from.region;
        const bool is_usable = may_be_used(region);
        ok = ok && (one.ahead || is_usable);
        if (one.out_of_date || !is_usable) continue;
        if (!one.ahead) {
            // Not what it had, and has no more since.
            one.is_shown = question.is_steady || !one.while_busy || one.still;
            if (!one.is_shown) one.open = {one.if_unsteady};
            for (const AddressRange& units : one.open) ok = region.fetched(units, one.while_busy) && ok;
        } else if (result == CUDA_SUCCESS) {
            region.hold(one.wanted.what);
        }
    }
    return ok;
}

/// In as few questions as there are contexts, and messages can carry.
CUresult Pager::read_all(PageQuestion& question) {
    std::map<uint64_t, std::vector<PieceOfRegion>> by_context;
    for (const Fetch& one : question.fetches) {
        for (const AddressRange& bytes : one.missing)
            by_context[one.wanted.from.context].push_back({one.wanted.from.region.get(), bytes});
    }
    for (const auto& [context, pieces] : by_context) {
        if (CUresult result = read(context, pieces, question); result != CUDA_SUCCESS) return result;
    }
    ask_of_other_contexts(question);
    return CUDA_SUCCESS;
}

/// Each in its own, as everything is read: behind what was read, so that what is still so was so then. What cannot be asked
/// about is taken for changed.
void Pager::ask_of_other_contexts(PageQuestion& question) {
    std::set<uint64_t> contexts;
    for (const Seen& seen : question.seen) contexts.insert(seen.context);
    contexts.erase(question.fetches.front().wanted.from.context);
    const bool is_steady = question.is_steady;
    Bytes nothing;
    for (const uint64_t context : contexts) (void)ask(context, {}, CopyTarget::into(nothing), &question);
    question.is_steady = is_steady;
}

/// In pieces that a message can carry, into the second mapping.
CUresult Pager::ask(uint64_t context, const std::vector<uint64_t>& ranges, const CopyTarget& target, PageQuestion* question) {
    std::vector<uint64_t> about;
    std::vector<Seen*> asked;
    bool while_busy = false;
    for (size_t i = 0; question && i < question->seen.size(); ++i) {
        Seen& seen = question->seen[i];
        if (seen.context != context) continue;
        asked.push_back(&seen);
        const BytesView here(seen.region->at(seen.bytes.base), seen.bytes.size_bytes);
        about.insert(about.end(), {seen.bytes.base, seen.bytes.size_bytes, fingerprint(here)});
    }
    for (size_t i = 0; question && i < question->fetches.size(); ++i)
        while_busy = while_busy || (!ranges.empty() && question->fetches[i].while_busy && !question->fetches[i].still);
    Call own = call_in(context);
    gen::WlReadPagesValues said;
    const CUresult result = gen::request_wlReadPages(own, ranges, while_busy, about, target, said);
    if (result != CUDA_SUCCESS || !question) return result;
    question->is_steady = question->is_steady && said.atOnce;
    for (const uint64_t place : said.unchanged)
        if (place < asked.size()) asked[place]->is_unchanged = true;
    return result;
}

CUresult Pager::read(uint64_t context, const std::vector<PieceOfRegion>& all, PageQuestion& question) {
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
        // What the program has has to be looked at behind all of it.
        const bool is_last = left.empty() && context == question.fetches.front().wanted.from.context;
        question.is_steady = question.is_steady && left.empty();
        if (CUresult result = ask(context, asked, target, is_last ? &question : nullptr); result != CUDA_SUCCESS) return result;
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

}  // namespace warpline::client
