// Nodes that read here, for as long as it takes to make a graph executable.
#include "server/objects/graph_sources.h"

#include "server/objects/graph_overlays.h"

namespace warpline::server {

SourcesHere::~SourcesHere() {
    for (CUgraphNode node : m_added) m_driver->cuGraphDestroyNode(node);
    for (const auto& [node, copy] : m_before) m_driver->cuGraphMemcpyNodeSetParams(node, &copy);
}

CUresult SourcesHere::place(const GraphSurvey& survey) {
    for (const GraphSurvey::Entry& entry : survey.entries) {
        CUresult result = CUDA_SUCCESS;
        if (entry.from != nullptr) result = read_from(entry);
        if (!entry.over.empty()) result = lay_over_before(entry);
        if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
}

CUresult SourcesHere::read_from(const GraphSurvey::Entry& entry) {
    const auto get = m_driver->cuGraphMemcpyNodeGetParams;
    const auto set = m_driver->cuGraphMemcpyNodeSetParams;
    if (get == nullptr || set == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    CUDA_MEMCPY3D copy{};
    if (const CUresult result = get(entry.node, &copy); result != CUDA_SUCCESS) return result;
    m_before.emplace_back(entry.node, copy);
    const std::byte* const here = entry.from->staging->data + (entry.copy->client_address - entry.from->client_address);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = here;
    copy.srcDevice = 0;
    return set(entry.node, &copy);
}

/// The new node comes behind everything that the reading one comes behind: then the client's bytes are here, too, which may
/// come when a host node before it has run.
CUresult SourcesHere::lay_over_before(const GraphSurvey::Entry& entry) {
    const auto add = m_driver->cuGraphAddHostNode;
    if (add == nullptr || m_driver->cuGraphDestroyNode == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    const CUDA_HOST_NODE_PARAMS params{&Overlay::run, &Overlay::of(*entry.copy, entry.over)};
    CUgraphNode node = nullptr;
    const CUresult result =
        add(&node, entry.graph, entry.before.empty() ? nullptr : entry.before.data(), entry.before.size(), &params);
    if (result != CUDA_SUCCESS) return result;
    m_added.push_back(node);
    if (m_driver->cuGraphAddDependencies_v2 != nullptr)
        return m_driver->cuGraphAddDependencies_v2(entry.graph, &node, &entry.node, nullptr, 1);
    if (m_driver->cuGraphAddDependencies != nullptr)
        return m_driver->cuGraphAddDependencies(entry.graph, &node, &entry.node, 1);
    return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace warpline::server
