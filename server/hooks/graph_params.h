// Parameters of kernel and copy nodes as the driver takes them.
#pragma once

#include <cstddef>
#include <type_traits>

#include "server/hooks/common.h"
#include "server/hooks/kernel_params.h"

namespace warpline::server {

/// The parameters of a kernel node, with the memory that they point to.
struct KernelNodeParams {
    CUDA_KERNEL_NODE_PARAMS node{};
    KernelParams params;
};

template <typename Args>
CUresult read_kernel_node(ServerCall& call, const Args& args, KernelNodeParams& out) {
    // A kernel is given as such: the node finds its function in the context of the launch.
    out.node.kern = call.find_kernel(args.f);
    out.node.func = out.node.kern != nullptr ? nullptr : call.find_function(args.f);
    if (out.node.kern == nullptr && out.node.func == nullptr) return call.not_found();
    WL_CUDA(out.params.read(args.params, args.sizes, *WL_LAYOUT(call, args.f)));
    out.node.gridDimX = args.gridX;
    out.node.gridDimY = args.gridY;
    out.node.gridDimZ = args.gridZ;
    out.node.blockDimX = args.blockX;
    out.node.blockDimY = args.blockY;
    out.node.blockDimZ = args.blockZ;
    out.node.sharedMemBytes = args.sharedMemBytes;
    out.node.kernelParams = out.params.kernel_params();
    out.node.extra = out.params.extra();
    return CUDA_SUCCESS;
}

/// Calls the form that the driver has of a function on kernel nodes. Drivers before CUDA 12 have no kernels, and know the
/// parameters up to there.
template <typename New, typename Old, typename Params, typename... Before>
CUresult with_kernel_node(ServerCall& call, New newer, Old older, Params* params, Before... before) {
    using OldParams = std::conditional_t<std::is_const_v<Params>, const CUDA_KERNEL_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS_v1>;
    static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS, kern) == sizeof(CUDA_KERNEL_NODE_PARAMS_v1));
    if (newer != nullptr) return newer(before..., params);
    return older != nullptr ? older(before..., reinterpret_cast<OldParams*>(params)) : call.missing_function();
}

/// Gives a copy's end in host memory its staging memory, and checks the other end.
CUresult place_host_end(ServerCall& call, const GraphCopies::ClientSide& client, CUDA_MEMCPY3D& copy, HostCopyPtr& host);

/// A copy node. An end in host memory lies in staging memory, packed; `host` is the copy that it belongs to, or null.
template <typename Args>
CUresult read_copy_node(ServerCall& call, const Args& args, CUDA_MEMCPY3D& copy, HostCopyPtr& host) {
    if (args.copy.size() != sizeof copy) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&copy, args.copy.data(), sizeof copy);
    copy.srcArray = WL_FIND_OR_NULL(call, CUarray, array, args.srcArray);
    copy.dstArray = WL_FIND_OR_NULL(call, CUarray, array, args.dstArray);
    return place_host_end(call, {args.source, args.clientAddress, args.clientBytes, {}}, copy, host);
}

/// The graph to which a node belongs, as far as it is known.
CUgraph graph_of_node(ServerCall& call, uint64_t node);

}  // namespace warpline::server
