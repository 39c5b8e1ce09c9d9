// Fetching pages that the device has: which, in what order, and with how few questions.
#include <algorithm>
#include <optional>
#include <utility>

#include "client/call/pager.h"
#include "client/session/session.h"

namespace warpline::client {

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
    region.note_access(fault.address);
    region.take_held(fault.address);
    if (!region.is_in_place({fault.address, fault.size_bytes}, false)) return false;
    // The next ones will be written, too, as a rule.
    const bool ok = !fault.writes || region.make_writable({fault.address, std::max(window, fault.size_bytes)});
    pages.window_bytes = std::min(pages.window_bytes * 2, SharedPages::k_last_window);
    answer = ok ? FaultAnswer::again : FaultAnswer::fails;
    return true;
}

/// What an access of a function that a stream has called brings.
FunctionWindow::Choice Pager::choose_for_function(const SharedPages& pages, const SharedRegion& shared,
                                                  const PageFault& fault) {
    m_function.begin(pages.function.number);
    if (fault.wish == Wish::bring) return {{fault.address, fault.size_bytes}};
    const AddressRange region = shared.region->range();
    const bool all = fault.address - shared.wanted_here.base < shared.wanted_here.size_bytes;
    // Of one moment is only what comes with one question.
    if (all && shared.wanted_here.size_bytes <= k_most_read_bytes && !m_function.has_come_to(region))
        return {shared.wanted_here, FunctionWindow::k_last};
    return m_function.choose(region, shared.region->unit_bytes(), fault.address);
}

/// The question has looked at all that the program has, so that the time for that begins anew: how often the function asks, and
/// how long an answer takes, is no reason to give back what it has not even come to.
void Pager::end_for_function(SharedPages& pages, const PageFault& fault, const FunctionWindow::Choice& brought,
                             const Fetch& fetch) {
    const PageRegion& region = *fetch.wanted.from.region;
    if (fault.wish == Wish::access) m_function.note(region.range(), brought, fetch.is_shown);
    if (!fetch.while_busy) return;
    const bool looks_at_little = brought.what.size_bytes <= region.unit_bytes();
    constexpr auto k_until_it_returns = PageClock::time_point::max();
    const auto now = PageClock::now();
    const auto until = fetch.still ? k_until_it_returns : now + (looks_at_little ? m_pace.pause() : RefreshPace::k_slow);
    for (auto& [base, shared] : pages.regions)
        shared.stays_until = shared.stays_until == k_until_it_returns ? until : std::max(shared.stays_until, until);
}

bool Pager::serve_now(const Access& access, FaultAnswer& answer, Wanted& wanted) {
    SharedPages& pages = SharedPages::instance();
    const PageFault& fault = *access.fault;
    if (fault.wish == Wish::recall || fault.wish == Wish::recall_in_turns) {
        recall(fault.wish == Wish::recall_in_turns);
        return true;
    }
    if (fault.wish == Wish::mirrored) {
        read_mirrored();
        return true;
    }
    pages.counters.faults.fetch_add(1, std::memory_order_relaxed);
    const bool in_callback = m_session->host_calls().is_callback_thread(fault.thread);
    FunctionWindow::Choice chosen;
    for (;;) {
        bool must_wait = false, is_late = false, is_still = false;
        {
            MutexLock lock(pages.mutex);
            SharedRegion* shared = pages.find(fault.address);
            if (!shared) {
                answer = FaultAnswer::fails;
                return true;
            }
            note_order(pages, *shared, fault);
            if (!in_callback) shared->stays_until = {};
            PageRegion& region = *shared->region;
            const uint64_t window = window_at(pages, region);
            const bool was_held = region.is_held(fault.address);
            if (is_here(pages, region, fault, window, answer)) {
                if (was_held) m_parts.brought(m_parts.part_bytes());
                return true;
            }
            const AddressRange named{fault.address, fault.size_bytes};
            wanted = {*shared, fault.wish == Wish::bring ? named : AddressRange{fault.address / window * window, window}};
            if (fault.address - shared->wanted_here.base < shared->wanted_here.size_bytes)
                wanted.what = hull(named, shared->wanted_here);
            if (in_callback) {
                chosen = choose_for_function(pages, *shared, fault);
                wanted.what = chosen.what;
            }
            is_late = region.is_late(fault.address);
            is_still = in_callback && stands_still(pages, *m_session, *m_state);
            // What is attached to one stream is nobody else's, unless both sides write as they like by now.
            if (!in_callback && region.sharing() == Sharing::in_turns) narrow(*m_state, fault.address, *shared, wanted);
            must_wait = region.must_wait(named) && !access.waited && !in_callback;
        }
        if (wanted.stream != 0 && must_wait && !is_done(wanted)) return false;
        if (wanted.stream != 0 && access.watched != 0) note_done_with(fault.address, access.given);
        const bool busy = wanted.stream == 0 && is_busy();
        if (busy && must_wait) return false;
        if (busy && fault.wish == Wish::access && !in_callback) narrow_beside(fault.address, wanted);
        std::vector<Fetch> fetches{{wanted, busy}};
        fetches.front().still = busy && is_still;
        fetches.front().if_unsteady =
            fault.wish == Wish::bring ? wanted.what : wanted.from.region->units_of({fault.address, 1});
        if (fault.wish == Wish::access && !busy && wanted.stream == 0) add_next(pages, fetches);
        if (!fetch(fetches)) {
            answer = FaultAnswer::fails;
            return true;
        }
        if (fetches.front().out_of_date) continue;
        if (is_late) pages.counters.late.fetch_add(1, std::memory_order_relaxed);
        m_parts.brought(wanted.what.size_bytes);
        MutexLock lock(pages.mutex);
        pages.window_bytes = std::min(pages.window_bytes * 4, SharedPages::k_last_window);
        if (in_callback) end_for_function(pages, fault, chosen, fetches.front());
        if (!fault.writes || wanted.from.region->make_writable({fault.address, fault.size_bytes})) return true;
        answer = FaultAnswer::fails;
        return true;
    }
}

