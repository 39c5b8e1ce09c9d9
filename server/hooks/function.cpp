// Occupancy of clusters, whose attributes name handles.
#include <algorithm>

#include "server/gen/function_calls.gen.h"
#include "server/hooks/common.h"
#include "server/hooks/launch_attributes.h"

namespace warpline::server {

namespace {

constexpr unsigned k_most_sizes = 64;  // of clusters, in one question

/// The launch that the two questions about clusters are asked for. Its attributes hold no handles that matter here.
template <typename Args>
CUresult read_config(ServerCall& call, const Args& args, CUlaunchConfig& config, std::vector<CUlaunchAttribute>& attributes) {
    const size_t count = args.attributes.size() / sizeof(CUlaunchAttribute);
    if (args.attributes.size() % sizeof(CUlaunchAttribute) != 0 || count > k_max_launch_attributes)
        return CUDA_ERROR_INVALID_VALUE;
    attributes.resize(count);
    if (count > 0) std::memcpy(attributes.data(), args.attributes.data(), args.attributes.size());
    std::erase_if(attributes, [](const CUlaunchAttribute& attribute) {
        return attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
               attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ||
               attribute.id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
    });
    for (CUlaunchAttribute& attribute : attributes) WL_CUDA(resolve_launch_attribute(call, attribute.id, attribute.value));
    config.gridDimX = args.gridX;
    config.gridDimY = args.gridY;
    config.gridDimZ = args.gridZ;
    config.blockDimX = args.blockX;
    config.blockDimY = args.blockY;
    config.blockDimZ = args.blockZ;
    config.sharedMemBytes = args.sharedMemBytes;
    config.hStream = WL_FIND(call, CUstream, stream, args.hStream);
    config.attrs = attributes.data();
    config.numAttrs = static_cast<unsigned>(attributes.size());
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_server_cuOccupancyMaxPotentialClusterSize(ServerCall& call, const CuOccupancyMaxPotentialClusterSizeArgs& args,
                                                        CuOccupancyMaxPotentialClusterSizeValues& values) {
    const auto ask = WL_DRIVER(call, cuOccupancyMaxPotentialClusterSize);
    const auto function = WL_FIND(call, CUfunction, function, args.func);
    CUlaunchConfig config{};
    std::vector<CUlaunchAttribute> attributes;
    WL_CUDA(read_config(call, args, config, attributes));
    return ask(&values.clusterSize, function, &config);
}

CUresult hook_server_cuOccupancyMaxActiveClusters(ServerCall& call, const CuOccupancyMaxActiveClustersArgs& args,
                                                  CuOccupancyMaxActiveClustersValues& values) {
    const auto ask = WL_DRIVER(call, cuOccupancyMaxActiveClusters);
    const auto function = WL_FIND_OR_NULL(call, CUfunction, function, args.func);
    CUlaunchConfig config{};
    std::vector<CUlaunchAttribute> attributes;
    WL_CUDA(read_config(call, args, config, attributes));
    const CUresult result = ask(&values.numClusters, function, &config);
    const auto cluster = std::ranges::find(attributes, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &CUlaunchAttribute::id);
    if (args.most == 0 || cluster == attributes.end()) return result;
    // Other sizes of the clusters, which lie in a row: a grid that is one cluster stays one.
    if (args.most > k_most_sizes) return CUDA_ERROR_INVALID_VALUE;
    auto& size = cluster->value.clusterDim;
    const bool grid_follows = config.gridDimX == size.x && config.gridDimY == 1 && config.gridDimZ == 1;
    for (unsigned blocks = 1; blocks <= args.most; ++blocks) {
        size.x = blocks;
        if (grid_follows) config.gridDimX = blocks;
        int count = 0;
        values.results.push_back(ask(&count, function, &config));
        values.counts.push_back(static_cast<uint64_t>(count));
    }
    return result;
}

}  // namespace warpline::server
