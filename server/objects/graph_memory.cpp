// Looking at what graphs allocate before they do.
#include "server/objects/graph_memory.h"

#include <vector>

namespace warpline::server {

namespace {

constexpr int k_deepest_child = 32;

/// Graphs reserve in multiples of this.
constexpr uint64_t k_reserved_unit_bytes = uint64_t{2} << 20;

std::vector<CUgraphNode> every_node_of(const Driver& driver, CUgraph graph) {
    size_t count = 0;
    if (driver->cuGraphGetNodes == nullptr || driver->cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) return {};
    std::vector<CUgraphNode> nodes(count);
    if (count != 0 && driver->cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) return {};
    return nodes;
}

}  // namespace

CUresult GraphMemory::check_node(CUdevice device, uint64_t bytes, MemoryLedger::Refusal refusal) {
    if (m_ledger.limit().bytes == 0) return CUDA_SUCCESS;
    m_ledger.graphs_allocate();
    return m_ledger.check_graphs_take(device, bytes, refusal);
}

/// What cannot be read allocates nothing here: the driver says what it has afterwards.
void GraphMemory::add_nodes(CUgraph graph, int depth, Exec& exec) const {
    if (depth > k_deepest_child || m_driver->cuGraphNodeGetType == nullptr) return;
    for (CUgraphNode node : every_node_of(m_driver, graph)) {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
        if (m_driver->cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) continue;
        CUgraph child = nullptr;
        CUDA_MEM_ALLOC_NODE_PARAMS params{};
        CUdevice device = 0;
        if (type == CU_GRAPH_NODE_TYPE_GRAPH && m_driver->cuGraphChildGraphNodeGetGraph != nullptr &&
            m_driver->cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
            add_nodes(child, depth + 1, exec);
        if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && m_driver->cuGraphMemAllocNodeGetParams != nullptr &&
            m_driver->cuGraphMemAllocNodeGetParams(node, &params) == CUDA_SUCCESS &&
            m_contexts.client_device(params.poolProps.location.id, device))
            exec.bytes[device] += (params.bytesize + k_reserved_unit_bytes - 1) / k_reserved_unit_bytes * k_reserved_unit_bytes;
    }
}

void GraphMemory::instantiated(CUgraphExec exec, CUgraph graph) {
    m_execs.erase(exec);
    if (!m_ledger.do_graphs_allocate()) return;
    Exec found;
    add_nodes(graph, 0, found);
    if (!found.bytes.empty()) m_execs.emplace(exec, std::move(found));
}

uint64_t GraphMemory::in_use(CUdevice device) const {
    cuuint64_t bytes = 0;
    CUdevice asked = 0;
    if (m_driver->cuDeviceGetGraphMemAttribute == nullptr || !m_contexts.driver_device(device, asked)) return 0;
    const CUresult result = m_driver->cuDeviceGetGraphMemAttribute(asked, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &bytes);
    return result == CUDA_SUCCESS ? bytes : 0;
}

CUresult GraphMemory::check_launch(CUgraphExec exec) {
    const auto found = m_execs.find(exec);
    if (found == m_execs.end()) return CUDA_SUCCESS;
    for (const auto& [device, bytes] : found->second.bytes) {
        // The first time it needs what others do not use; later it has something already. Drivers say of memory that it is used
        // until it is trimmed (docs/driver-behaviour.md, DB-51).
        const bool has_memory = found->second.has_memory;
        const auto least = [&, device = device, bytes = bytes] { return bytes + (has_memory ? 0 : in_use(device)); };
        if (const CUresult result = m_ledger.check_graphs_have(device, least); result != CUDA_SUCCESS) return result;
    }
    found->second.has_memory = true;
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
