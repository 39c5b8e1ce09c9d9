// Checks the parameters of each kind of node and makes a body of them, and back.
#include "softgpu/driver/graph/graph_params.h"

#include <algorithm>

#include <cstring>

#include "softgpu/driver/code/module.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/memory/memory_pool.h"
#include "softgpu/driver/operations/copy.h"
#include "softgpu/driver/operations/launch.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

CUresult find_node_event(CUevent handle, EventPtr& event) {
    event = process().events.find(handle);
    return event != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// cuda.h has several versions of the same structures in one union.
template <typename To, typename From>
To as(const From& from) {
    To to{};
    static_assert(sizeof(To) <= sizeof(From));
    std::memcpy(&to, &from, sizeof(to));
    return to;
}

}  // namespace

namespace {

CUresult named_or_current(CUcontext handle, NamedContext& named) {
    if (handle != nullptr)
        return find_named_context(handle, named) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    Context* current = nullptr;
    if (current_context_even_failed(current) == CUDA_SUCCESS) {
        named = thread_state().contexts.back();
    } else {
        named.context = process().device(0)->primary;
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult node_context(CUcontext handle, std::shared_ptr<Context>& context) {
    NamedContext named;
    CU_TRY(named_or_current(handle, named));
    context = std::move(named.context);
    return CUDA_SUCCESS;
}

CUresult make_body(const CUDA_KERNEL_NODE_PARAMS& params, NodeBody& body, std::shared_ptr<Context>& context) {
    NamedContext named;
    // Which context a function runs in is the function's to say.
    CU_TRY(named_or_current(params.func != nullptr ? nullptr : params.ctx, named));
    context = named.context;
    LaunchRequest request;
    request.function = params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
    request.grid[0] = params.gridDimX;
    request.grid[1] = params.gridDimY;
    request.grid[2] = params.gridDimZ;
    request.block[0] = params.blockDimX;
    request.block[1] = params.blockDimY;
    request.block[2] = params.blockDimZ;
    request.shared_bytes = params.sharedMemBytes;
    request.params = params.kernelParams;
    request.extra = params.extra;
    KernelOperation operation;
    operation.green = named.green;
    CU_TRY(make_kernel(*context, request, operation));
    body = std::move(operation);
    return CUDA_SUCCESS;
}

CUresult make_body(const CUDA_MEMCPY3D& params, NodeBody& body) {
    CopyOperation operation;
    CU_TRY(described_copy(params, operation));
    body = std::move(operation);
    return CUDA_SUCCESS;
}

CUresult make_body(const CUDA_MEMSET_NODE_PARAMS& params, NodeBody& body) {
    CU_TRY(check_memset(params));
    body = MemsetOperation{params};
    return CUDA_SUCCESS;
}

CUresult make_body(const CUDA_HOST_NODE_PARAMS& params, NodeBody& body) {
    if (params.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
    body = HostOperation{params.fn, params.userData};
    return CUDA_SUCCESS;
}

CUresult make_body(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params, NodeBody& body, std::shared_ptr<Context>& context) {
    if (params.count == 0 || params.paramArray == nullptr || params.flags != 0) return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(node_context(params.ctx, context));
    std::span<const CUstreamBatchMemOpParams> items(params.paramArray, params.count);
    CU_TRY(check_memory_operations(items));
    body = BatchMemoryOperation{{items.begin(), items.end()}, params.flags};
    return CUDA_SUCCESS;
}

CUresult make_body(CUDA_MEM_ALLOC_NODE_PARAMS& params, NodeBody& body, std::shared_ptr<Context>& context) {
    const CUmemPoolProps& pool = params.poolProps;
    if (params.bytesize == 0 || pool.allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE || pool.handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (params.accessDescCount != 0 && params.accessDescs == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Device* device = nullptr;
    CU_TRY(find_device(pool.location.id, device));
    const std::span access(params.accessDescs, params.accessDescCount);
    for (const CUmemAccessDesc& one : access) CU_TRY(check_pool_access(*device, one));
    context = device->primary;
    MemoryAllocOperation operation;
    operation.memory = GraphMemory::create(*device, params.bytesize, access);
    if (operation.memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    params.dptr = operation.memory->address();
    operation.params = params;
    operation.access.assign(access.begin(), access.end());
    body = std::move(operation);
    return CUDA_SUCCESS;
}

CUresult make_child(CUgraph handle, NodeBody& body) {
    GraphPtr graph, copy;
    CU_TRY(find_graph(handle, graph));
    if (graph->is_child()) return CUDA_ERROR_NOT_SUPPORTED;
    CU_TRY(graph->clone(true, copy));
    body = ChildGraphOperation{std::move(copy)};
    return CUDA_SUCCESS;
}

/// The graph itself becomes the node's.
CUresult take_child(CUgraph handle, NodeBody& body) {
    GraphPtr graph;
    CU_TRY(find_graph(handle, graph));
    if (graph->is_child()) return CUDA_ERROR_NOT_SUPPORTED;
    if (graph->belongs_to_node() || !graph->conditionals.empty()) return CUDA_ERROR_INVALID_VALUE;
    graph->move_to_node();
    body = ChildGraphOperation{std::move(graph)};
    return CUDA_SUCCESS;
}

CUresult make_event_record(CUevent handle, NodeBody& body) {
    EventPtr event;
    CU_TRY(find_node_event(handle, event));
    body = EventRecordOperation{std::move(event), handle};
    return CUDA_SUCCESS;
}

CUresult make_event_wait(CUevent handle, NodeBody& body) {
    EventPtr event;
    CU_TRY(find_node_event(handle, event));
    body = EventWaitOperation{std::move(event), handle};
    return CUDA_SUCCESS;
}

CUresult make_memory_free(CUdeviceptr address, NodeBody& body) {
    // Only what a node has allocated (CUDA Driver API 13.0, cuGraphAddMemFreeNode).
    if (GraphMemory::find(address) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    body = MemoryFreeOperation{address};
    return CUDA_SUCCESS;
}

CUresult make_body(CUDA_CONDITIONAL_NODE_PARAMS& params, NodeBody& body, std::shared_ptr<Context>& context) {
    ConditionalOperation operation;
    operation.conditional = Conditional::find(params.handle);
    if (operation.conditional == nullptr) return CUDA_ERROR_INVALID_VALUE;
    operation.type = params.type;
    unsigned int most = 0;
    switch (params.type) {
        case CU_GRAPH_COND_TYPE_IF: most = 2; break;
        case CU_GRAPH_COND_TYPE_WHILE: most = 1; break;
        case CU_GRAPH_COND_TYPE_SWITCH: most = UINT16_MAX; break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (params.size == 0 || params.size > most) return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(node_context(params.ctx, context));
    for (unsigned int i = 0; i < params.size; ++i) {
        operation.bodies.push_back(Graph::create(true));
        operation.body_handles.push_back(operation.bodies.back()->handle());
    }
    body = std::move(operation);
    return CUDA_SUCCESS;
}

CUresult make_body(CUgraphNodeParams& params, NodeBody& body, std::shared_ptr<Context>& context) {
    CU_TRY(node_context(nullptr, context));
    switch (params.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: return make_body(as<CUDA_KERNEL_NODE_PARAMS>(params.kernel), body, context);
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            CU_TRY(node_context(params.memcpy.copyCtx, context));
            return make_body(params.memcpy.copyParams, body);
        case CU_GRAPH_NODE_TYPE_MEMSET:
            CU_TRY(node_context(params.memset.ctx, context));
            return make_body(as<CUDA_MEMSET_NODE_PARAMS>(params.memset), body);
        case CU_GRAPH_NODE_TYPE_HOST: return make_body(as<CUDA_HOST_NODE_PARAMS>(params.host), body);
        case CU_GRAPH_NODE_TYPE_GRAPH:
            switch (params.graph.ownership) {
                case CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE: return make_child(params.graph.graph, body);
                case CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE: return take_child(params.graph.graph, body);
                default: return CUDA_ERROR_INVALID_VALUE;
            }
        case CU_GRAPH_NODE_TYPE_EMPTY: body = EmptyOperation{}; return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return make_event_wait(params.eventWait.event, body);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return make_event_record(params.eventRecord.event, body);
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
            auto alloc = as<CUDA_MEM_ALLOC_NODE_PARAMS>(params.alloc);
            CU_TRY(make_body(alloc, body, context));
            params.alloc.dptr = alloc.dptr;
            return CUDA_SUCCESS;
        }
        case CU_GRAPH_NODE_TYPE_MEM_FREE: return make_memory_free(params.free.dptr, body);
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return make_body(as<CUDA_BATCH_MEM_OP_NODE_PARAMS>(params.memOp), body, context);
        case CU_GRAPH_NODE_TYPE_CONDITIONAL: return make_body(params.conditional, body, context);
        case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: return CUDA_ERROR_NOT_SUPPORTED;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult replace_body(NodeBody& body, NodeBody wanted) {
    if (type_of(body) != type_of(wanted)) return CUDA_ERROR_INVALID_VALUE;
    if (auto* kernel = std::get_if<KernelOperation>(&wanted)) {
        const auto& now = std::get<KernelOperation>(body);
        // Attributes belong to the node, not to the parameters.
        kernel->attributes = now.attributes;
        kernel->cooperative = now.cooperative;
        if (kernel->cluster.count() == 1) kernel->cluster = now.cluster;
        // Programs go on with the arrays that they were shown (cuGraphKernelNodeGetParams): the values stay where they are.
        auto& shown = std::get<KernelOperation>(body).params;
        if (shown.size() == kernel->params.size()) {
            std::copy(kernel->params.begin(), kernel->params.end(), shown.begin());
            kernel->params.swap(shown);
        }
    }
    body = std::move(wanted);
    return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS kernel_params(GraphNode& node) {
    const auto& kernel = std::get<KernelOperation>(node.body);
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = kernel.handle;  // as the node was given it, where its module or its context is gone
    if (const auto named = process().functions.find(kernel.handle)) named->names_in(*node.context, params.func, params.kern);
    params.gridDimX = kernel.grid.x;
    params.gridDimY = kernel.grid.y;
    params.gridDimZ = kernel.grid.z;
    params.blockDimX = kernel.block.x;
    params.blockDimY = kernel.block.y;
    params.blockDimZ = kernel.block.z;
    params.sharedMemBytes = kernel.dynamic_shared_bytes;
    params.kernelParams = node.param_pointers();
    params.ctx = node.context->handle();
    return params;
}

CUDA_KERNEL_NODE_PARAMS widen(const CUDA_KERNEL_NODE_PARAMS_v1& params) {
    CUDA_KERNEL_NODE_PARAMS wide{};
    std::memcpy(&wide, &params, sizeof(params));
    return wide;
}

}  // namespace warpline::softgpu::driver
