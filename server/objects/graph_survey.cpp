// Which copies and host nodes of a graph have to do with each other.
#include "server/objects/graph_survey.h"

#include <map>

namespace warpline::server {

namespace {

class Surveyor {
public:
    Surveyor(const GraphModel& model, GraphSurvey& survey) : m_nodes(model.nodes), m_model(model), m_survey(survey) {}
    const char* conclude();

private:
    using Entry = GraphSurvey::Entry;
    bool writes(size_t index) const {
        return m_nodes[index].copy != nullptr && m_nodes[index].copy->source == 0 && m_nodes[index].enabled;
    }
    Entry entry_of(size_t index) const;
    const char* conclude_targets();
    const char* conclude_source(size_t index);
    HostCopyPtr last_written(const std::vector<size_t>& copies, size_t reader) const;
    const char* lay_over(Entry& entry, size_t index, const std::vector<size_t>& copies) const;
    const char* check_bodies() const;

    const std::vector<GraphModel::Node>& m_nodes;
    const GraphModel& m_model;
    GraphSurvey& m_survey;
    std::map<size_t, Entry> m_targets;
};

Surveyor::Entry Surveyor::entry_of(size_t index) const {
    const GraphModel::Node& node = m_nodes[index];
    Entry entry;
    entry.node = node.handle;
    entry.graph = node.graph;
    entry.copy = node.copy;
    entry.in_body = node.body != 0;
    entry.is_second = node.is_second;
    entry.enabled = node.enabled;
    for (size_t i = 0; i < node.edges; ++i) entry.before.push_back(m_nodes[node.before[i]].handle);
    return entry;
}

/// Which host nodes expect a copy to the client to have arrived, and which events tell of it.
const char* Surveyor::conclude_targets() {
    for (size_t i = 0; i < m_nodes.size() && !m_targets.empty(); ++i) {
        const bool records = m_nodes[i].type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
        if (m_nodes[i].ticket == nullptr && !records) continue;
        bool late = false;
        for (size_t earlier : m_model.all_before(i)) {
            const auto target = m_targets.find(earlier);
            if (target == m_targets.end()) continue;
            late = true;
            if (!records) target->second.tickets.push_back(m_nodes[i].ticket);
        }
        if (!records || !late) continue;
        if (m_nodes[i].body != 0)
            return "a graph that copies to host memory and then records an event in the body of a conditional node";
        m_survey.late_records.push_back({m_nodes[i].handle, m_nodes[i].event});
    }
    return nullptr;
}

/// A copy from the client's memory behind host nodes is given its bytes when those have run. What the graph itself has copied
/// to that memory before has arrived there by then, or is taken from where it is here.
const char* Surveyor::conclude_source(size_t index) {
    Entry entry = entry_of(index);
    const auto touches = [&](const auto& target) { return target.second.copy->touches(*entry.copy); };
    // Which nodes come before it is looked for only where it may matter: that takes long in a large graph.
    const bool may_matter = m_survey.host_functions || std::any_of(m_targets.begin(), m_targets.end(), touches);
    const std::vector<size_t> before = may_matter ? m_model.all_before(index) : std::vector<size_t>{};
    for (size_t i : before) {
        if (m_nodes[i].ticket != nullptr) entry.tickets.push_back(m_nodes[i].ticket);
    }
    std::sort(entry.tickets.begin(), entry.tickets.end());
    std::vector<size_t> written_before;
    for (size_t i : before) {
        if (!writes(i) || !m_nodes[i].copy->touches(*entry.copy)) continue;
        const std::vector<HostCalls::Ticket*>& told = m_targets.at(i).tickets;
        const bool is_told =
            std::find_first_of(told.begin(), told.end(), entry.tickets.begin(), entry.tickets.end()) != told.end();
        if (!is_told) written_before.push_back(i);
    }
    if (!written_before.empty()) {
        entry.from = last_written(written_before, index);
        if (entry.from != nullptr) {
            entry.tickets.clear();
        } else if (const char* refusal = lay_over(entry, index, written_before)) {
            return refusal;
        }
    }
    // Then all host nodes before it have run, too.
    if (entry.from == nullptr && m_nodes[index].asks != nullptr) {
        entry.asks = m_nodes[index].asks;
        entry.tickets.clear();
    }
    m_survey.entries.push_back(std::move(entry));
    return nullptr;
}

/// Of some copies to the client's memory the one that comes after all the others, if it has written all that `reader` reads.
HostCopyPtr Surveyor::last_written(const std::vector<size_t>& copies, size_t reader) const {
    const HostCopy& reads = *m_nodes[reader].copy;
    for (size_t last : copies) {
        const HostCopyPtr& copy = m_nodes[last].copy;
        if (!m_model.is_run_with(last, reader) || !copy->is_linear() || !reads.is_linear() || !reads.is_within(*copy)) continue;
        const std::vector<size_t> before = m_model.all_before(last);
        const auto comes_before = [&](size_t one) {
            return one == last || std::find(before.begin(), before.end(), one) != before.end();
        };
        if (std::all_of(copies.begin(), copies.end(), comes_before)) return copy;
    }
    return nullptr;
}

/// Before the copy is made, what these have written is to be laid over what the client has sent.
const char* Surveyor::lay_over(Entry& entry, size_t index, const std::vector<size_t>& copies) const {
    if (m_nodes[index].body != 0)
        return "in the body of a conditional node, a copy from host memory of which the graph has written a part";
    for (size_t i : m_model.in_order(copies)) {
        const HostCopyPtr& copy = m_nodes[i].copy;
        if (!copy->rows || !entry.copy->rows)
            return "a graph that copies to host memory and from there again, and a client that tells of no rows";
        if (std::find(entry.over.begin(), entry.over.end(), copy) == entry.over.end()) entry.over.push_back(copy);
    }
    return nullptr;
}

/// What a body copies to host memory that is not the device's, too, arrives behind the graph, and not in its next turn: there
/// it can be read where it lies here only.
const char* Surveyor::check_bodies() const {
    for (const Entry& reads : m_survey.entries) {
        if (!reads.in_body || !reads.is_source() || reads.from != nullptr) continue;
        for (const auto& [index, target] : m_targets) {
            if (target.in_body && target.copy->touches(*reads.copy))
                return "in bodies of conditional nodes, copies to host memory and from there that kernels cannot use";
        }
    }
    return nullptr;
}

const char* Surveyor::conclude() {
    for (size_t i = 0; i < m_nodes.size(); ++i) {
        if (m_nodes[i].copy != nullptr && m_nodes[i].copy->source == 0) m_targets[i] = entry_of(i);
        const bool calls = m_nodes[i].ticket != nullptr || m_nodes[i].asks != nullptr;
        m_survey.host_functions = m_survey.host_functions || calls;
    }
    const char* refusal = conclude_targets();
    if (refusal != nullptr) return refusal;
    std::vector<size_t> targets;
    for (const auto& [index, target] : m_targets) targets.push_back(index);
    // Nodes are told in any order, and those of child graphs behind all others; of two copies to one place the last one stays.
    for (size_t index : m_model.in_order(std::move(targets))) {
        Entry& entry = m_targets.at(index);
        std::sort(entry.tickets.begin(), entry.tickets.end());
        m_survey.entries.push_back(entry);
    }
    for (size_t i = 0; i < m_nodes.size() && refusal == nullptr; ++i) {
        if (m_nodes[i].copy != nullptr && m_nodes[i].copy->source != 0) refusal = conclude_source(i);
    }
    return refusal != nullptr ? refusal : check_bodies();
}

}  // namespace

const char* survey_graph(const GraphModel& model, GraphSurvey& survey) { return Surveyor(model, survey).conclude(); }

}  // namespace warpline::server
