// Walking a graph and those inside it.
#include "server/objects/graph_survey.h"

#include <algorithm>
#include <map>

namespace warpline::server {

namespace {

constexpr size_t k_max_surveyed_nodes = 1u << 20;
constexpr int k_max_depth = 32;

#define WL_DRIVER_TRY(expression)                        \
    do {                                                 \
        const CUresult wl_result = (expression);         \
        if (wl_result != CUDA_SUCCESS) return wl_result; \
    } while (false)

/// A node, flattened: what comes directly before it, by index. A child graph's node comes behind all of the child's.
struct Node {
    CUgraphNode handle = nullptr;
    CUgraphNode top = nullptr;
    CUgraph graph = nullptr;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    bool in_body = false;
    std::vector<size_t> before;
    HostCopyPtr copy;
    HostCalls::Ticket* ticket = nullptr;
};

class Surveyor {
public:
    Surveyor(const Driver& driver, HostCalls& host_calls, SurveyLookup& lookup)
        : m_driver(driver), m_host_calls(host_calls), m_lookup(lookup) {}

    CUresult read(CUgraph graph, CUgraphNode top, const std::vector<size_t>& outer, bool in_body, int depth,
                  std::vector<size_t>& made);
    CUresult conclude(GraphSurvey& survey);
    const char* refusal() const { return m_refusal; }

private:
    CUresult nodes_of(CUgraph graph, std::vector<CUgraphNode>& nodes) const;
    CUresult edges_of(CUgraph graph, std::vector<CUgraphNode>& from, std::vector<CUgraphNode>& to) const;
    CUresult read_node(Node& node);
    CUresult read_inside(size_t index, int depth);
    std::vector<size_t> all_before(size_t index) const;
    CUresult conclude_source(GraphSurvey& survey, size_t index);
    HostCopyPtr last_written(const std::vector<size_t>& copies, const HostCopy& reads) const;
    CUresult lay_over(GraphSurvey::Entry& entry, size_t index, const std::vector<size_t>& copies);
    CUresult note_record(GraphSurvey& survey, size_t index);
    GraphSurvey::Entry entry_of(size_t index) const;
    CUresult refuse(const char* why) {
        m_refusal = why;
        return CUDA_ERROR_NOT_SUPPORTED;
    }

