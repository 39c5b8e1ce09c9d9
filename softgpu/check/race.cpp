// Who accessed each word of memory last, and whether that races with the next access.
#include "softgpu/check/race.h"

#include <algorithm>

namespace warpline::softgpu::check {

namespace {

template <typename Clocks>
void join(Clocks& into, const Clocks& from) {
    for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

template <typename F>
void for_lanes(uint32_t mask, F&& f) {
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) f(uint32_t(__builtin_ctz(rest)));
}

}  // namespace

RaceDetector::RaceDetector(uint32_t shared_bytes, uint32_t threads)
    : m_threads((threads + k_lanes - 1) / k_lanes * k_lanes),
      m_cells((shared_bytes + k_word - 1) / k_word * k_word),
      m_split(m_cells.size() / k_word),
      m_views(m_threads) {
    m_clock.fill(1);
}

void RaceDetector::order_all() {
    m_base = m_clock;
    for (uint32_t& clock : m_clock) clock++;
    m_released.clear();
    m_one_address = false;
}

void RaceDetector::order_some(std::span<const uint32_t> arrived, std::span<const uint32_t> waited) {
    Clocks met{};
    for (uint32_t w = 0; w < arrived.size(); ++w) {
        if (arrived[w] == 0) continue;
        for_lanes(arrived[w], [&](uint32_t lane) { join(met, m_views[w * k_lanes + lane].warps); });
        met[w] = std::max(met[w], m_clock[w]++);
    }
    for (uint32_t w = 0; w < waited.size(); ++w) {
        for_lanes(waited[w], [&](uint32_t lane) {
            View& view = m_views[w * k_lanes + lane];
            join(view.warps, met);
            for (uint32_t& clock : view.lanes) clock = std::max(clock, met[w]);
        });
    }
}

void RaceDetector::order_warp(uint32_t warp, uint32_t members) {
    View met;
    for_lanes(members, [&](uint32_t lane) {
        join(met.lanes, m_views[warp * k_lanes + lane].lanes);
        join(met.warps, m_views[warp * k_lanes + lane].warps);
    });
    for_lanes(members, [&](uint32_t lane) { met.lanes[lane] = m_clock[warp]; });
    for_lanes(members, [&](uint32_t lane) { m_views[warp * k_lanes + lane] = met; });
    m_clock[warp]++;
}

RaceDetector::Clocks& RaceDetector::clocks_at(uint64_t address) {
    if (!m_one_address && m_released.size() >= k_most_addresses) {
        Clocks all{};
        for (const auto& [at, clocks] : m_released) join(all, clocks);
        m_released.clear();
        m_released[0] = all;
        m_one_address = true;
    }
    return m_released[m_one_address ? 0 : address / k_word];
}

void RaceDetector::acquire(uint32_t thread, uint64_t address) {
    auto found = m_released.find(m_one_address ? 0 : address / k_word);
    if (found == m_released.end()) return;
    View& view = m_views[thread];
    join(view.warps, found->second);
    const uint32_t own = found->second[thread / k_lanes];
    for (uint32_t& clock : view.lanes) clock = std::max(clock, own);
}

void RaceDetector::release(uint32_t thread, uint64_t address) {
    Clocks& clocks = clocks_at(address);
    join(clocks, m_views[thread].warps);
    const uint32_t warp = thread / k_lanes;
    clocks[warp] = std::max(clocks[warp], m_clock[warp]++);
}

bool RaceDetector::is_before(const Access& earlier, uint32_t thread) const {
    const uint32_t warp = earlier.thread / k_lanes;
    if (earlier.thread == thread || earlier.clock <= m_base[warp]) return true;
    const View& view = m_views[thread];
    return earlier.clock <= (warp == thread / k_lanes ? view.lanes[earlier.thread % k_lanes] : view.warps[warp]);
}

bool RaceDetector::conflicts(const Access& earlier, uint32_t thread, Strength strength) const {
    if (earlier.strength == Strength::none) return false;
    if (earlier.strength == Strength::strong && strength == Strength::strong) return false;
    return !is_before(earlier, thread);
}

bool RaceDetector::access_cell(Cell& cell, uint32_t thread, bool writes, Strength strength, const Site* site,
                               Conflict& conflict) {
    const Access now{site, m_clock[thread / k_lanes], uint16_t(thread), strength};
    bool found = conflicts(cell.write, thread, strength);
    if (found) {
        conflict.finding = writes ? Finding::write_after_write : Finding::read_after_write;
        conflict.site = cell.write.site;
        conflict.thread = cell.write.thread;
    }
    if (writes) {
        for (Access& read : cell.reads) {
            if (!found && conflicts(read, thread, strength)) {
                found = true;
                conflict.finding = Finding::write_after_read;
                conflict.site = read.site;
                conflict.thread = read.thread;
            }
            read = Access{};
        }
        cell.write = now;
        return found;
    }
    Access& last = cell.reads[0];
    if (last.strength != Strength::none && last.thread != thread) {
        const bool same_warp = last.thread / k_lanes == thread / k_lanes;
        cell.reads[same_warp ? 1 : 2] = last;
        if (!same_warp) cell.reads[1] = Access{};
    }
    last = now;
    return found;
}

/// Distance of the cells to look at: 4 if the word has only been accessed whole, 1 if not.
uint32_t RaceDetector::cells_of(uint32_t word, uint32_t size_bytes) {
    if (m_split[word]) return 1;
    if (size_bytes >= k_word) return k_word;
    m_split[word] = true;
    for (uint32_t byte = 1; byte < k_word; ++byte) m_cells[word * k_word + byte] = m_cells[word * k_word];
    return 1;
}

bool RaceDetector::access(uint32_t thread, uint32_t offset, uint32_t size_bytes, bool writes, Strength strength,
                          const Site* site, Conflict& conflict) {
    bool any = false;
    for (uint32_t at = offset, end = offset + size_bytes; at < end && at < m_cells.size();) {
        const uint32_t step = cells_of(at / k_word, size_bytes);
        Conflict here;
        here.offset = at;
        if (access_cell(m_cells[at], thread, writes, strength, site, here) && !any) {
            conflict = here;
            any = true;
        }
        at += step;
    }
    return any;
}

}  // namespace warpline::softgpu::check
