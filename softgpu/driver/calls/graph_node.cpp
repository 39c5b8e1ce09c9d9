#include <algorithm>
#include <cstring>

#include "softgpu/driver/context/event.h"
#include "softgpu/driver/graph/graph_params.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// Where a node is added.
struct Place {
    CUgraph graph;
    const CUgraphNode* dependencies;
    const CUgraphEdgeData* data;
    size_t count;
};

CUresult read(const Place& place, GraphPtr& graph, std::vector<GraphEdge>& edges) {
    CU_TRY(find_graph(place.graph, graph));
    if (place.count != 0 && place.dependencies == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < place.count; ++i) {
        NodePtr node;
        CU_TRY(find_node(place.dependencies[i], node));
        edges.push_back({node.get(), place.data != nullptr ? place.data[i] : CUgraphEdgeData{}});
    }
    return CUDA_SUCCESS;
}

/// `make(body, context)` makes the node's body when the place has been found good.
template <typename Make>
CUresult add(CUgraphNode* out, const Place& place, Make make) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GraphPtr graph;
    std::vector<GraphEdge> edges;
    CU_TRY(read(place, graph, edges));
    NodeBody body;
    std::shared_ptr<Context> context;
    CU_TRY(node_context(nullptr, context));
    CU_TRY(make(body, context));
    NodePtr node;
    CU_TRY(graph->add(std::move(body), std::move(context), edges, node));
    *out = node->handle();
    return CUDA_SUCCESS;
}

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

CUDA_KERNEL_NODE_PARAMS widen(const CUDA_KERNEL_NODE_PARAMS_v1& params) {
    CUDA_KERNEL_NODE_PARAMS wide{};
    std::memcpy(&wide, &params, sizeof(params));
    return wide;
}

CUresult add_kernel(CUgraphNode* out, const Place& place, const CUDA_KERNEL_NODE_PARAMS& params) {
    return add(out, place, [&](NodeBody& body, auto& context) { return make_body(params, body, context); });
}

CUresult change_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS params) {
    NodePtr found;
    CU_TRY(find_node(node, found));
    if (params.ctx == nullptr) params.ctx = found->context->handle();
    return change(node, CU_GRAPH_NODE_TYPE_KERNEL,
                  [&](NodeBody& body, auto& context) { return make_body(params, body, context); });
}

CUresult add_any(CUgraphNode* out, const Place& place, CUgraphNodeParams* params) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(add(out, place, [&](NodeBody& body, auto& context) { return make_body(*params, body, context); }));
    if (params->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return CUDA_SUCCESS;
    NodePtr node;
    ConditionalOperation* conditional = nullptr;
    CU_TRY(find_node(*out, node, conditional));
    params->conditional.phGraph_out = conditional->body_handles.data();
    return CUDA_SUCCESS;
}

/// Attributes of kernel nodes that change what a launch does, beyond being remembered.
CUresult apply_attribute(KernelOperation& kernel, CUkernelNodeAttrID id, const CUkernelNodeAttrValue& value) {
    switch (id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: kernel.cooperative = value.cooperative != 0; return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
            const auto& dim = value.clusterDim;
            if (dim.x == 0 || dim.y == 0 || dim.z == 0) return CUDA_ERROR_INVALID_VALUE;
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

CUlaunchAttribute* find_attribute(KernelOperation& kernel, CUkernelNodeAttrID id) {
    auto found = std::find_if(kernel.attributes.begin(), kernel.attributes.end(), [id](const auto& a) { return a.id == id; });
    return found != kernel.attributes.end() ? &*found : nullptr;
}

}  // namespace

CUresult cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                 size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add_kernel(phGraphNode, {hGraph, dependencies, nullptr, numDependencies}, *nodeParams);
}
CUresult cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
                              const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add_kernel(phGraphNode, {hGraph, dependencies, nullptr, numDependencies}, widen(*nodeParams));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
                              const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
    if (copyParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies}, [&](NodeBody& body, auto& context) {
        CU_TRY(node_context(ctx, context));
        return make_body(*copyParams, body);
    });
}

CUresult cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
                              const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
    if (memsetParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies}, [&](NodeBody& body, auto& context) {
        CU_TRY(node_context(ctx, context));
        return make_body(*memsetParams, body);
    });
}

CUresult cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
                            const CUDA_HOST_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto&) { return make_body(*nodeParams, body); });
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                  size_t numDependencies, CUgraph childGraph) {
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto&) { return make_child(childGraph, body); });
}

