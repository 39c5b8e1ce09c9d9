// Nodes that allocate and free memory, and conditional nodes.
#pragma once

#include "client/graph/new_node.h"

namespace warpline::client {

/// The owner of ranges that are the memory of allocation nodes. Their addresses are the server's choice, as those of variables;
/// no token is 1.
constexpr uint64_t k_graph_memory_owner = 1;
inline bool is_graph_memory(const DeviceRange& range) {
    return range.kind == MemoryKind::global && range.owner == k_graph_memory_owner;
}

/// An allocation in a stream that is being captured: a node of the graph. @blocks for a round trip
CUresult capture_allocation(Call& call, CUdeviceptr* address, uint64_t size_bytes, int device, uint64_t stream);
/// The same by properties and access of other devices that a driver's default pool does not have.
CUresult capture_allocation(Call& call, CUdeviceptr* address, uint64_t size_bytes, CUmemPoolProps properties,
                            std::span<const CUmemAccessDesc> access, uint64_t stream);

// --- nodes whose addresses or bodies are the server's: adding one waits for the answer ---

CUresult add_allocation(Call& call, const NewNode& node, const CUmemPoolProps& properties, const CUmemAccessDesc* access,
                        size_t access_count, size_t size_bytes, CUdeviceptr& address);
CUresult add_free(Call& call, const NewNode& node, CUdeviceptr address);
CUresult add_conditional(Call& call, const NewNode& node, CUDA_CONDITIONAL_NODE_PARAMS& params);

}  // namespace warpline::client
