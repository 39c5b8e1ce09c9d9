// Which node of a graph stands for which of another one.
#include "server/objects/graph_model.h"

namespace warpline::server {

namespace {

/// Finds the nodes of one graph in another one of the same shape.
class Pairing {
public:
    Pairing(const GraphModel& newer, const GraphModel& original)
        : m_newer(newer), m_original(original), m_of(newer.nodes.size(), k_none), m_taken(original.nodes.size()) {}
    bool pair(const GraphModel::Part& newer, const GraphModel::Part& original);
    /// Of the newer graph's node: the original's. @pre pair() was true
    const GraphModel::Node& of(size_t index) const { return m_original.nodes[m_of[index]]; }

private:
    static constexpr size_t k_none = SIZE_MAX;
    static std::vector<size_t> last_of(const GraphModel& model, const GraphModel::Part& part);
    bool join(size_t newer, size_t original);

    const GraphModel& m_newer;
    const GraphModel& m_original;
    std::vector<size_t> m_of;
    std::vector<bool> m_taken;
    std::vector<size_t> m_todo;
};

/// The nodes of one graph on which none of its others depends.
std::vector<size_t> Pairing::last_of(const GraphModel& model, const GraphModel::Part& part) {
    std::vector<bool> is_last(part.count, true);
    for (size_t i = part.first; i < part.first + part.count; ++i) {
        const GraphModel::Node& node = model.nodes[i];
        for (size_t edge = 0; edge < node.edges; ++edge) is_last[node.before[edge] - part.first] = false;
    }
    std::vector<size_t> last;
    for (size_t i = 0; i < part.count; ++i) {
        if (is_last[i]) last.push_back(part.first + i);
    }
    return last;
}

/// True if they can be, or are already, one node.
bool Pairing::join(size_t newer, size_t original) {
    if (m_of[newer] != k_none || m_taken[original]) return m_of[newer] == original;
    const GraphModel::Node &now = m_newer.nodes[newer], &then = m_original.nodes[original];
    if (now.type != then.type || now.edges != then.edges || now.inside.size() != then.inside.size()) return false;
    if ((now.copy == nullptr) != (then.copy == nullptr)) return false;
    if (now.copy != nullptr && (now.copy->source == 0) != (then.copy->source == 0)) return false;
    m_of[newer] = original;
    m_taken[original] = true;
    m_todo.push_back(newer);
    return true;
}

bool Pairing::pair(const GraphModel::Part& newer, const GraphModel::Part& original) {
    if (newer.count != original.count) return false;
    const std::vector<size_t> last = last_of(m_newer, newer), last_then = last_of(m_original, original);
    if (last.size() != last_then.size()) return false;
    for (size_t i = 0; i < last.size(); ++i) {
        if (!join(last[i], last_then[i])) return false;
    }
    while (!m_todo.empty()) {
        const size_t next = m_todo.back();
        m_todo.pop_back();
        const GraphModel::Node &now = m_newer.nodes[next], &then = of(next);
        for (size_t i = 0; i < now.edges; ++i) {
            if (!join(now.before[i], then.before[i])) return false;
        }
    }
    for (size_t i = newer.first; i < newer.first + newer.count; ++i) {
        if (m_of[i] == k_none) return false;
        for (size_t k = 0; k < m_newer.nodes[i].inside.size(); ++k) {
            if (!pair(m_newer.nodes[i].inside[k], of(i).inside[k])) return false;
        }
    }
    return true;
}

}  // namespace

bool GraphModel::take_names(const GraphModel& original) {
    Pairing pairing(*this, original);
    if (!pairing.pair(whole, original.whole)) return false;
    for (size_t i = 0; i < nodes.size(); ++i) {
        const Node& then = pairing.of(i);
        nodes[i].handle = then.handle;
        nodes[i].top = then.top;
        nodes[i].graph = then.graph;
        nodes[i].enabled = then.enabled;
    }
    return true;
}

bool GraphModel::exchange_child(CUgraphNode node, const GraphModel& child) {
    Node* const outer = find(node);
    if (outer == nullptr || outer->type != CU_GRAPH_NODE_TYPE_GRAPH || outer->inside.size() != 1) return false;
    Pairing pairing(child, *this);
    if (!pairing.pair(child.whole, outer->inside.front())) return false;
    for (size_t i = 0; i < child.nodes.size(); ++i) {
        // One of the same shape: what differs is what the nodes are to do.
        Node& mine = nodes[static_cast<size_t>(&pairing.of(i) - nodes.data())];
        mine.copy = child.nodes[i].copy;
        mine.is_second = child.nodes[i].is_second;
        mine.ticket = child.nodes[i].ticket;
        mine.own_ticket = child.nodes[i].own_ticket;
        mine.asks = child.nodes[i].asks;
        mine.event = child.nodes[i].event;
    }
    return true;
}

}  // namespace warpline::server
