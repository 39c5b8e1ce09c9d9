#include "server/gen/graph_exec_params_calls.gen.h"
#include "server/gen/graph_node_calls.gen.h"
#include "server/gen/graph_node_params_calls.gen.h"
#include "server/hooks/graph_common.h"
#include "server/session/device_numbers.h"

namespace warpline::server {

namespace {

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

}  // namespace

CUresult hook_server_cuGraphAddBatchMemOpNode(ServerCall& call, const CuGraphAddBatchMemOpNodeArgs& args) {
    const auto add = WL_DRIVER(call, cuGraphAddBatchMemOpNode);
    Batch batch;
    WL_CUDA(read_batch(call, args, batch));
    return add_node(call, args.phGraphNode, args.hGraph, args.dependencies,
                    [&](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) -> CUresult {
                        return add(node, graph, dependencies, count, &batch.params);
                    });
}

CUresult hook_server_cuGraphBatchMemOpNodeSetParams(ServerCall& call, const CuGraphBatchMemOpNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphBatchMemOpNodeSetParams);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    Batch batch;
    WL_CUDA(read_batch(call, args, batch));
    return set(node, &batch.params);
}

CUresult hook_server_cuGraphExecBatchMemOpNodeSetParams(ServerCall& call, const CuGraphExecBatchMemOpNodeSetParamsArgs& args) {
    const auto set = WL_DRIVER(call, cuGraphExecBatchMemOpNodeSetParams);
    const auto exec = WL_FIND(call, CUgraphExec, graph_exec, args.hGraphExec);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    Batch batch;
    WL_CUDA(read_batch(call, args, batch));
    return set(exec, node, &batch.params);
}

CUresult hook_server_cuGraphBatchMemOpNodeGetParams(ServerCall& call, const CuGraphBatchMemOpNodeGetParamsArgs& args,
                                                    CuGraphBatchMemOpNodeGetParamsValues& values) {
    const auto get = WL_DRIVER(call, cuGraphBatchMemOpNodeGetParams);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUDA_BATCH_MEM_OP_NODE_PARAMS params{};
    WL_CUDA(get(node, &params));
    const BytesView items = as_bytes(params.paramArray, params.count * sizeof(CUstreamBatchMemOpParams));
    values.items.assign(items.begin(), items.end());
    values.flags = params.flags;
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
