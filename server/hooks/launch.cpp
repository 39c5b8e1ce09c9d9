// Launches.
#include "server/gen/launch_calls.gen.h"
#include "server/hooks/common.h"
#include "server/hooks/kernel_params.h"
#include "server/hooks/launch_attributes.h"

namespace warpline::server {

namespace {

/// The attributes of a launch as they lie in memory, with the handles in them looked up.
CUresult read_attributes(ServerCall& call, BytesView bytes, std::vector<CUlaunchAttribute>& attributes) {
    if (bytes.size() % sizeof(CUlaunchAttribute) != 0 || bytes.size() / sizeof(CUlaunchAttribute) > k_max_launch_attributes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    attributes.resize(bytes.size() / sizeof(CUlaunchAttribute));
    if (!attributes.empty()) std::memcpy(attributes.data(), bytes.data(), bytes.size());
    for (CUlaunchAttribute& attribute : attributes) {
        WL_CUDA(resolve_launch_attribute(call, attribute.id, attribute.value));
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_server_cuLaunchKernel(ServerCall& call, const CuLaunchKernelArgs& args) {
    const auto launch = WL_DRIVER(call, cuLaunchKernel);
    const auto function = WL_FIND(call, CUfunction, function, args.f);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    KernelParams params;
    WL_CUDA(params.read(args.params, args.sizes, *WL_LAYOUT(call, args.f)));
    return launch(function, args.gridX, args.gridY, args.gridZ, args.blockX, args.blockY, args.blockZ, args.sharedMemBytes,
                  stream, params.kernel_params(), params.extra());
}

CUresult hook_server_cuLaunchCooperativeKernel(ServerCall& call, const CuLaunchCooperativeKernelArgs& args) {
    const auto launch = WL_DRIVER(call, cuLaunchCooperativeKernel);
    const auto function = WL_FIND(call, CUfunction, function, args.f);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    KernelParams params;
    WL_CUDA(params.read(args.params, args.sizes, *WL_LAYOUT(call, args.f)));
    if (params.extra() != nullptr) return CUDA_ERROR_INVALID_VALUE;
    return launch(function, args.gridX, args.gridY, args.gridZ, args.blockX, args.blockY, args.blockZ, args.sharedMemBytes,
                  stream, params.kernel_params());
}

CUresult hook_server_cuLaunchKernelEx(ServerCall& call, const CuLaunchKernelExArgs& args) {
    const auto launch = WL_DRIVER(call, cuLaunchKernelEx);
    const auto function = WL_FIND(call, CUfunction, function, args.f);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    KernelParams params;
    WL_CUDA(params.read(args.params, args.sizes, *WL_LAYOUT(call, args.f)));
    std::vector<CUlaunchAttribute> attributes;
    WL_CUDA(read_attributes(call, args.attributes, attributes));
    CUlaunchConfig config{};
    config.gridDimX = args.gridX;
    config.gridDimY = args.gridY;
    config.gridDimZ = args.gridZ;
    config.blockDimX = args.blockX;
    config.blockDimY = args.blockY;
    config.blockDimZ = args.blockZ;
    config.sharedMemBytes = args.sharedMemBytes;
    config.hStream = stream;
    config.attrs = attributes.data();
    config.numAttrs = static_cast<unsigned>(attributes.size());
    return launch(&config, function, params.kernel_params(), params.extra());
}

}  // namespace warpline::server
