// Launches, from the call to the operation.
#pragma once

#include <memory>
#include <span>

#include "softgpu/driver/operations/operation.h"

namespace warpline::softgpu::driver {

/// Threads of a warp.
inline constexpr int k_warp = 32;
/// Clusters of up to this many blocks run on every device that has them; more must be allowed by the function.
inline constexpr uint32_t k_portable_cluster = 8, k_largest_cluster = 16;

/// What a launch call says, whichever call it is.
struct LaunchRequest {
    CUfunction function = nullptr;
    uint32_t grid[3] = {1, 1, 1};
    uint32_t block[3] = {1, 1, 1};
    uint32_t shared_bytes = 0;
    bool cooperative = false;
    void** params = nullptr;
    void** extra = nullptr;
    std::span<const CUlaunchAttribute> attributes;
};

/// Checks a launch against the function and the device, and copies its parameters.
///
/// @errors  invalid value (shape, shared memory, parameters), invalid handle, launch out of resources (more threads than the
///          kernel is compiled for), cooperative launch too large, invalid cluster size, not supported (an opcode)
/// @source  CUDA Driver API 13.0, Execution Control, cuLaunchKernel and cuLaunchKernelEx
CUresult make_kernel(Context& context, const LaunchRequest& request, KernelOperation& operation);

/// Whether a cluster may have so many blocks: a power of two, and none that the function has to allow unless it does.
bool is_cluster_size(uint64_t blocks, bool non_portable);

/// How many blocks that need so much are resident on a multiprocessor at the same time. @param registers  of a thread
uint32_t blocks_per_sm(const Device& device, uint32_t threads, uint64_t shared_bytes, uint64_t registers);
/// The same of a kernel.
uint32_t blocks_per_sm(const LoadedFunction& function, uint32_t threads, uint64_t dynamic_shared_bytes);

}  // namespace warpline::softgpu::driver
