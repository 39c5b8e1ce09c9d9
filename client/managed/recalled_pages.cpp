// What the program will probably use again, and what of it comes along with a wait.
#include <sys/mman.h>

#include <cstring>

#include "client/managed/page_region.h"

namespace warpline::client {

namespace {

/// How often a unit is fetched without being used before it has to share the little room of what was used long ago. That it is
/// used is seen where it is changed, or where it has not come along; not where it is only read.
constexpr uint8_t k_most_chances = 32;

}  // namespace

void PageRegion::note_used(uint64_t address) {
    const size_t unit = index_of(address);
    m_used_units += (m_states[unit] & k_used) == 0;
    m_states[unit] |= k_used;
    if (m_chances.empty()) m_chances.resize(m_states.size());
    m_chances[unit] = k_most_chances;
}

bool PageRegion::misses_used() const {
    const auto missed = [](uint8_t state) { return (state & (k_used | k_valid)) == k_used; };
    return m_used_units != 0 && std::any_of(m_states.begin(), m_states.end(), missed);
}

bool PageRegion::misses_lately_used() const {
    if (m_used_units == 0) return false;
    for (size_t unit = 0; unit < m_states.size(); ++unit)
        if ((m_states[unit] & (k_used | k_valid)) == k_used && m_chances[unit] != 0) return true;
    return false;
}

std::vector<AddressRange> PageRegion::used_before(Room& room, uint8_t not_these, uint8_t but_these) {
    std::vector<AddressRange> out;
    if (m_used_units == 0) return out;
    for (size_t unit = 0; unit < m_states.size() && room.lately_bytes + room.before_bytes >= m_unit_bytes; ++unit) {
        const uint8_t state = m_states[unit];
        if ((state & k_used) == 0 || ((state & not_these) != 0 && (state & but_these) == 0)) continue;
        uint64_t& left = m_chances[unit] != 0 ? room.lately_bytes : room.before_bytes;
        if (left < m_unit_bytes) continue;
        left -= m_unit_bytes;
        m_chances[unit] -= m_chances[unit] != 0;
        const uint64_t begin = address_of(unit), end = std::min(address_of(unit + 1), m_range.end());
        if (!out.empty() && out.back().end() == begin)
            out.back().size_bytes += end - begin;
        else
            out.push_back({begin, end - begin});
    }
    return out;
}

std::vector<AddressRange> PageRegion::asked_along(Room& room, bool here_too, uint64_t& ask) {
    // What was never handed over has no copy to tell the program's changes by.
    auto units = here_too ? used_before(room, k_fresh, 0) : used_before(room, k_valid, k_busy);
    if (units.empty()) return units;
    ask = ++m_asks;
    if (m_changed.empty()) {
        m_changed.resize(m_states.size());
        m_away.resize(m_states.size());
    }
    for (const AddressRange& range : units) {
        for (size_t unit = index_of(range.base); unit <= index_of(range.end() - 1); ++unit)
            if ((m_states[unit] & k_valid) == 0) m_away[unit] = m_asks;
    }
    return units;
}

void PageRegion::note_changed(size_t unit) {
    if ((m_states[unit] & k_dirty) != 0 && !m_changed.empty()) m_changed[unit] = m_asks;
}

std::vector<AddressRange> PageRegion::bytes_of(AddressRange units) const {
    std::vector<AddressRange> out;
    within_extents(units.base, units.end(), out);
    return out;
}

bool PageRegion::arrived(AddressRange units, BytesView bytes, uint64_t ask, bool while_busy) {
    bool ok = true;
    std::vector<AddressRange> here;
    for (const AddressRange& range : bytes_of(units)) {
        for (uint64_t begin = range.base; begin < range.end();) {
            const size_t unit = index_of(begin);
            const uint64_t end = std::min(address_of(unit + 1), range.end());
            const BytesView part = bytes.first(end - begin);
            bytes = bytes.subspan(end - begin);
            // What a copy was given before the question was waited for with it, in the order of its stream.
            const bool may_wait = (m_states[unit] & k_wait) != 0 && m_away[unit] != ask;
            const bool is_open = (m_states[unit] & k_valid) == 0 && !(may_wait && while_busy);
            if (is_open) {
                std::byte* const own = at(begin);
                const std::byte* const twin = m_twins + (begin - m_range.base);
                // Written to the device since it was asked, or on its way there.
                const bool changed = m_changed[unit] >= ask;
                for (uint64_t i = 0; changed && i < part.size(); ++i)
                    if (own[i] == twin[i]) own[i] = part[i];
                if (!changed) std::memcpy(own, part.data(), part.size());
                if (here.empty() || here.back().base != address_of(unit)) here.push_back({address_of(unit), m_unit_bytes});
            }
            begin = end;
        }
    }
    for (const AddressRange& unit : here) ok = ok && fetched(unit, while_busy) && recalled(unit);
    return ok;
}

void PageRegion::forget_seen() {
    for (size_t unit = 0; m_seen_units != 0 && unit < m_states.size(); ++unit)
        set(unit, static_cast<uint8_t>(m_states[unit] & ~k_seen));
}

bool PageRegion::see_again() {
    if (m_seen_units == 0) return true;
    ++m_arrivals;
    bool ok = true;
    for_runs(
        0, m_states.size(), [](uint8_t state) { return (state & (k_seen | k_used)) == (k_seen | k_used); },
        [&](size_t begin, size_t end) {
            const uint64_t from = address_of(begin), to = std::min(address_of(end), m_range.end());
            std::memcpy(m_twins + (from - m_range.base), at(from), to - from);
            ok = protect(begin, end, PROT_READ | PROT_WRITE) && ok;
            for (size_t unit = begin; ok && unit < end; ++unit) set(unit, k_used | k_valid | k_dirty | k_busy);
        });
    return ok;
}

void PageRegion::hold(AddressRange what) {
    m_held = units_of(what);
    m_held_epoch = m_epoch;
}

void PageRegion::take_held(uint64_t address) {
    if (!is_held(address)) return;
    fetched(m_held, false);
    m_held = {};
}

bool PageRegion::recalled(AddressRange what) {
    const AddressRange units = units_of(what);
    bool ok = true;
    for (uint64_t address = units.base; ok && address < units.end(); address += m_unit_bytes) {
        const size_t unit = index_of(address);
        if ((m_states[unit] & (k_valid | k_dirty)) != k_valid) continue;
        ok = make_writable({address, 1});
    }
    return ok;
}

}  // namespace warpline::client