CUresult cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                             size_t numDependencies) {
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies}, [](NodeBody& body, auto&) {
        body = EmptyOperation{};
        return CUDA_SUCCESS;
    });
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                   size_t numDependencies, CUevent event) {
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto&) { return make_event_record(event, body); });
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                 size_t numDependencies, CUevent event) {
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto&) { return make_event_wait(event, body); });
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                  size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto& context) { return make_body(*nodeParams, body, context); });
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto& context) { return make_body(*nodeParams, body, context); });
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                               size_t numDependencies, CUdeviceptr dptr) {
    return add(phGraphNode, {hGraph, dependencies, nullptr, numDependencies},
               [&](NodeBody& body, auto&) { return make_memory_free(dptr, body); });
}

CUresult cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* dependencyData, size_t numDependencies, CUgraphNodeParams* nodeParams) {
    return add_any(phGraphNode, {hGraph, dependencies, dependencyData, numDependencies}, nodeParams);
}
CUresult cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
                        CUgraphNodeParams* nodeParams) {
    return add_any(phGraphNode, {hGraph, dependencies, nullptr, numDependencies}, nodeParams);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    KernelOperation* kernel = nullptr;
    CU_TRY(find_node(hNode, node, kernel));
    *nodeParams = kernel_params(*node);
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    KernelOperation* kernel = nullptr;
    CU_TRY(find_node(hNode, node, kernel));
    CUDA_KERNEL_NODE_PARAMS params = kernel_params(*node);
    if (params.func == nullptr) params.func = reinterpret_cast<CUfunction>(params.kern);
    std::memcpy(nodeParams, &params, sizeof(*nodeParams));
    return CUDA_SUCCESS;
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
    target->attributes = source->attributes;
    for (const CUlaunchAttribute& attribute : source->attributes) {
        CU_TRY(apply_attribute(*target, attribute.id, attribute.value));
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue* value_out) {
    if (value_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    KernelOperation* kernel = nullptr;
    CU_TRY(find_node(hNode, node, kernel));
    KernelOperation scratch;
    scratch.grid = kernel->grid;
    *value_out = CUkernelNodeAttrValue{};
    if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        value_out->cooperative = kernel->cooperative ? 1 : 0;
    } else if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        value_out->clusterDim = {kernel->cluster.x, kernel->cluster.y, kernel->cluster.z};
    } else if (const CUlaunchAttribute* set = find_attribute(*kernel, attr)) {
        *value_out = set->value;
    } else {
        return apply_attribute(scratch, attr, *value_out);  // a default, if there is such an attribute
    }
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
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    CopyOperation* copy = nullptr;
    CU_TRY(find_node(hNode, node, copy));
    *nodeParams = copy->described;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, [&](NodeBody& body, auto&) { return make_body(*nodeParams, body); });
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    MemsetOperation* memset = nullptr;
    CU_TRY(find_node(hNode, node, memset));
    *nodeParams = memset->params;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hNode, CU_GRAPH_NODE_TYPE_MEMSET, [&](NodeBody& body, auto&) { return make_body(*nodeParams, body); });
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    HostOperation* host = nullptr;
    CU_TRY(find_node(hNode, node, host));
    *nodeParams = {host->function, host->user};
    return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hNode, CU_GRAPH_NODE_TYPE_HOST, [&](NodeBody& body, auto&) { return make_body(*nodeParams, body); });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph* phGraph) {
    if (phGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    ChildGraphOperation* child = nullptr;
    CU_TRY(find_node(hNode, node, child));
    *phGraph = child->graph->handle();
    return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
    if (event_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    EventRecordOperation* record = nullptr;
    CU_TRY(find_node(hNode, node, record));
    *event_out = record->handle;
    return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
    return change(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                  [&](NodeBody& body, auto&) { return make_event_record(event, body); });
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
    if (event_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    EventWaitOperation* wait = nullptr;
    CU_TRY(find_node(hNode, node, wait));
    *event_out = wait->handle;
    return CUDA_SUCCESS;
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
    return change(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, [&](NodeBody& body, auto&) { return make_event_wait(event, body); });
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams_out) {
    if (nodeParams_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    BatchMemoryOperation* batch = nullptr;
    CU_TRY(find_node(hNode, node, batch));
    *nodeParams_out = {node->context->handle(), static_cast<unsigned int>(batch->operations.size()), batch->operations.data(),
                       batch->flags};
    return CUDA_SUCCESS;
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                  [&](NodeBody& body, auto& context) { return make_body(*nodeParams, body, context); });
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
    if (params_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    MemoryAllocOperation* alloc = nullptr;
    CU_TRY(find_node(hNode, node, alloc));
    *params_out = alloc->params;
    params_out->accessDescs = alloc->access.data();
    params_out->accessDescCount = alloc->access.size();
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr* dptr_out) {
    if (dptr_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    NodePtr node;
    MemoryFreeOperation* free = nullptr;
    CU_TRY(find_node(hNode, node, free));
    *dptr_out = free->address;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hNode, nodeParams->type,
                  [&](NodeBody& body, auto& context) { return make_body(*nodeParams, body, context); });
}

}  // namespace warpline::softgpu::driver
