// The parameters of nodes of graphs.
#include <algorithm>
#include <cstring>

#include "cuda/abi/node_params.h"
#include "softgpu/driver/code/module.h"
#include "softgpu/driver/graph/graph_params.h"
#include "softgpu/driver/operations/launch.h"

namespace warpline::softgpu::driver {

namespace {

/// Gives a node of a type other parameters.
template <typename Make>
CUresult change(CUgraphNode handle, CUgraphNodeType type, Make make) {
    NodePtr node;
    CU_TRY(find_node(handle, node));
    if (node->type() != type) return CUDA_ERROR_INVALID_VALUE;
    NodeBody body;
    std::shared_ptr<Context> context = node->context;
    CU_TRY(make(body, context));
    CU_TRY(replace_body(node->body, std::move(body)));
    node->context = std::move(context);
    return CUDA_SUCCESS;
}

/// Answers what a node of a kind says. `read` makes the answer of its body.
template <typename Body, typename T, typename Read>
CUresult get(CUgraphNode handle, T* out, Read read) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    Body* body = nullptr;
    CU_TRY(find_node(handle, node, body));
    *out = read(*body, *node);
    return CUDA_SUCCESS;
}

CUresult change_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS params) {
    NodePtr found;
    CU_TRY(find_node(node, found));
    if (params.ctx == nullptr) params.ctx = found->context->handle();
    return change(node, CU_GRAPH_NODE_TYPE_KERNEL,
                  [&](NodeBody& body, auto& context) { return make_body(params, body, context); });
}

/// Attributes of kernel nodes that change what a launch does, beyond being remembered.
CUresult apply_attribute(KernelOperation& kernel, CUkernelNodeAttrID id, const CUkernelNodeAttrValue& value) {
    switch (id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: kernel.cooperative = value.cooperative != 0; return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
            const auto& dim = value.clusterDim;
            if (dim.x == 0 || dim.y == 0 || dim.z == 0) return CUDA_ERROR_INVALID_VALUE;
            const bool allowed = kernel.function->non_portable_cluster();
            if (!is_cluster_size(uint64_t{dim.x} * dim.y * dim.z, allowed)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
            if (kernel.grid.x % dim.x != 0 || kernel.grid.y % dim.y != 0 || kernel.grid.z % dim.z != 0) {
                return CUDA_ERROR_INVALID_CLUSTER_SIZE;
            }
            kernel.cluster = {dim.x, dim.y, dim.z};
            return CUDA_SUCCESS;
        }
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE: return CUDA_ERROR_NOT_SUPPORTED;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/// The cluster of a launch that says nothing of it.
exec::Dim3 own_cluster(const LoadedFunction& function) {
    const auto required = function.required_cluster();
    if (required[0] == 0) return {1, 1, 1};
    return {required[0], std::max(required[1], 1U), std::max(required[2], 1U)};
}

CUlaunchAttribute* find_attribute(KernelOperation& kernel, CUkernelNodeAttrID id) {
    auto found = std::find_if(kernel.attributes.begin(), kernel.attributes.end(), [id](const auto& a) { return a.id == id; });
    return found != kernel.attributes.end() ? &*found : nullptr;
}

}  // namespace

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    return get<KernelOperation>(hNode, nodeParams, [](auto&, GraphNode& node) { return kernel_params(node); });
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    return get<KernelOperation>(hNode, nodeParams, [](auto&, GraphNode& node) {
        CUDA_KERNEL_NODE_PARAMS params = kernel_params(node);
        if (params.func == nullptr) params.func = reinterpret_cast<CUfunction>(params.kern);
        CUDA_KERNEL_NODE_PARAMS_v1 narrow{};
        std::memcpy(&narrow, &params, sizeof(narrow));
        return narrow;
    });
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    return nodeParams != nullptr ? change_kernel(hNode, *nodeParams) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    return nodeParams != nullptr ? change_kernel(hNode, widen(*nodeParams)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
    NodePtr to, from;
    KernelOperation *target = nullptr, *source = nullptr;
    CU_TRY(find_node(dst, to, target));
    CU_TRY(find_node(src, from, source));
    // All that the source has takes the place of what the target had, also where the source has nothing.
    KernelOperation scratch;
    scratch.function = target->function;
    scratch.grid = target->grid;
    scratch.cooperative = source->cooperative;
    scratch.cluster = own_cluster(*target->function);
    for (const CUlaunchAttribute& attribute : source->attributes) {
        CU_TRY(apply_attribute(scratch, attribute.id, attribute.value));
    }
    target->attributes = source->attributes;
    target->cooperative = scratch.cooperative;
    target->cluster = scratch.cluster;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue* value_out) {
    if (value_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    KernelOperation* kernel = nullptr;
    CU_TRY(find_node(hNode, node, kernel));
    KernelOperation scratch;
    scratch.grid = kernel->grid;
    CUkernelNodeAttrValue told{};
    if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        told.cooperative = kernel->cooperative ? 1 : 0;
    } else if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        told.clusterDim = {kernel->cluster.x, kernel->cluster.y, kernel->cluster.z};
    } else if (const CUlaunchAttribute* set = find_attribute(*kernel, attr)) {
        told = set->value;
    } else {
        CU_TRY(apply_attribute(scratch, attr, told));  // a default, if there is such an attribute
    }
    *value_out = told;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue* value) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    KernelOperation* kernel = nullptr;
    CU_TRY(find_node(hNode, node, kernel));
    CU_TRY(apply_attribute(*kernel, attr, *value));
    if (CUlaunchAttribute* set = find_attribute(*kernel, attr)) {
        set->value = *value;
        return CUDA_SUCCESS;
    }
    CUlaunchAttribute made{};
    made.id = attr;
    made.value = *value;
    kernel->attributes.push_back(made);
    return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
    return get<CopyOperation>(hNode, nodeParams, [](CopyOperation& copy, auto&) { return copy.described; });
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, [&](NodeBody& body, auto&) { return make_body(*nodeParams, body); });
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* nodeParams) {
    return get<MemsetOperation>(hNode, nodeParams, [](MemsetOperation& fill, auto&) { return fill.params; });
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hNode, CU_GRAPH_NODE_TYPE_MEMSET, [&](NodeBody& body, auto&) { return make_body(*nodeParams, body); });
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
    return get<HostOperation>(hNode, nodeParams, [](HostOperation& host, auto&) {
        return CUDA_HOST_NODE_PARAMS{host.function, host.user};
    });
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hNode, CU_GRAPH_NODE_TYPE_HOST, [&](NodeBody& body, auto&) { return make_body(*nodeParams, body); });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph* phGraph) {
    return get<ChildGraphOperation>(hNode, phGraph, [](ChildGraphOperation& child, auto&) { return child.graph->handle(); });
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
    return get<EventRecordOperation>(hNode, event_out, [](EventRecordOperation& record, auto&) { return record.handle; });
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
    return change(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                  [&](NodeBody& body, auto&) { return make_event_record(event, body); });
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
    return get<EventWaitOperation>(hNode, event_out, [](EventWaitOperation& wait, auto&) { return wait.handle; });
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
    return change(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, [&](NodeBody& body, auto&) { return make_event_wait(event, body); });
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams_out) {
    return get<BatchMemoryOperation>(hNode, nodeParams_out, [](BatchMemoryOperation& batch, GraphNode& node) {
        auto count = static_cast<unsigned int>(batch.operations.size());
        return CUDA_BATCH_MEM_OP_NODE_PARAMS{node.context->handle(), count, batch.operations.data(), batch.flags};
    });
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                  [&](NodeBody& body, auto& context) { return make_body(*nodeParams, body, context); });
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
    return get<MemoryAllocOperation>(hNode, params_out, [](MemoryAllocOperation& alloc, auto&) {
        CUDA_MEM_ALLOC_NODE_PARAMS params = alloc.params;
        params.accessDescs = alloc.access.data();
        params.accessDescCount = alloc.access.size();
        return params;
    });
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr* dptr_out) {
    return get<MemoryFreeOperation>(hNode, dptr_out, [](MemoryFreeOperation& free, auto&) { return free.address; });
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hNode, nodeParams->type,
                  [&](NodeBody& body, auto& context) { return make_body(*nodeParams, body, context); });
}