/// How much an access brings.
uint64_t Pager::window_at(const SharedPages& pages, const PageRegion& region) const {
    const bool is_part = m_parts.is_regular() && m_parts.is_first();
    return std::max(is_part ? std::min(pages.window_bytes, m_parts.part_bytes()) : pages.window_bytes, region.unit_bytes());
}

bool Pager::is_busy() { return is_device_busy(*m_session, *m_state); }

void Pager::narrow_beside(uint64_t address, Wanted& wanted) {
    const PageRegion& region = *wanted.from.region;
    const uint64_t before = std::exchange(m_beside, region.range().base);
    // Who looks again and again for an answer looks at little.
    if (m_pace.is_quick()) {
        wanted.what = region.units_of({address, 1});
    } else if (before != region.range().base) {
        // Who goes from one piece to another writes a step's parameters, say: he uses little of each.
        const uint64_t few = std::max(SharedPages::k_first_window, region.unit_bytes());
        wanted.what = {address / few * few, few};
    }
}

void Pager::note_order(SharedPages& pages, const SharedRegion& shared, const PageFault& fault) {
    const uint64_t base = shared.region->range().base;
    const SharedRegion* const before = base != m_succession.last() ? pages.find(m_succession.last()) : nullptr;
    const bool misses_rest = before && !before->region->missing(before->region->range()).empty();
    m_parts.came_to(base, fault.address - base, misses_rest);
    if (base == m_succession.last()) return;
    const auto behind = pages.regions.upper_bound(m_succession.last());
    m_succession.came_to(base, fault.address, behind != pages.regions.end() && behind->first == base);
}

std::optional<uint64_t> Pager::region_behind(SharedPages& pages, uint64_t last) const {
    if (const auto known = m_succession.next(last)) return known;
    const auto behind = pages.regions.upper_bound(last);
    if (behind == pages.regions.end()) return std::nullopt;
    // Where it goes is not known. What is little, and was used here, costs nothing to have.
    constexpr uint64_t k_little = 4096;
    const PageRegion& region = *behind->second.region;
    const auto is_little = [&region] {
        uint64_t bytes = 0;
        for (const AddressRange& range : region.bytes_of(region.range())) bytes += range.size_bytes;
        return bytes <= k_little && region.misses_used();
    };
    if (!m_succession.goes_on() && !is_little()) return std::nullopt;
    return behind->first;
}

void Pager::add_next(SharedPages& pages, std::vector<Fetch>& fetches) {
    // The second one is for what is here already: the order may lead round and round among that.
    constexpr size_t k_most_ahead = 64, k_most_looks = 128;
    MutexLock lock(pages.mutex);
    uint64_t room = pages.window_bytes;
    const auto take = [&room](const PageRegion& region, AddressRange what) {
        for (const AddressRange& range : region.missing(what)) room -= std::min(room, range.size_bytes);
    };
    take(*fetches.front().wanted.from.region, fetches.front().wanted.what);
    uint64_t last = fetches.front().wanted.from.region->range().base;
    for (size_t looks = 0; looks < k_most_looks && room >= SharedPages::k_first_window && fetches.size() <= k_most_ahead;
         ++looks) {
        const std::optional<uint64_t> next = region_behind(pages, last);
        SharedRegion* shared = next ? pages.find(*next) : nullptr;
        if (!shared || !shared->attached.empty()) return;
        if (shared->context != fetches.front().wanted.from.context) return;
        last = shared->region->range().base;
        const auto is_same = [last](const Fetch& one) { return one.wanted.from.region->range().base == last; };
        if (std::any_of(fetches.begin(), fetches.end(), is_same)) return;
        const uint64_t unit = std::max(SharedPages::k_first_window, shared->region->unit_bytes());
        const bool is_part = m_parts.is_regular() && m_parts.offset() < shared->region->range().size_bytes;
        const uint64_t at = is_part && *next == last ? last + m_parts.offset() : *next;
        const uint64_t begin = std::max(at / unit * unit, last), most = std::min(room, shared->region->range().end() - begin),
                       size = is_part ? std::min(most, m_parts.part_bytes()) : most;
        const AddressRange what = shared->region->units_of({begin, size});
        if (shared->region->holds_any() || shared->region->missing(what).empty()) continue;
        take(*shared->region, what);
        fetches.push_back({{*shared, what}, false, true});
    }
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
    read_mirrored();
    const bool busy = is_busy();
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
