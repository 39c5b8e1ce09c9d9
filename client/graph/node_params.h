// Parameters of nodes in the form in which they travel.
#pragma once

#include "client/code/launch_params.h"

namespace warpline::client {

/// The parameters of a kernel node in the form in which they travel.
struct KernelNode {
    uint64_t function = 0;
    LaunchShape shape;
    LaunchParams params;

    /// @errors  as a launch's
    CUresult read(Call& call, const CUDA_KERNEL_NODE_PARAMS& from);
    CUresult read(Call& call, const CUDA_KERNEL_NODE_PARAMS_v1& from);

private:
    CUresult read(Call& call, uint64_t token, void** kernel_params, void** extra);
};

/// What is looked at of a fill that is to be a node: its context, unless it is null, and its memory, which is the device's from
/// then on where it is page-locked.
/// @errors  invalid value
CUresult check_fill(Call& call, const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context);

/// The number under which the server calls a host node's function back.
uint64_t register_host_node(Call& call, CUhostFn function, void* user_data);

}  // namespace warpline::client