namespace {

/// What the call of each type tells of one node.
struct ParamsOfNode {
    CUgraphNode node;
    CUcontext context;

    CUresult kernel(CUDA_KERNEL_NODE_PARAMS& out) const { return driver::cuGraphKernelNodeGetParams_v2(node, &out); }
    CUresult copy(CUDA_MEMCPY3D& out, CUcontext& in) const {
        in = context;
        return driver::cuGraphMemcpyNodeGetParams(node, &out);
    }
    CUresult fill(CUDA_MEMSET_NODE_PARAMS& out, CUcontext& in) const {
        in = context;
        return driver::cuGraphMemsetNodeGetParams(node, &out);
    }
    CUresult host(CUDA_HOST_NODE_PARAMS& out) const { return driver::cuGraphHostNodeGetParams(node, &out); }
    CUresult child(CUDA_CHILD_GRAPH_NODE_PARAMS& out) const { return driver::cuGraphChildGraphNodeGetGraph(node, &out.graph); }
    CUresult conditional(CUDA_CONDITIONAL_NODE_PARAMS& out) const {
        return get<ConditionalOperation>(node, &out, [&](ConditionalOperation& made, auto&) {
            return CUDA_CONDITIONAL_NODE_PARAMS{made.conditional->handle(), made.type,
                                                static_cast<unsigned>(made.bodies.size()), made.body_handles.data(), context};
        });
    }
    CUresult wait(CUevent& out) const { return driver::cuGraphEventWaitNodeGetEvent(node, &out); }
    CUresult record(CUevent& out) const { return driver::cuGraphEventRecordNodeGetEvent(node, &out); }
    CUresult batch(CUDA_BATCH_MEM_OP_NODE_PARAMS& out) const { return driver::cuGraphBatchMemOpNodeGetParams(node, &out); }
    CUresult allocation(CUDA_MEM_ALLOC_NODE_PARAMS& out) const { return driver::cuGraphMemAllocNodeGetParams(node, &out); }
    CUresult release(CUdeviceptr& out) const { return driver::cuGraphMemFreeNodeGetParams(node, &out); }
};

}  // namespace

CUresult cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    CU_TRY(find_node(hNode, node));
    const CUcontext context = node->context != nullptr ? node->context->handle() : nullptr;
    CUgraphNodeParams params;
    CU_TRY(cuda::abi::gather_node_params(node->type(), ParamsOfNode{hNode, context}, params));
    *nodeParams = params;
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