    const Driver& m_driver;
    HostCalls& m_host_calls;
    SurveyLookup& m_lookup;
    std::vector<Node> m_nodes;
    const char* m_refusal = nullptr;
};

CUresult Surveyor::nodes_of(CUgraph graph, std::vector<CUgraphNode>& nodes) const {
    if (m_driver->cuGraphGetNodes == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    size_t count = 0;
    WL_DRIVER_TRY(m_driver->cuGraphGetNodes(graph, nullptr, &count));
    if (count + m_nodes.size() > k_max_surveyed_nodes) return CUDA_ERROR_OUT_OF_MEMORY;
    nodes.resize(count);
    return count == 0 ? CUDA_SUCCESS : m_driver->cuGraphGetNodes(graph, nodes.data(), &count);
}

CUresult Surveyor::edges_of(CUgraph graph, std::vector<CUgraphNode>& from, std::vector<CUgraphNode>& to) const {
    std::vector<CUgraphEdgeData> data;
    const auto ask = [&](size_t* count) {
        CUgraphNode* first = from.empty() ? nullptr : from.data();
        CUgraphNode* second = to.empty() ? nullptr : to.data();
        if (m_driver->cuGraphGetEdges_v2 != nullptr)
            return m_driver->cuGraphGetEdges_v2(graph, first, second, data.empty() ? nullptr : data.data(), count);
        if (m_driver->cuGraphGetEdges != nullptr) return m_driver->cuGraphGetEdges(graph, first, second, count);
        return CUDA_ERROR_NOT_SUPPORTED;
    };
    size_t count = 0;
    WL_DRIVER_TRY(ask(&count));
    from.resize(count);
    to.resize(count);
    data.resize(count);
    return count == 0 ? CUDA_SUCCESS : ask(&count);
}

CUresult Surveyor::read_node(Node& node) {
    if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY && m_driver->cuGraphMemcpyNodeGetParams != nullptr) {
        CUDA_MEMCPY3D copy{};
        WL_DRIVER_TRY(m_driver->cuGraphMemcpyNodeGetParams(node.handle, &copy));
        node.copy = host_end(m_lookup, copy, true);
        // Of an executable graph that was captured, a node may read what another one has left here for the client.
        if (node.copy != nullptr && node.copy->source == 0) node.copy = nullptr;
        if (node.copy == nullptr) node.copy = host_end(m_lookup, copy, false);
        if (node.copy != nullptr && node.copy->source == 0 && node.in_body)
            return refuse(
                "in the body of a conditional node, a copy to host memory that is not page-locked, or in a child graph");
    }
    if (node.type == CU_GRAPH_NODE_TYPE_HOST && m_driver->cuGraphHostNodeGetParams != nullptr) {
        CUDA_HOST_NODE_PARAMS params{};
        WL_DRIVER_TRY(m_driver->cuGraphHostNodeGetParams(node.handle, &params));
        node.ticket = m_host_calls.find_ticket(params.userData);
    }
    return CUDA_SUCCESS;
}

/// The nodes of a child graph, or of the bodies of a conditional node, in the place of that node.
CUresult Surveyor::read_inside(size_t index, int depth) {
    const CUgraphNode handle = m_nodes[index].handle;
    const CUgraphNode top = m_nodes[index].top;
    const std::vector<size_t> outer = m_nodes[index].before;
    std::vector<size_t> inner;
    if (m_nodes[index].type == CU_GRAPH_NODE_TYPE_GRAPH) {
        if (m_driver->cuGraphChildGraphNodeGetGraph == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
        CUgraph child = nullptr;
        WL_DRIVER_TRY(m_driver->cuGraphChildGraphNodeGetGraph(handle, &child));
        WL_DRIVER_TRY(read(child, top, outer, m_nodes[index].in_body, depth + 1, inner));
    } else {
        const std::vector<CUgraph>* bodies = m_lookup.bodies_of(handle);
        if (bodies == nullptr) return refuse("host copies in a graph with a conditional node that was cloned");
        for (CUgraph body : *bodies) WL_DRIVER_TRY(read(body, top, outer, true, depth + 1, inner));
    }
    m_nodes[index].before.insert(m_nodes[index].before.end(), inner.begin(), inner.end());
    return CUDA_SUCCESS;
}

CUresult Surveyor::read(CUgraph graph, CUgraphNode top, const std::vector<size_t>& outer, bool in_body, int depth,
                        std::vector<size_t>& made) {
    if (depth > k_max_depth) return CUDA_ERROR_NOT_SUPPORTED;
    std::vector<CUgraphNode> nodes;
    WL_DRIVER_TRY(nodes_of(graph, nodes));
    std::map<CUgraphNode, size_t> index_of;
    for (CUgraphNode handle : nodes) {
        Node node;
        node.handle = handle;
        node.top = top != nullptr ? top : handle;
        node.graph = graph;
        node.in_body = in_body;
        if (m_driver->cuGraphNodeGetType == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
        WL_DRIVER_TRY(m_driver->cuGraphNodeGetType(handle, &node.type));
        WL_DRIVER_TRY(read_node(node));
        index_of[handle] = m_nodes.size();
        made.push_back(m_nodes.size());
        m_nodes.push_back(std::move(node));
    }
    std::vector<CUgraphNode> from, to;
    WL_DRIVER_TRY(edges_of(graph, from, to));
    for (size_t i = 0; i < from.size(); ++i) {
        const auto first = index_of.find(from[i]);
        const auto second = index_of.find(to[i]);
        if (first != index_of.end() && second != index_of.end()) m_nodes[second->second].before.push_back(first->second);
    }
    for (const auto& [handle, index] : index_of) {
        if (m_nodes[index].before.empty()) m_nodes[index].before = outer;
    }
    for (const auto& [handle, index] : index_of) {
        const CUgraphNodeType type = m_nodes[index].type;
        if (type != CU_GRAPH_NODE_TYPE_GRAPH && type != CU_GRAPH_NODE_TYPE_CONDITIONAL) continue;
        const size_t first_inner = m_nodes.size();
        WL_DRIVER_TRY(read_inside(index, depth));
        for (size_t inner = first_inner; inner < m_nodes.size(); ++inner) made.push_back(inner);
    }
    return CUDA_SUCCESS;
}

/// Everything that has run when this node begins.
std::vector<size_t> Surveyor::all_before(size_t index) const {
    std::vector<bool> seen(m_nodes.size());
    std::vector<size_t> found, todo = m_nodes[index].before;
    while (!todo.empty()) {
        const size_t next = todo.back();
        todo.pop_back();
        if (seen[next]) continue;
        seen[next] = true;
        found.push_back(next);
        todo.insert(todo.end(), m_nodes[next].before.begin(), m_nodes[next].before.end());
    }
    return found;
}

/// A copy from the client's memory behind host nodes is given its bytes when those have run. What the graph itself has copied
/// to that memory before has arrived there by then, or is taken from where it is here.
CUresult Surveyor::conclude_source(GraphSurvey& survey, size_t index) {
    GraphSurvey::Entry entry = entry_of(index);
    const std::vector<size_t> before = all_before(index);
    for (size_t i : before) {
        if (m_nodes[i].ticket != nullptr) entry.tickets.push_back(m_nodes[i].ticket);
    }
    std::sort(entry.tickets.begin(), entry.tickets.end());
    std::vector<size_t> written_before;
    for (size_t i : before) {
        if (m_nodes[i].copy == nullptr || m_nodes[i].copy->source != 0) continue;
        const auto written = std::find_if(survey.entries.begin(), survey.entries.end(),
                                          [&](const auto& one) { return one.node == m_nodes[i].handle; });
        const bool told = std::find_first_of(written->tickets.begin(), written->tickets.end(), entry.tickets.begin(),
                                             entry.tickets.end()) != written->tickets.end();
        if (!told) entry.after.push_back(m_nodes[i].handle);
        if (!told && written->copy->touches(*entry.copy)) written_before.push_back(i);
    }
    if (!written_before.empty()) {
        entry.from = last_written(written_before, *entry.copy);
        if (entry.from == nullptr) {
            WL_DRIVER_TRY(lay_over(entry, index, written_before));
        } else {
            entry.tickets.clear();
        }
    }
    survey.entries.push_back(std::move(entry));
    return CUDA_SUCCESS;
}

/// Of some copies to the client's memory the one that comes after all the others, if it has written all that `reads` reads.
HostCopyPtr Surveyor::last_written(const std::vector<size_t>& copies, const HostCopy& reads) const {
    for (size_t last : copies) {
        const HostCopyPtr& copy = m_nodes[last].copy;
        if (!copy->is_linear() || !reads.is_linear() || !reads.is_within(*copy)) continue;
        const std::vector<size_t> before = all_before(last);
        const auto comes_before = [&](size_t one) {
            return one == last || std::find(before.begin(), before.end(), one) != before.end();
        };
        if (std::all_of(copies.begin(), copies.end(), comes_before)) return copy;
    }
    return nullptr;
}

/// Before the copy is made, what these have written is to be laid over what the client has sent.
CUresult Surveyor::lay_over(GraphSurvey::Entry& entry, size_t index, const std::vector<size_t>& copies) {
    const Node& node = m_nodes[index];
    if (node.in_body)
        return refuse("in the body of a conditional node, a copy from host memory of which the graph has written a part");
    std::vector<std::pair<size_t, size_t>> in_order;  // who comes after somebody comes after more
    for (size_t i : copies) in_order.emplace_back(all_before(i).size(), i);
    std::sort(in_order.begin(), in_order.end());
    for (const auto& [count, i] : in_order) {
        const HostCopyPtr& copy = m_nodes[i].copy;
        if (!copy->rows || !entry.copy->rows)
            return refuse("a graph that copies to host memory and from there again, and a client that tells of no rows");
        if (!entry.reads_from(copy)) entry.over.push_back(copy);
    }
    entry.graph = node.graph;
    for (size_t i : node.before) {
        if (m_nodes[i].graph == node.graph) entry.before.push_back(m_nodes[i].handle);
    }
    return CUDA_SUCCESS;
}

GraphSurvey::Entry Surveyor::entry_of(size_t index) const {
    GraphSurvey::Entry entry;
    entry.node = m_nodes[index].handle;
    entry.top = m_nodes[index].top;
    entry.copy = m_nodes[index].copy;
    return entry;
}

CUresult Surveyor::note_record(GraphSurvey& survey, size_t index) {
    if (m_nodes[index].in_body)
        return refuse("a graph that copies to host memory and then records an event in the body of a conditional node");
    if (m_driver->cuGraphEventRecordNodeGetEvent == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    GraphSurvey::LateRecord record{m_nodes[index].handle, nullptr};
    WL_DRIVER_TRY(m_driver->cuGraphEventRecordNodeGetEvent(record.node, &record.event));
    survey.late_records.push_back(record);
    return CUDA_SUCCESS;
}

CUresult Surveyor::conclude(GraphSurvey& survey) {
    std::map<size_t, GraphSurvey::Entry> targets;
    for (size_t i = 0; i < m_nodes.size(); ++i) {
        if (m_nodes[i].copy != nullptr && m_nodes[i].copy->source == 0) targets[i] = entry_of(i);
        if (m_nodes[i].ticket == nullptr) continue;
        survey.host_functions = true;
        if (m_nodes[i].top == m_nodes[i].handle) survey.host_nodes[m_nodes[i].handle] = m_nodes[i].ticket;
    }
    for (size_t i = 0; i < m_nodes.size() && !targets.empty(); ++i) {
        const bool records = m_nodes[i].type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
        if (m_nodes[i].ticket == nullptr && !records) continue;
        bool late = false;
        for (size_t earlier : all_before(i)) {
            const auto target = targets.find(earlier);
            if (target == targets.end()) continue;
            late = true;
            if (!records) target->second.tickets.push_back(m_nodes[i].ticket);
        }
        if (records && late) WL_DRIVER_TRY(note_record(survey, i));
    }
    for (auto& [index, entry] : targets) {
        std::sort(entry.tickets.begin(), entry.tickets.end());
        survey.entries.push_back(std::move(entry));
    }
    for (size_t i = 0; i < m_nodes.size(); ++i) {
        if (m_nodes[i].copy != nullptr && m_nodes[i].copy->source != 0) WL_DRIVER_TRY(conclude_source(survey, i));
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult survey_graph(const Driver& driver, HostCalls& host_calls, SurveyLookup& lookup, CUgraph graph, GraphSurvey& survey,
                      const char*& refusal) {
    Surveyor surveyor(driver, host_calls, lookup);
    std::vector<size_t> made;
    CUresult result = surveyor.read(graph, nullptr, {}, false, 0, made);
    if (result == CUDA_SUCCESS) result = surveyor.conclude(survey);
    refusal = surveyor.refusal();
    return result;
}

}  // namespace warpline::server
