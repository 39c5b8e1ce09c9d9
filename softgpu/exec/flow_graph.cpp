// Finds blocks and the order in which lanes run through them.
#include "softgpu/exec/flow_graph.h"

#include <algorithm>

namespace warpline::softgpu::exec {

namespace {

using ptx::Opcode;

bool never_falls_through(const ptx::Instruction& instruction) {
    if (instruction.guard != ptx::k_no_reg) return false;
    switch (instruction.opcode) {
        case Opcode::bra:
        case Opcode::brx:
        case Opcode::ret:
        case Opcode::exit:
        case Opcode::trap: return true;
        default: return false;
    }
}

void add_targets(const ptx::Body& body, const ptx::Instruction& instruction, std::vector<uint32_t>& out) {
    for (const ptx::Operand& operand : body.operands_of(instruction)) {
        if (operand.symbol.kind == ptx::SymbolRef::Kind::label) {
            out.push_back(body.labels[operand.symbol.index].instruction);
        } else if (operand.symbol.kind == ptx::SymbolRef::Kind::targets) {
            for (const ptx::SymbolRef& entry : body.targets[operand.symbol.index].entries) {
                if (entry.kind == ptx::SymbolRef::Kind::label) out.push_back(body.labels[entry.index].instruction);
            }
        }
    }
}

/// Orders the blocks: strongly connected components in topological order, each loop's header first and the rest of the loop
/// ordered the same way without it (Bourdoncle's weak topological order). Iterative: bodies can have tens of thousands of
/// blocks.
class Orderer {
public:
    explicit Orderer(FlowGraph& graph) : m_graph(graph) {
        size_t n = graph.blocks.size();
        m_index.assign(n, 0);
        m_low.assign(n, 0);
        m_region.assign(n, 0);
        m_on_stack.assign(n, false);
    }

    void run() {
        if (m_graph.blocks.empty()) return;
        std::vector<uint32_t> all(m_graph.blocks.size());
        for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
        m_work.push_back({std::move(all), false});
        // The work list is a stack of regions still to be ordered, the next one on top: header blocks come out as single
        // regions.
        while (!m_work.empty()) {
            Region region = std::move(m_work.back());
            m_work.pop_back();
            if (region.nodes.size() == 1 || region.is_header) {
                mark_self_loop(region.nodes[0]);
                for (uint32_t node : region.nodes) m_graph.blocks[node].order = m_next++;
                continue;
            }
            split(region.nodes);
        }
    }

private:
    struct Region {
        std::vector<uint32_t> nodes;
        bool is_header;
    };
    struct Visit {
        uint32_t node;
        size_t edge;
    };

    void split(const std::vector<uint32_t>& nodes) {
        ++m_region_id;
        for (uint32_t node : nodes) {
            m_region[node] = m_region_id;
            m_index[node] = 0;
        }
        m_counter = 0;
        std::vector<std::vector<uint32_t>> components;  // successors first, so pushing them in this order puts the first on top
        for (uint32_t node : nodes) {
            if (m_index[node] == 0) visit(node, components);
        }
        for (auto& component : components) {
            if (component.size() == 1) {
                mark_self_loop(component[0]);
                m_work.push_back({std::move(component), false});
                continue;
            }
            for (uint32_t node : component) m_graph.blocks[node].in_loop = true;
            uint32_t header = header_of(component);
            std::vector<uint32_t> rest;
            for (uint32_t node : component) {
                if (node != header) rest.push_back(node);
            }
            std::sort(rest.begin(), rest.end());
            m_work.push_back({std::move(rest), false});
            m_work.push_back({{header}, true});
        }
    }

    void mark_self_loop(uint32_t node) {
        auto& block = m_graph.blocks[node];
        block.in_loop |= std::find(block.successors.begin(), block.successors.end(), node) != block.successors.end();
    }

    /// The block where the loop is entered: the one with an edge from outside, first in the text if there are several.
    uint32_t header_of(const std::vector<uint32_t>& component) {
        return *std::min_element(component.begin(), component.end(),
                                 [this](uint32_t a, uint32_t b) { return m_index[a] < m_index[b]; });
    }

