// Walking a graph and those inside it.
#include "server/objects/graph_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace warpline::server {

namespace {

constexpr size_t k_max_model_nodes = 1u << 20;
constexpr int k_max_depth = 32;

#define WL_DRIVER_TRY(expression)                        \
    do {                                                 \
        const CUresult wl_result = (expression);         \
        if (wl_result != CUDA_SUCCESS) return wl_result; \
    } while (false)

class Reader {
public:
    Reader(const Driver& driver, HostCalls& host_calls, SurveyLookup& lookup, GraphModel& model)
        : m_driver(driver), m_host_calls(host_calls), m_lookup(lookup), m_model(model), m_nodes(model.nodes) {}

    /// Where a graph lies: in what, and behind what.
    struct Place {
        CUgraphNode top = nullptr;
        std::vector<size_t> outer;
        size_t body = 0;
        int depth = 0;
    };
    CUresult read(CUgraph graph, const Place& place, GraphModel::Part& part);
    const char* refusal() const { return m_refusal; }

private:
    CUresult nodes_of(CUgraph graph, std::vector<CUgraphNode>& nodes) const;
    CUresult edges_of(CUgraph graph, std::vector<CUgraphNode>& from, std::vector<CUgraphNode>& to) const;
    CUresult read_edges(CUgraph graph, const GraphModel::Part& part);
    CUresult read_node(GraphModel::Node& node);
    CUresult read_inside(size_t index, int depth);

