#pragma once

#include "client/hooks/common.h"

namespace warpline::client {

/// The owner of ranges that are the memory of allocation nodes. Their addresses are the server's choice, as those of variables;
/// no token is 1.
constexpr uint64_t k_graph_memory_owner = 1;
inline bool is_graph_memory(const DeviceRange& range) {
    return range.kind == MemoryKind::global && range.owner == k_graph_memory_owner;
}

/// An allocation in a stream that is being captured: a node of the graph. @blocks for a round trip
CUresult capture_allocation(Call& call, CUdeviceptr* address, uint64_t size_bytes, int device, uint64_t stream);

}  // namespace warpline::client
