#pragma once

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
    if (!out.params.read(args.params, args.sizes)) return CUDA_ERROR_INVALID_VALUE;
    // A kernel is given as such: the node finds its function in the context of the launch.
    out.node.kern = call.find_kernel(args.f);
    out.node.func = out.node.kern != nullptr ? nullptr : call.find_function(args.f);
    if (out.node.kern == nullptr && out.node.func == nullptr) return CUDA_ERROR_INVALID_HANDLE;
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

/// A copy node between device memory and arrays.
template <typename Args>
CUresult read_copy_node(ServerCall& call, const Args& args, CUDA_MEMCPY3D& copy) {
    if (args.copy.size() != sizeof copy) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&copy, args.copy.data(), sizeof copy);
    const auto on_device = [](CUmemorytype type) { return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY; };
    if (!on_device(copy.srcMemoryType) || !on_device(copy.dstMemoryType)) return CUDA_ERROR_INVALID_VALUE;
    copy.srcHost = nullptr;
    copy.dstHost = nullptr;
    copy.srcArray = WL_FIND_OR_NULL(call, CUarray, array, args.srcArray);
    copy.dstArray = WL_FIND_OR_NULL(call, CUarray, array, args.dstArray);
    const DeviceMemory& memory = call.session().memory();
    if (copy.srcMemoryType == CU_MEMORYTYPE_DEVICE && !memory.contains(copy.srcDevice, 1))
        return memory.refusal(copy.srcDevice);
    if (copy.dstMemoryType == CU_MEMORYTYPE_DEVICE && !memory.contains(copy.dstDevice, 1))
        return memory.refusal(copy.dstDevice);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
