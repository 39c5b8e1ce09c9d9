#pragma once

#include "client/hooks/graph_copies.h"
#include "client/hooks/launch.h"

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

/// The parameters of a copy node in the form in which they travel. Host memory is read and written at each launch: the server
/// knows a source by a host call that sends it, and a destination by the number of the call that made the node.
struct CopyNode {
    CUDA_MEMCPY3D copy{};
    uint64_t source_array = 0;
    uint64_t destination_array = 0;
    HostEndOfCopy host;

    CUresult read(Call& call, const CUDA_MEMCPY3D& from);
};

/// The number under which the server calls a host node's function back.
uint64_t register_host_node(Call& call, CUhostFn function, void* user_data);

}  // namespace warpline::client
