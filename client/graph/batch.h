// Nodes of graphs that are batches of memory operations.
#pragma once

#include "client/graph/new_node.h"

namespace warpline::client {

/// One operation: its address is the device's, or that of page-locked memory, which becomes the device's, too.
CUresult check_item(const Call& call, const CUstreamBatchMemOpParams& item);
/// True if streams wait for it.
bool is_wait(const CUstreamBatchMemOpParams& item);
/// @errors  invalid value (their number, an operation, an address), not supported
CUresult check_batch(const Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params);
/// The same of what becomes a node.
CUresult check_batch_of_node(const Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params);

/// The context that the parameters name, or the current one.
uint64_t context_of_batch(const Call& call, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params);

CUresult add_batch(Call& call, const NewNode& node, const CUDA_BATCH_MEM_OP_NODE_PARAMS& params);

}  // namespace warpline::client
