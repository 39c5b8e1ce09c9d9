// Choosing pages that come along with a wait, and giving them to the program.
#include "client/call/pages_along.h"

#include <algorithm>
#include <map>
#include <utility>

#include "client/call/mirrored.h"
#include "client/session/connection_to_server.h"
#include "client/session/session.h"

namespace warpline::client {

namespace {

struct Kept {
    Mutex mutex;
    std::map<uint64_t, std::pair<uint64_t, std::shared_ptr<PagesAlong>>> by_event WL_GUARDED_BY(mutex);
};
Kept& kept() {
    static auto* made = new Kept;  // never destroyed: calls come after the end of main
    return *made;
}
constexpr size_t k_most_kept = 64;

}  // namespace

void PagesAlong::choose(const Call& call, bool for_later) {
    if (!call.session.calls().uses(config::Optimisation::prefetch)) return;
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    m_news = call.session.news();
    choose_pages(call, pages, for_later);
    if (!for_later) choose_mirrored(call, pages);
}

void PagesAlong::choose_pages(const Call& call, SharedPages& pages, bool for_later) {
    PageRegion::Room room;
    constexpr size_t k_most_pieces = 256;
    for (auto& [base, shared] : pages.regions) {
        // What is attached has waits of its own; and what is used in turns is not the program's while anything goes on.
        const bool concurrent = shared.region->sharing() == Sharing::concurrent;
        if (shared.context != call.context || !shared.attached.empty()) continue;
        if (for_later && !(concurrent && std::exchange(shared.was_copied, false))) continue;
        uint64_t ask = 0;
        for (const AddressRange& units : shared.region->asked_along(room, for_later, ask)) {
            Piece piece{shared.region, units, 0, ask, shared.region->arrivals(), shared.region->epoch()};
            for (const AddressRange& bytes : shared.region->bytes_of(units)) {
                m_ranges.insert(m_ranges.end(), {bytes.base, bytes.size_bytes});
                piece.size_bytes += bytes.size_bytes;
            }
            m_pieces.push_back(std::move(piece));
        }
        if (m_pieces.size() >= k_most_pieces) return;
    }
}

void PagesAlong::choose_mirrored(const Call& call, SharedPages& pages) {
    constexpr size_t k_most_mirrors = 256;
    uint64_t room = 64 << 10;
    const uint64_t work = call.session.last_work();
    for (const auto& [base, mirrored] : pages.mirrored) {
        const bool is_wanted =
            mirrored->context == call.context && !mirrored->read_only && !mirrored->twin.empty() && mirrored->read_work != work;
        if (!is_wanted || mirrored->size_bytes > room) continue;
        if (m_mirrors.size() == k_most_mirrors) return;
        Mirror mirror{mirrored, {}, mirrored->changes, work};
        std::vector<MirroredRange::Asked> asked;
        mirrored->plan(mirror.parts, asked);
        if (!asked.empty()) continue;
        for (const AddressRange& part : mirror.parts)
            m_ranges.insert(m_ranges.end(), {mirrored->device + part.base, part.size_bytes});
        room -= mirrored->size_bytes;
        m_mirrors.push_back(std::move(mirror));
    }
}

void PagesAlong::put_mirrored_in_place(SharedPages& pages, BytesView left, bool busy) {
    if (m_mirrors.empty()) return;
    for (Mirror& mirror : m_mirrors) {
        MirroredRange& range = *mirror.range;
        uint64_t size_bytes = 0;
        for (const AddressRange& part : mirror.parts) size_bytes += part.size_bytes;
        if (size_bytes > left.size()) return;
        const BytesView came = left.first(size_bytes);
        left = left.subspan(size_bytes);
        pages.counters.fetched_bytes.fetch_add(size_bytes, std::memory_order_relaxed);
        const auto found = pages.mirrored.find(range.host);
        const bool is_there = found != pages.mirrored.end() && found->second == mirror.range;
        // Whether what was written to the device since is in what has come is not to be told.
        if (!is_there || range.is_being_read || range.changes != mirror.changes) continue;
        (void)take_over(range, mirror.parts, came);
        if (!busy) range.read_work = mirror.work;
        mirror.has_come = true;
    }
    const bool all = std::all_of(m_mirrors.begin(), m_mirrors.end(), [](const Mirror& one) { return one.has_come; });
    if (all && m_mirrors.size() == pages.mirrored.size()) pages.mirrored_seen = std::chrono::steady_clock::now();
}

bool PagesAlong::has_brought(const MirroredRange& mirrored) const {
    return std::any_of(m_mirrors.begin(), m_mirrors.end(),
                       [&mirrored](const Mirror& one) { return one.has_come && one.range.get() == &mirrored; });
}

void PagesAlong::leave_out_changed(SharedPages& pages) {
    for (Piece& piece : m_pieces) {
        const PageRegion& region = *piece.region;
        const SharedRegion* shared = pages.find(piece.units.base);
        const bool was_given = region.sharing() == Sharing::in_turns && region.epoch() != piece.epoch;
        piece.is_of_use = shared && shared->region == piece.region && !was_given && region.arrivals() == piece.arrivals &&
                          !region.is_being_fetched();
    }
}

void PagesAlong::put_in_place(SharedPages& pages, bool busy) {
    uint64_t offset = 0;
    for (const Piece& piece : m_pieces) {
        if (piece.size_bytes > bytes.size() - offset) return;
        const BytesView part = BytesView(bytes).subspan(offset, piece.size_bytes);
        offset += piece.size_bytes;
        if (!piece.is_of_use) continue;
        (void)piece.region->arrived(piece.units, part, piece.ask, busy);
        if (SharedRegion* shared = pages.find(piece.units.base))
            shared->stays_until = std::chrono::steady_clock::now() + SharedPages::k_stay;
    }
    pages.counters.fetched_bytes.fetch_add(offset, std::memory_order_relaxed);
    put_mirrored_in_place(pages, BytesView(bytes).subspan(offset), busy);
}

void PagesAlong::keep(uint64_t event, uint64_t record, std::shared_ptr<PagesAlong> along) {
    Kept& all = kept();
    MutexLock lock(all.mutex);
    if (all.by_event.size() >= k_most_kept && !all.by_event.contains(event)) all.by_event.clear();
    all.by_event[event] = {record, std::move(along)};
}

std::shared_ptr<PagesAlong> PagesAlong::take(uint64_t event, uint64_t record) {
    Kept& all = kept();
    MutexLock lock(all.mutex);
    const auto found = all.by_event.find(event);
    if (found == all.by_event.end() || found->second.first != record) return nullptr;
    auto along = std::move(found->second.second);
    all.by_event.erase(found);
    return along && along->has_come.load(std::memory_order_acquire) ? along : nullptr;
}

}  // namespace warpline::client
