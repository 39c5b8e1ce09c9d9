// Launches of kernels.
#include "softgpu/driver/operations/launch.h"

#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/graph/enqueue.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
                        CUstream hStream, void** kernelParams, void** extra) {
    LaunchRequest request{
        f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, false, kernelParams, extra, {}};
    return enqueue_launch(request, hStream);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                   unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream, void** kernelParams) {
    LaunchRequest request{
        f, {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, true, kernelParams, nullptr, {}};
    return enqueue_launch(request, hStream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra) {
    if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    LaunchRequest request{f,
                          {config->gridDimX, config->gridDimY, config->gridDimZ},
                          {config->blockDimX, config->blockDimY, config->blockDimZ},
                          config->sharedMemBytes,
                          false,
                          kernelParams,
                          extra,
                          {config->attrs, config->numAttrs}};
    return enqueue_launch(request, config->hStream);
}

}  // namespace warpline::softgpu::driver
