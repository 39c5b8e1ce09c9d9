// Live ranges of registers, and a linear scan over them.
#include "softgpu/exec/slots.h"

#include <algorithm>
#include <map>
#include <queue>

namespace warpline::softgpu::exec {

namespace {

constexpr uint32_t k_none = UINT32_MAX;

struct Interval {
    uint32_t reg = 0, begin = k_none, end = 0;
    void cover(uint32_t position) {
        begin = std::min(begin, position);
        end = std::max(end, position);
    }
};

/// Which registers are alive at the borders of blocks. Only registers that occur in more than one block take part.
class Liveness {
public:
    Liveness(const FlowGraph& graph, const std::vector<RegisterUse>& uses, size_t reg_count) : m_graph(graph) {
        number_global_registers(uses, reg_count);
        m_words = (m_registers.size() + 63) / 64;
        size_t total = m_words * graph.blocks.size();
        m_upward.assign(total, 0);
        m_kill.assign(total, 0);
        m_in.assign(total, 0);
        fill_local_sets(uses);
        solve();
    }

    template <typename F>
    void for_live_in(uint32_t block, F&& f) const {
        for_bits(m_in.data() + block * m_words, f);
    }
    template <typename F>
    void for_live_out(uint32_t block, F&& f) const {
        for (uint32_t successor : m_graph.blocks[block].successors) for_bits(m_in.data() + successor * m_words, f);
    }

private:
    template <typename F>
    void for_bits(const uint64_t* words, F&& f) const {
        for (size_t w = 0; w < m_words; ++w) {
            for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) f(m_registers[w * 64 + size_t(__builtin_ctzll(bits))]);
        }
    }

    void number_global_registers(const std::vector<RegisterUse>& uses, size_t reg_count) {
        std::vector<uint32_t> first_block(reg_count, k_none);
        m_number.assign(reg_count, k_none);
        // A register that is read in its only block before it is written there is alive around a loop.
        std::vector<bool> written(reg_count, false);
        for (const RegisterUse& use : uses) {
            uint32_t block = m_graph.block_of[use.instruction];
            bool global = (first_block[use.reg] != k_none && first_block[use.reg] != block) ||
                          (!written[use.reg] && (!use.is_def || use.partial));
            if (use.is_def && !use.partial) written[use.reg] = true;
            if (first_block[use.reg] == k_none) first_block[use.reg] = block;
            if (global && m_number[use.reg] == k_none) {
                m_number[use.reg] = uint32_t(m_registers.size());
                m_registers.push_back(use.reg);
            }
        }
    }

    void fill_local_sets(const std::vector<RegisterUse>& uses) {
        for (const RegisterUse& use : uses) {
            uint32_t number = m_number[use.reg];
            if (number == k_none) continue;
            size_t word = m_graph.block_of[use.instruction] * m_words + number / 64;
            uint64_t bit = 1ull << (number % 64);
            if (use.is_def && !use.partial) {
                m_kill[word] |= bit;
            } else if ((m_kill[word] & bit) == 0) {
                m_upward[word] |= bit;
            }
        }
    }

    void solve() {
        std::vector<std::vector<uint32_t>> predecessors(m_graph.blocks.size());
        for (uint32_t b = 0; b < m_graph.blocks.size(); ++b) {
            for (uint32_t s : m_graph.blocks[b].successors) predecessors[s].push_back(b);
        }
        std::vector<uint32_t> work;
        std::vector<bool> queued(m_graph.blocks.size(), true);
        for (uint32_t b = 0; b < m_graph.blocks.size(); ++b) work.push_back(b);
        std::sort(work.begin(), work.end(),
                  [this](uint32_t a, uint32_t b) { return m_graph.blocks[a].order < m_graph.blocks[b].order; });
        while (!work.empty()) {
            uint32_t block = work.back();
            work.pop_back();
            queued[block] = false;
            bool changed = false;
            for (size_t w = 0; w < m_words; ++w) {
                uint64_t out = 0;
                for (uint32_t s : m_graph.blocks[block].successors) out |= m_in[s * m_words + w];
                uint64_t in = m_upward[block * m_words + w] | (out & ~m_kill[block * m_words + w]);
                changed |= in != m_in[block * m_words + w];
                m_in[block * m_words + w] = in;
            }
            if (!changed) continue;
            for (uint32_t p : predecessors[block]) {
                if (!queued[p]) work.push_back(p);
                queued[p] = true;
            }
        }
    }

    const FlowGraph& m_graph;
    size_t m_words = 0;
    std::vector<uint32_t> m_number;     ///< by RegId
    std::vector<uint32_t> m_registers;  ///< the reverse
    std::vector<uint64_t> m_upward, m_kill, m_in;
};

std::vector<Interval> live_intervals(const FlowGraph& graph, const std::vector<RegisterUse>& uses, size_t reg_count) {
    std::vector<Interval> by_reg(reg_count);
    for (uint32_t i = 0; i < reg_count; ++i) by_reg[i].reg = i;
    for (const RegisterUse& use : uses) by_reg[use.reg].cover(use.instruction);
    Liveness liveness(graph, uses, reg_count);
    for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
        uint32_t begin = graph.blocks[b].begin;
        uint32_t last = graph.blocks[b].end == begin ? begin : graph.blocks[b].end - 1;
        liveness.for_live_in(b, [&](uint32_t reg) { by_reg[reg].cover(begin); });
        liveness.for_live_out(b, [&](uint32_t reg) { by_reg[reg].cover(last); });
    }
    std::vector<Interval> out;
    for (const Interval& interval : by_reg) {
        if (interval.begin != k_none) out.push_back(interval);
    }
    std::sort(out.begin(), out.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    return out;
}

}  // namespace

SlotAssignment assign_slots(const FlowGraph& graph, const std::vector<RegisterUse>& uses,
                            const std::vector<uint32_t>& row_bytes) {
    SlotAssignment out;
    out.slot_of.assign(row_bytes.size(), -1);
    std::map<uint32_t, std::vector<int32_t>> free_slots;  // by row bytes
    auto later_end = [](const Interval& a, const Interval& b) { return a.end > b.end; };
    std::priority_queue<Interval, std::vector<Interval>, decltype(later_end)> active(later_end);
    // Predicates are packed at the front, so that all other rows stay aligned to cache lines.
    std::vector<Interval> intervals = live_intervals(graph, uses, row_bytes.size());
    uint32_t predicate_top = 0, top = 0, live = 0;
    for (const Interval& interval : intervals) {
        while (!active.empty() && active.top().end < interval.begin) {
            uint32_t reg = active.top().reg;
            free_slots[row_bytes[reg]].push_back(out.slot_of[reg]);
            live -= row_bytes[reg] / 128;
            active.pop();
        }
        uint32_t bytes = row_bytes[interval.reg];
        auto& free = free_slots[bytes];
        uint32_t& end = bytes == k_predicate_row_bytes ? predicate_top : top;
        if (free.empty()) {
            out.slot_of[interval.reg] = int32_t(end);
            end += bytes;
        } else {
            out.slot_of[interval.reg] = free.back();
            free.pop_back();
        }
        live += bytes / 128;
        out.peak_registers = std::max(out.peak_registers, live);
        active.push(interval);
    }
    uint32_t predicates = (predicate_top + 63) / 64 * 64;
    for (const Interval& interval : intervals) {
        if (row_bytes[interval.reg] != k_predicate_row_bytes) out.slot_of[interval.reg] += int32_t(predicates);
    }
    out.frame_bytes = predicates + top;
    return out;
}

}  // namespace warpline::softgpu::exec
