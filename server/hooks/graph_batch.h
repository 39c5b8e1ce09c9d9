// Batches of memory operations as they come, for nodes of graphs.
#pragma once

#include "server/hooks/common.h"
#include "server/session/device_numbers.h"

namespace warpline::server {

/// A batch of memory operations, with the memory that its parameters point to.
struct Batch {
    CUDA_BATCH_MEM_OP_NODE_PARAMS params{};
    std::vector<CUstreamBatchMemOpParams> items;
};

template <typename Args>
CUresult read_batch(ServerCall& call, const Args& args, Batch& batch) {
    constexpr size_t k_max_items = 256;
    const size_t count = args.items.size() / sizeof(CUstreamBatchMemOpParams);
    if (count == 0 || count > k_max_items || args.items.size() % sizeof(CUstreamBatchMemOpParams) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    batch.items.resize(count);
    std::memcpy(batch.items.data(), args.items.data(), args.items.size());
    for (CUstreamBatchMemOpParams& item : batch.items) static_cast<void>(to_driver(call, item));
    const auto context = WL_FIND(call, CUcontext, context, args.ctx);
    batch.params = {context, static_cast<unsigned>(count), batch.items.data(), args.flags};
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