    const Driver& m_driver;
    HostCalls& m_host_calls;
    SurveyLookup& m_lookup;
    GraphModel& m_model;
    std::vector<GraphModel::Node>& m_nodes;
    const char* m_refusal = nullptr;
};

CUresult Reader::nodes_of(CUgraph graph, std::vector<CUgraphNode>& nodes) const {
    if (m_driver->cuGraphGetNodes == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    size_t count = 0;
    WL_DRIVER_TRY(m_driver->cuGraphGetNodes(graph, nullptr, &count));
    if (count + m_nodes.size() > k_max_model_nodes) return CUDA_ERROR_OUT_OF_MEMORY;
    nodes.resize(count);
    return count == 0 ? CUDA_SUCCESS : m_driver->cuGraphGetNodes(graph, nodes.data(), &count);
}

CUresult Reader::edges_of(CUgraph graph, std::vector<CUgraphNode>& from, std::vector<CUgraphNode>& to) const {
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

CUresult Reader::read_node(GraphModel::Node& node) {
    if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY && m_driver->cuGraphMemcpyNodeGetParams != nullptr) {
        CUDA_MEMCPY3D copy{};
        WL_DRIVER_TRY(m_driver->cuGraphMemcpyNodeGetParams(node.handle, &copy));
        node.copy = host_end(m_lookup, copy, true);
        // What a node leaves here for the client is no source.
        if (node.copy != nullptr && node.copy->source == 0) node.copy = nullptr;
        if (node.copy == nullptr) node.copy = host_end(m_lookup, copy, false);
    }
    if (node.type == CU_GRAPH_NODE_TYPE_HOST && m_driver->cuGraphHostNodeGetParams != nullptr) {
        CUDA_HOST_NODE_PARAMS params{};
        WL_DRIVER_TRY(m_driver->cuGraphHostNodeGetParams(node.handle, &params));
        node.ticket = m_host_calls.find_ticket(params.userData);
    }
    if (node.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && m_driver->cuGraphEventRecordNodeGetEvent != nullptr)
        WL_DRIVER_TRY(m_driver->cuGraphEventRecordNodeGetEvent(node.handle, &node.event));
    return CUDA_SUCCESS;
}

/// The nodes of a child graph, or of the bodies of a conditional node, in the place of that node.
CUresult Reader::read_inside(size_t index, int depth) {
    const size_t first_inner = m_nodes.size();
    const bool is_child = m_nodes[index].type == CU_GRAPH_NODE_TYPE_GRAPH;
    const CUgraphNode handle = m_nodes[index].handle;
    Place place{m_nodes[index].top, m_nodes[index].before, m_nodes[index].body, depth + 1};
    std::vector<CUgraph> graphs(1);
    if (is_child) {
        if (m_driver->cuGraphChildGraphNodeGetGraph == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
        WL_DRIVER_TRY(m_driver->cuGraphChildGraphNodeGetGraph(handle, graphs.data()));
    } else {
        const std::vector<CUgraph>* bodies = m_lookup.bodies_of(handle);
        if (bodies == nullptr) {
            m_refusal = "host copies in a graph with a conditional node that was cloned";
            return CUDA_ERROR_NOT_SUPPORTED;
        }
        graphs = *bodies;
    }
    for (CUgraph graph : graphs) {
        if (!is_child) {
            place.body = m_model.outer_body.size();
            m_model.outer_body.push_back(m_nodes[index].body);
        }
        GraphModel::Part part;
        WL_DRIVER_TRY(read(graph, place, part));
        m_nodes[index].inside.push_back(part);
    }
    for (size_t inner = first_inner; inner < m_nodes.size(); ++inner) m_nodes[index].before.push_back(inner);
    return CUDA_SUCCESS;
}

CUresult Reader::read_edges(CUgraph graph, const GraphModel::Part& part) {
    std::map<CUgraphNode, size_t> index_of;
    for (size_t i = part.first; i < part.first + part.count; ++i) index_of[m_nodes[i].handle] = i;
    std::vector<CUgraphNode> from, to;
    WL_DRIVER_TRY(edges_of(graph, from, to));
    for (size_t i = 0; i < from.size(); ++i) {
        const auto first = index_of.find(from[i]);
        const auto second = index_of.find(to[i]);
        if (first == index_of.end() || second == index_of.end()) continue;
        m_nodes[second->second].before.push_back(first->second);
        ++m_nodes[second->second].edges;
    }
    return CUDA_SUCCESS;
}

CUresult Reader::read(CUgraph graph, const Place& place, GraphModel::Part& part) {
    if (place.depth > k_max_depth) return CUDA_ERROR_NOT_SUPPORTED;
    std::vector<CUgraphNode> handles;
    WL_DRIVER_TRY(nodes_of(graph, handles));
    part = {m_nodes.size(), handles.size()};
    for (CUgraphNode handle : handles) {
        GraphModel::Node node;
        node.handle = handle;
        node.top = place.top != nullptr ? place.top : handle;
        node.graph = graph;
        node.body = place.body;
        if (m_driver->cuGraphNodeGetType == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
        WL_DRIVER_TRY(m_driver->cuGraphNodeGetType(handle, &node.type));
        WL_DRIVER_TRY(read_node(node));
        m_nodes.push_back(std::move(node));
    }
    WL_DRIVER_TRY(read_edges(graph, part));
    for (size_t i = part.first; i < part.first + part.count; ++i) {
        if (m_nodes[i].edges == 0) m_nodes[i].before = place.outer;
    }
    for (size_t i = part.first; i < part.first + part.count; ++i) {
        const CUgraphNodeType type = m_nodes[i].type;
        if (type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
            WL_DRIVER_TRY(read_inside(i, place.depth));
    }
    return CUDA_SUCCESS;
}

}  // namespace

GraphModel::Node* GraphModel::find(CUgraphNode handle) {
    const auto found = std::find_if(nodes.begin(), nodes.end(), [handle](const Node& node) { return node.handle == handle; });
    return found != nodes.end() ? &*found : nullptr;
}

std::vector<size_t> GraphModel::all_before(size_t index) const {
    std::vector<bool> seen(nodes.size());
    std::vector<size_t> found, todo = nodes[index].before;
    while (!todo.empty()) {
        const size_t next = todo.back();
        todo.pop_back();
        if (seen[next]) continue;
        seen[next] = true;
        found.push_back(next);
        todo.insert(todo.end(), nodes[next].before.begin(), nodes[next].before.end());
    }
    return found;
}

std::vector<size_t> GraphModel::in_order(std::vector<size_t> indices) const {
    if (indices.size() < 2) return indices;
    std::vector<std::vector<size_t>> after(nodes.size());
    std::vector<size_t> waits_for(nodes.size()), depth(nodes.size()), ready;
    for (size_t i = 0; i < nodes.size(); ++i) {
        waits_for[i] = nodes[i].before.size();
        if (waits_for[i] == 0) ready.push_back(i);
        for (size_t before : nodes[i].before) after[before].push_back(i);
    }
    while (!ready.empty()) {
        const size_t next = ready.back();
        ready.pop_back();
        for (size_t i : after[next]) {
            depth[i] = std::max(depth[i], depth[next] + 1);
            if (--waits_for[i] == 0) ready.push_back(i);
        }
    }
    std::sort(indices.begin(), indices.end(),
              [&](size_t one, size_t other) { return std::pair(depth[one], one) < std::pair(depth[other], other); });
    return indices;
}

std::vector<size_t> GraphModel::twins() const {
    std::set<const void*> known;
    std::vector<size_t> found;
    for (size_t i = 0; i < nodes.size(); ++i) {
        const bool copies_to_client = nodes[i].copy != nullptr && nodes[i].copy->source == 0;
        const void* const seen_to = copies_to_client ? static_cast<const void*>(nodes[i].copy.get()) : nodes[i].ticket;
        if (seen_to != nullptr && !known.insert(seen_to).second) found.push_back(i);
    }
    return found;
}

bool GraphModel::has_copies() const {
    return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.copy != nullptr; });
}

bool GraphModel::is_run_with(size_t other, size_t one) const {
    size_t body = nodes[one].body;
    while (body != nodes[other].body && body != 0) body = outer_body[body];
    return body == nodes[other].body;
}

CUresult read_graph(const Driver& driver, HostCalls& host_calls, SurveyLookup& lookup, CUgraph graph, GraphModel& model,
                    const char*& refusal) {
    Reader reader(driver, host_calls, lookup, model);
    const CUresult result = reader.read(graph, {}, model.whole);
    refusal = reader.refusal();
    return result;
}

}  // namespace warpline::server