    void visit(uint32_t root, std::vector<std::vector<uint32_t>>& components) {
        enter(root);
        while (!m_visits.empty()) {
            Visit& top = m_visits.back();
            const auto& successors = m_graph.blocks[top.node].successors;
            if (top.edge < successors.size()) {
                uint32_t next = successors[top.edge++];
                if (m_region[next] != m_region_id) continue;
                if (m_index[next] == 0) {
                    enter(next);
                } else if (m_on_stack[next]) {
                    m_low[top.node] = std::min(m_low[top.node], m_index[next]);
                }
                continue;
            }
            uint32_t node = top.node;
            m_visits.pop_back();
            if (!m_visits.empty()) m_low[m_visits.back().node] = std::min(m_low[m_visits.back().node], m_low[node]);
            if (m_low[node] == m_index[node]) pop_component(node, components);
        }
    }

    void enter(uint32_t node) {
        m_index[node] = m_low[node] = ++m_counter;
        m_stack.push_back(node);
        m_on_stack[node] = true;
        m_visits.push_back({node, 0});
    }

    void pop_component(uint32_t node, std::vector<std::vector<uint32_t>>& components) {
        components.emplace_back();
        for (;;) {
            uint32_t member = m_stack.back();
            m_stack.pop_back();
            m_on_stack[member] = false;
            components.back().push_back(member);
            if (member == node) return;
        }
    }

    FlowGraph& m_graph;
    std::vector<uint32_t> m_index, m_low, m_region, m_stack;
    std::vector<bool> m_on_stack;
    std::vector<Visit> m_visits;
    std::vector<Region> m_work;
    uint32_t m_region_id = 0, m_counter = 0, m_next = 0;
};

}  // namespace

bool ends_block(const ptx::Instruction& instruction) {
    switch (instruction.opcode) {
        case Opcode::bra:
        case Opcode::brx:
        case Opcode::call:
        case Opcode::ret:
        case Opcode::exit:
        case Opcode::trap: return true;
        default: return false;
    }
}

FlowGraph build_flow_graph(const ptx::Body& body) {
    FlowGraph graph;
    auto count = uint32_t(body.instructions.size());
    std::vector<bool> leader(count + 1, false);
    leader[0] = true;
    std::vector<uint32_t> targets;
    for (uint32_t i = 0; i < count; ++i) {
        if (!ends_block(body.instructions[i])) continue;
        leader[i + 1] = true;
        targets.clear();
        add_targets(body, body.instructions[i], targets);
        for (uint32_t target : targets) leader[target] = true;
    }
    graph.block_of.resize(count + 1);
    for (uint32_t i = 0; i < count; ++i) {
        if (leader[i]) {
            graph.blocks.emplace_back();
            graph.blocks.back().begin = i;
        }
        graph.block_of[i] = uint32_t(graph.blocks.size() - 1);
        graph.blocks.back().end = i + 1;
    }
    // The end of the text is a block too: a label may stand there, and falling off the end is a return.
    graph.blocks.emplace_back();
    graph.blocks.back().begin = graph.blocks.back().end = count;
    graph.block_of[count] = uint32_t(graph.blocks.size() - 1);
    for (uint32_t b = 0; b + 1 < graph.blocks.size(); ++b) {
        auto& block = graph.blocks[b];
        const ptx::Instruction& last = body.instructions[block.end - 1];
        targets.clear();
        if (ends_block(last)) add_targets(body, last, targets);
        block.falls_through = !never_falls_through(last);
        for (uint32_t target : targets) block.successors.push_back(graph.block_of[target]);
        if (block.falls_through) block.successors.push_back(b + 1);
        std::sort(block.successors.begin(), block.successors.end());
        block.successors.erase(std::unique(block.successors.begin(), block.successors.end()), block.successors.end());
        for (uint32_t successor : block.successors) graph.blocks[successor].predecessors++;
    }
    Orderer(graph).run();
    return graph;
}

}  // namespace warpline::softgpu::exec
