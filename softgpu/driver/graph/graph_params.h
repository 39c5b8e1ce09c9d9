// From the parameters of CUDA's nodes to bodies and back. Errors: those of the calls that the nodes stand for.
#pragma once

#include <memory>

#include "softgpu/driver/graph/graph.h"

namespace warpline::softgpu::driver {

/// The context that a node works in: the one that is named, else the current one, else the first device's primary context.
CUresult node_context(CUcontext handle, std::shared_ptr<Context>& context);

CUresult make_body(const CUDA_KERNEL_NODE_PARAMS& params, NodeBody& body, std::shared_ptr<Context>& context);
CUresult make_body(const CUDA_MEMCPY3D& params, NodeBody& body);
CUresult make_body(const CUDA_MEMSET_NODE_PARAMS& params, NodeBody& body);
CUresult make_body(const CUDA_HOST_NODE_PARAMS& params, NodeBody& body);
CUresult make_body(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params, NodeBody& body, std::shared_ptr<Context>& context);
/// Also fills in the address.
CUresult make_body(CUDA_MEM_ALLOC_NODE_PARAMS& params, NodeBody& body, std::shared_ptr<Context>& context);
CUresult make_child(CUgraph graph, NodeBody& body);
CUresult make_event_record(CUevent event, NodeBody& body);
CUresult make_event_wait(CUevent event, NodeBody& body);
CUresult make_memory_free(CUdeviceptr address, NodeBody& body);
/// Also fills in the bodies' graphs.
CUresult make_body(CUDA_CONDITIONAL_NODE_PARAMS& params, NodeBody& body, std::shared_ptr<Context>& context);
/// Any of them.
CUresult make_body(CUgraphNodeParams& params, NodeBody& body, std::shared_ptr<Context>& context);

/// The same node with other parameters: the body may not become one of another kind, and kernels keep their context.
CUresult replace_body(NodeBody& body, NodeBody wanted);

CUDA_KERNEL_NODE_PARAMS kernel_params(GraphNode& node);

/// The parameters of the first form of kernel nodes, as those of the second.
CUDA_KERNEL_NODE_PARAMS widen(const CUDA_KERNEL_NODE_PARAMS_v1& params);

}  // namespace warpline::softgpu::driver
