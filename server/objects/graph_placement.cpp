// Nodes that are others for as long as it takes to make a graph executable.
#include "server/objects/graph_placement.h"

#include "server/objects/graph_overlays.h"

namespace warpline::server {

Placement::~Placement() {
    for (CUgraphNode node : m_added) m_driver->cuGraphDestroyNode(node);
    for (const auto& [node, copy] : m_before) m_driver->cuGraphMemcpyNodeSetParams(node, &copy);
    for (const auto& [node, function] : m_functions_before) m_driver->cuGraphHostNodeSetParams(node, &function);
}

CUresult Placement::place(const GraphModel& model, const GraphSurvey& survey) {
    for (const GraphSurvey::Entry& entry : survey.entries) {
        CUresult result = CUDA_SUCCESS;
        if (entry.from != nullptr || entry.is_second) result = move(entry);
        if (result == CUDA_SUCCESS && entry.asks != nullptr) result = call_before(entry, {&HostCalls::run, entry.asks});
        if (result == CUDA_SUCCESS && !entry.over.empty())
            result = call_before(entry, {&Overlay::run, &Overlay::of(*entry.copy, entry.over)});
        if (result == CUDA_SUCCESS && entry.in_body && !entry.is_source()) result = note_run(entry);
        if (result != CUDA_SUCCESS) return result;
    }
    for (const GraphModel::Node& node : model.nodes) {
        if (!node.own_ticket) continue;
        if (const CUresult result = exchange(node.handle, node.ticket); result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

CUresult Placement::exchange(CUgraphNode node, HostCalls::Ticket* ticket) {
    const auto get = m_driver->cuGraphHostNodeGetParams;
    const auto set = m_driver->cuGraphHostNodeSetParams;
    if (get == nullptr || set == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    CUDA_HOST_NODE_PARAMS before{};
    if (const CUresult result = get(node, &before); result != CUDA_SUCCESS) return result;
    m_functions_before.emplace_back(node, before);
    const CUDA_HOST_NODE_PARAMS params{&HostCalls::run, ticket};
    return set(node, &params);
}

CUresult Placement::move(const GraphSurvey::Entry& entry) {
    const auto get = m_driver->cuGraphMemcpyNodeGetParams;
    const auto set = m_driver->cuGraphMemcpyNodeSetParams;
    if (get == nullptr || set == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    CUDA_MEMCPY3D copy{};
    if (const CUresult result = get(entry.node, &copy); result != CUDA_SUCCESS) return result;
    m_before.emplace_back(entry.node, copy);
    put_host_end(copy, entry.is_source(), entry.place());
    return set(entry.node, &copy);
}

/// The new node comes behind everything that the copy comes behind: then the client's bytes are here, too, which may come when
/// a host node before it has run.
CUresult Placement::call_before(const GraphSurvey::Entry& entry, const CUDA_HOST_NODE_PARAMS& function) {
    const auto add = m_driver->cuGraphAddHostNode;
    if (add == nullptr || m_driver->cuGraphDestroyNode == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    std::vector<CUgraphNode> before = entry.before;
    if (m_last_for == entry.node) before.push_back(m_added.back());
    CUgraphNode node = nullptr;
    const CUresult result = add(&node, entry.graph, before.empty() ? nullptr : before.data(), before.size(), &function);
    if (result != CUDA_SUCCESS) return result;
    m_added.push_back(node);
    m_last_for = entry.node;
    if (m_driver->cuGraphAddDependencies_v2 != nullptr)
        return m_driver->cuGraphAddDependencies_v2(entry.graph, &node, &entry.node, nullptr, 1);
    if (m_driver->cuGraphAddDependencies != nullptr)
        return m_driver->cuGraphAddDependencies(entry.graph, &node, &entry.node, 1);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult Placement::note_run(const GraphSurvey::Entry& entry) {
    const auto add = m_driver->cuGraphAddMemsetNode;
    const auto address_of = m_driver->cuMemHostGetDevicePointer_v2;
    if (add == nullptr || address_of == nullptr || m_driver->cuGraphDestroyNode == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    CUcontext context = nullptr;
    CUDA_MEMSET_NODE_PARAMS fill{0, 0, 1, sizeof(uint32_t), 1, 1};
    CUresult result = m_driver->cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS) result = address_of(&fill.dst, entry.copy->run_mark->data, 0);
    CUgraphNode node = nullptr;
    if (result == CUDA_SUCCESS) result = add(&node, entry.graph, &entry.node, 1, &fill, context);
    if (result == CUDA_SUCCESS) m_added.push_back(node);
    return result;
}

}  // namespace warpline::server
