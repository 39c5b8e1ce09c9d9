// What the program has of memory that the device may be writing to in this moment.
#include <sys/mman.h>

#include <algorithm>

#include "client/managed/page_region.h"

namespace warpline::client {

namespace {

/// What is told apart when it is asked about again.
constexpr uint64_t k_piece_bytes = 16ull << 10;

}  // namespace

std::vector<AddressRange> PageRegion::give_back(AddressRange what, bool in_time) {
    std::vector<AddressRange> out;
    const AddressRange units = units_of(what);
    if (m_busy_units == 0 || units.size_bytes == 0) return out;
    ++m_epoch;
    for_runs(
        index_of(units.base), index_of(units.end() - 1) + 1, [](uint8_t state) { return (state & k_busy) != 0; },
        [&](size_t begin, size_t end) {
            protect(begin, end, PROT_NONE);
            changes(begin, end, out);
            const int after = (m_sharing == Sharing::in_turns ? k_wait : 0) | (in_time ? k_late : 0);
            for (size_t unit = begin; unit < end; ++unit) {
                note_changed(unit);
                set(unit, static_cast<uint8_t>((m_states[unit] & k_used) | after));
            }
        });
    return out;
}

std::vector<AddressRange> PageRegion::keep_beside(uint64_t most_bytes, std::vector<AddressRange>& kept) {
    std::vector<AddressRange> out;
    if (m_busy_units == 0) return out;
    const auto append = [&out](const std::vector<AddressRange>& more) { out.insert(out.end(), more.begin(), more.end()); };
    // From where the program came last it goes on, as a rule; that it came to what is before that is seen by an access.
    const uint64_t from = units_of({std::max(m_came_to, m_range.base), 1}).base;
    const uint64_t to = from + std::min(most_bytes / m_unit_bytes * m_unit_bytes, m_range.end() - from);
    append(give_back({m_range.base, from - m_range.base}));
    append(give_back({to, m_range.end() - to}));
    if (m_busy_units == 0) return out;
    std::vector<AddressRange> runs;
    for_runs(
        index_of(from), index_of(to - 1) + 1, [](uint8_t state) { return (state & k_busy) != 0; },
        [&](size_t begin, size_t end) {
            runs.push_back({address_of(begin), std::min(address_of(end), m_range.end()) - address_of(begin)});
        });
    for (const AddressRange& run : runs) {
        append(write_back(run));
        const uint64_t piece = std::max(k_piece_bytes, m_unit_bytes);
        for (uint64_t at = run.base; at < run.end(); at += piece) {
            const auto bytes = bytes_of({at, std::min(piece, run.end() - at)});
            kept.insert(kept.end(), bytes.begin(), bytes.end());
        }
    }
    return out;
}

}  // namespace warpline::client
