// What nodes of graphs were made of, and what they are to be made of from now on. Of what they were the server's driver knows,
// also of nodes that capture has made; this side translates back what is the program's.
#include <cstring>

#include "client/copy/copies_on_host.h"
#include "client/copy/copy_node.h"
#include "client/copy/exchange_copy.h"
#include "client/gen/graph_calls.gen.h"
#include "client/gen/graph_node_params_calls.gen.h"
#include "client/graph/batch.h"
#include "client/graph/holds.h"
#include "client/graph/node_forms.h"
#include "client/graph/node_params.h"
#include "client/graph/node_tokens.h"
#include "cuda/abi/node_params.h"

namespace warpline::client {

namespace {

/// Lays a kernel node's parameters out where the program may read them until the next question about the node.
CUresult keep_params(GraphNode& node, const Bytes& values, const Bytes& sizes, void**& pointers) {
    constexpr size_t k_alignment = 16;
    const size_t count = sizes.size() / sizeof(uint32_t);
    MutexLock lock(node.mutex);
    node.params.assign(values.size() + (count + 1) * k_alignment, std::byte{});
    node.pointers.clear();
    const auto begin = reinterpret_cast<uintptr_t>(node.params.data());
    size_t place = (begin + k_alignment - 1) / k_alignment * k_alignment - begin;
    size_t offset = 0;
    for (size_t i = 0; i < count; ++i) {
        uint32_t size = 0;
        std::memcpy(&size, sizes.data() + i * sizeof size, sizeof size);
        if (size > values.size() - offset) return CUDA_ERROR_UNKNOWN;
        if (size != 0) std::memcpy(node.params.data() + place, values.data() + offset, size);
        node.pointers.push_back(node.params.data() + place);
        offset += size;
        place += (size + k_alignment - 1) / k_alignment * k_alignment;
    }
    pointers = node.pointers.empty() ? nullptr : node.pointers.data();
    return CUDA_SUCCESS;
}

void describe(const GraphEnd& end, CUDA_MEMCPY3D& copy, bool source) {
    if (source) {
        copy.srcMemoryType = CU_MEMORYTYPE_HOST;
        copy.srcHost = end.host;
        copy.srcXInBytes = end.x, copy.srcY = end.y, copy.srcZ = end.z, copy.srcPitch = end.pitch, copy.srcHeight = end.height;
    } else {
        copy.dstMemoryType = CU_MEMORYTYPE_HOST;
        copy.dstHost = const_cast<void*>(end.host);
        copy.dstXInBytes = end.x, copy.dstY = end.y, copy.dstZ = end.z, copy.dstPitch = end.pitch, copy.dstHeight = end.height;
    }
}

/// The node calls another function here. @param id  by which the server knows it
CUresult set_callback(Call& call, CUgraphNode node, uint64_t id) {
    const UserObjectPtr end = make_end(call, EndKind::function, id);
    const CUresult result = gen::issue_cuGraphHostNodeSetParams(call, to_token(node), id);
    if (result == CUDA_SUCCESS) {
        hold_in_node(call, to_token(node), end);
    } else {
        end->release(1);
    }
    return result;
}

}  // namespace

CUresult hook_client_cuGraphKernelNodeGetParams_v2(Call& call, CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    GraphNode* node = call.state.graph_nodes.find(to_token(hNode));
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    gen::CuGraphKernelNodeGetParamsV2Values answer;
    CUresult result = gen::request_cuGraphKernelNodeGetParams_v2(call, to_token(hNode), answer);
    if (result != CUDA_SUCCESS) return result;
    CUDA_KERNEL_NODE_PARAMS params{};
    // A kernel's token is its function's in every context.
    params.func = to_handle<CUfunction>(answer.func != 0 ? answer.func : answer.kern);
    if (!call.state.functions.find(to_token(params.func))) return CUDA_ERROR_INVALID_HANDLE;
    params.kern = to_handle<CUkernel>(answer.kern);
    params.ctx = to_handle<CUcontext>(answer.ctx);
    params.gridDimX = answer.gridX, params.gridDimY = answer.gridY, params.gridDimZ = answer.gridZ;
    params.blockDimX = answer.blockX, params.blockDimY = answer.blockY, params.blockDimZ = answer.blockZ;
    params.sharedMemBytes = answer.sharedMemBytes;
    result = keep_params(*node, answer.params, answer.sizes, params.kernelParams);
    if (result == CUDA_SUCCESS) *nodeParams = params;
    return result;
}

CUresult hook_client_cuGraphKernelNodeGetParams(Call& call, CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    CUDA_KERNEL_NODE_PARAMS params{};
    const CUresult result = hook_client_cuGraphKernelNodeGetParams_v2(call, hNode, &params);
    if (result != CUDA_SUCCESS) return result;
    std::memcpy(nodeParams, &params, sizeof *nodeParams);  // the newer form only adds fields at the end
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphMemcpyNodeGetParams(Call& call, CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
    std::optional<CUDA_MEMCPY3D> on_host;
    CUresult result = describe_host_copy(call, hNode, on_host);
    if (on_host) *nodeParams = *on_host;
    if (on_host || result != CUDA_SUCCESS) return result;
    gen::CuGraphMemcpyNodeGetParamsValues answer;
    result = gen::request_cuGraphMemcpyNodeGetParams(call, to_token(hNode), answer);
    if (result != CUDA_SUCCESS) return result;
    CUDA_MEMCPY3D copy{};
    copy_struct(&copy, answer.copy);
    copy.srcArray = to_handle<CUarray>(answer.srcArray);
    copy.dstArray = to_handle<CUarray>(answer.dstArray);
    if (answer.source != 0) {
        const auto end = call.state.graph_ends.source(answer.source);
        if (!end) return CUDA_ERROR_UNKNOWN;
        describe(*end, copy, true);
    }
    if (answer.target != 0) {
        const auto end = call.state.graph_ends.target(answer.target);
        if (!end) return CUDA_ERROR_UNKNOWN;
        describe(*end, copy, false);
    }
    *nodeParams = copy;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphHostNodeGetParams(Call& call, CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    gen::CuGraphHostNodeGetParamsValues answer;
    const CUresult result = gen::request_cuGraphHostNodeGetParams(call, to_token(hNode), answer);
    if (result != CUDA_SUCCESS) return result;
    const auto function = call.state.graph_ends.function(answer.id);
    if (!function) return CUDA_ERROR_INVALID_VALUE;  // to the program it is a copy
    *nodeParams = {function->first, function->second};
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphBatchMemOpNodeSetParams(Call& call, CUgraphNode hNode,
                                                    const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_batch_of_node(call, *nodeParams); refused != CUDA_SUCCESS) return refused;
    return gen::issue_cuGraphBatchMemOpNodeSetParams(call, to_token(hNode), context_of_batch(call, *nodeParams),
                                                     array_bytes(nodeParams->paramArray, nodeParams->count), nodeParams->flags);
}

CUresult hook_client_cuGraphBatchMemOpNodeGetParams(Call& call, CUgraphNode hNode,
                                                    CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams_out) {
    GraphNode* node = call.state.graph_nodes.find(to_token(hNode));
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    gen::CuGraphBatchMemOpNodeGetParamsValues answer;
    const CUresult result = gen::request_cuGraphBatchMemOpNodeGetParams(call, to_token(hNode), answer);
    if (result != CUDA_SUCCESS) return result;
    MutexLock lock(node->mutex);
    node->params = std::move(answer.items);
    *nodeParams_out = {to_handle<CUcontext>(node->context),
                       static_cast<unsigned>(node->params.size() / sizeof(CUstreamBatchMemOpParams)),
                       reinterpret_cast<CUstreamBatchMemOpParams*>(node->params.data()), answer.flags};
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphMemAllocNodeGetParams(Call& call, CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
    GraphNode* node = call.state.graph_nodes.find(to_token(hNode));
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    gen::CuGraphMemAllocNodeGetParamsValues answer;
    const CUresult result = gen::request_cuGraphMemAllocNodeGetParams(call, to_token(hNode), answer);
    if (result != CUDA_SUCCESS) return result;
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    copy_struct(&params.poolProps, answer.properties);
    params.bytesize = answer.bytes;
    params.dptr = answer.address;
    MutexLock lock(node->mutex);
    node->params = std::move(answer.access);
    params.accessDescCount = node->params.size() / sizeof(CUmemAccessDesc);
    if (params.accessDescCount != 0) params.accessDescs = reinterpret_cast<const CUmemAccessDesc*>(node->params.data());
    *params_out = params;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphKernelNodeSetParams_v2(Call& call, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    KernelNode kernel;
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = kernel.read(call, *nodeParams); refused != CUDA_SUCCESS) return refused;
    const LaunchShape& s = kernel.shape;
    return gen::issue_cuGraphKernelNodeSetParams_v2(call, to_token(hNode), kernel.function, s.grid_x, s.grid_y, s.grid_z,
                                                    s.block_x, s.block_y, s.block_z, s.shared_bytes, kernel.params.params(),
                                                    kernel.params.sizes());
}

CUresult hook_client_cuGraphKernelNodeSetParams(Call& call, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    CUDA_KERNEL_NODE_PARAMS params{};
    std::memcpy(&params, nodeParams, sizeof *nodeParams);  // the newer form only adds fields at the end
    return hook_client_cuGraphKernelNodeSetParams_v2(call, hNode, &params);
}

CUresult hook_client_cuGraphMemcpyNodeSetParams(Call& call, CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams) {
    CopyNode copy;
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    GraphNode& node = *call.state.graph_nodes.find(to_token(hNode));
    if (CUresult refused = copy.read(call, *nodeParams, node.graph); refused != CUDA_SUCCESS) return refused;
    bool on_host = false;
    if (CUresult refused = is_host_copy(call, hNode, on_host); refused != CUDA_SUCCESS) return refused;
    if (on_host != copy.on_host.has_value()) return exchange_copy(call, hNode, copy);
    // Executable graphs may have been made with the one and with the other.
    node.copy_changed.store(true);
    if (node.copy_kinds.load() != copy.kinds()) node.copy_kinds.store(0);
    if (on_host) {
        const uint64_t context = node.context != 0 ? node.context : call.context;
        return set_callback(call, hNode, register_host_copy(call, *copy.on_host, copy.copy, context));
    }
    const CUresult result = copy.host.send(call, [&](uint64_t source, uint64_t address, uint64_t bytes) {
        return gen::issue_cuGraphMemcpyNodeSetParams(call, to_token(hNode), copy.source_array, copy.destination_array,
                                                     struct_bytes(&copy.copy), source, address, bytes);
    });
    if (result == CUDA_SUCCESS && copy.host.exists()) hold_in_node(call, to_token(hNode), copy.host.held());
    return result;
}

CUresult hook_client_cuGraphHostNodeSetParams(Call& call, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    if (!nodeParams->fn) return CUDA_ERROR_INVALID_VALUE;
    bool is_copy = false;
    if (CUresult refused = is_host_copy(call, hNode, is_copy); refused != CUDA_SUCCESS) return refused;
    if (is_copy) return CUDA_ERROR_INVALID_VALUE;
    return set_callback(call, hNode, register_host_node(call, nodeParams->fn, nodeParams->userData));
}

CUresult hook_client_cuGraphEventRecordNodeGetEvent(Call& call, CUgraphNode hNode, CUevent* event_out) {
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    gen::CuGraphEventRecordNodeGetEventValues answer;
    CUresult result = gen::request_cuGraphEventRecordNodeGetEvent(call, to_token(hNode), answer);
    if (result == CUDA_SUCCESS) *event_out = to_handle<CUevent>(answer.eventOut);
    return result;
}

CUresult hook_client_cuGraphEventWaitNodeGetEvent(Call& call, CUgraphNode hNode, CUevent* event_out) {
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    gen::CuGraphEventWaitNodeGetEventValues answer;
    CUresult result = gen::request_cuGraphEventWaitNodeGetEvent(call, to_token(hNode), answer);
    if (result == CUDA_SUCCESS) *event_out = to_handle<CUevent>(answer.eventOut);
    return result;
}

CUresult hook_client_cuGraphChildGraphNodeGetGraph(Call& call, CUgraphNode hNode, CUgraph* phGraph) {
    GraphNode* node = call.state.graph_nodes.find(to_token(hNode));
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    bool is_child = false;
    {
        MutexLock lock(node->mutex);
        *phGraph = to_handle<CUgraph>(node->child);
        if (node->child != 0) return CUDA_SUCCESS;
        is_child = !node->inner.empty() && node->bodies.empty();
    }
    auto made = make_object<HandleKind::graph>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    // Where it is not known to be a child graph's node, the program is to know at once: the answer is a handle.
    const auto get = is_child ? gen::issue_cuGraphChildGraphNodeGetGraph : gen::request_cuGraphChildGraphNodeGetGraph;
    CUresult result = get(call, to_token(hNode), made.token);
    if (result != CUDA_SUCCESS) {
        call.state.graphs.remove(made.token);
        return result;
    }
    made.object->is_child.store(true);
    if (const Graph* outer = call.state.graphs.find(node->graph)) made.object->is_body.store(outer->is_body.load());
    MutexLock lock(node->mutex);
    if (!node->inner.empty()) made.object->references = node->inner.front();
    node->child = made.token;
    *phGraph = to_handle<CUgraph>(made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphEventRecordNodeSetEvent(Call& call, CUgraphNode hNode, CUevent event) {
    if (!call.state.graph_nodes.find(to_token(hNode))) return CUDA_ERROR_INVALID_VALUE;
    if (!call.state.events.find(to_token(event))) return CUDA_ERROR_INVALID_VALUE;
    call.state.device_records_events.store(true);
    return gen::issue_cuGraphEventRecordNodeSetEvent(call, to_token(hNode), to_token(event));
}

CUresult hook_client_cuGraphEventWaitNodeSetEvent(Call& call, CUgraphNode hNode, CUevent event) {
    if (!call.state.graph_nodes.find(to_token(hNode))) return CUDA_ERROR_INVALID_VALUE;
    if (!call.state.events.find(to_token(event))) return CUDA_ERROR_INVALID_VALUE;
    return gen::issue_cuGraphEventWaitNodeSetEvent(call, to_token(hNode), to_token(event));
}

CUresult hook_client_cuGraphMemsetNodeSetParams(Call& call, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* nodeParams) {
    if (CUresult refused = check_nodes(call, &hNode, 1); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_fill(call, *nodeParams, nullptr); refused != CUDA_SUCCESS) return refused;
    return gen::issue_cuGraphMemsetNodeSetParams(call, to_token(hNode), struct_bytes(nodeParams));
}

CUresult hook_client_cuGraphKernelNodeSetAttribute(Call& call, CUgraphNode hNode, CUkernelNodeAttrID attr,
                                                   const CUkernelNodeAttrValue* value) {
    if (!call.state.graph_nodes.find(to_token(hNode))) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult refused = check_attribute(call, attr, *value); refused != CUDA_SUCCESS) return refused;
    return gen::issue_cuGraphKernelNodeSetAttribute(call, to_token(hNode), static_cast<uint32_t>(attr), struct_bytes(value));
}

CUresult hook_client_cuGraphNodeSetParams(Call& call, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
    const uint64_t node = to_token(hNode);
    if (!call.state.graph_nodes.find(node)) return CUDA_ERROR_INVALID_VALUE;
    switch (nodeParams->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            const CUDA_KERNEL_NODE_PARAMS params = kernel_params(*nodeParams);
            return hook_client_cuGraphKernelNodeSetParams_v2(call, hNode, &params);
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return hook_client_cuGraphMemcpyNodeSetParams(call, hNode, &nodeParams->memcpy.copyParams);
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const CUDA_MEMSET_NODE_PARAMS params = memset_params(*nodeParams);
            return hook_client_cuGraphMemsetNodeSetParams(call, hNode, &params);
        }
        case CU_GRAPH_NODE_TYPE_HOST: {
            const CUDA_HOST_NODE_PARAMS params = host_params(*nodeParams);
            return hook_client_cuGraphHostNodeSetParams(call, hNode, &params);
        }
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            return hook_client_cuGraphEventRecordNodeSetEvent(call, hNode, nodeParams->eventRecord.event);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            return hook_client_cuGraphEventWaitNodeSetEvent(call, hNode, nodeParams->eventWait.event);
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
            const CUDA_BATCH_MEM_OP_NODE_PARAMS params = batch_params(*nodeParams);
            return hook_client_cuGraphBatchMemOpNodeSetParams(call, hNode, &params);
        }
        case CU_GRAPH_NODE_TYPE_GRAPH:
            return WL_REFUSE_CALL("cuGraphNodeSetParams",
                                  "another graph for a child graph's node, outside of an executable graph");
        default: return WL_REFUSE_CALL("cuGraphNodeSetParams", k_unchanged_nodes);
    }
}

namespace {

/// What the call of each type tells of one node.
struct ParamsOfNode {
    Call& call;
    CUgraphNode node;
    uint64_t context;

    CUresult kernel(CUDA_KERNEL_NODE_PARAMS& out) const { return hook_client_cuGraphKernelNodeGetParams_v2(call, node, &out); }
    CUresult copy(CUDA_MEMCPY3D& out, CUcontext& in) const {
        in = to_handle<CUcontext>(context);
        return hook_client_cuGraphMemcpyNodeGetParams(call, node, &out);
    }
    CUresult fill(CUDA_MEMSET_NODE_PARAMS& out, CUcontext& in) const {
        in = to_handle<CUcontext>(context);
        gen::CuGraphMemsetNodeGetParamsValues answer;
        const CUresult result = gen::request_cuGraphMemsetNodeGetParams(call, to_token(node), answer);
        if (result == CUDA_SUCCESS) copy_struct(&out, answer.nodeParams);
        return result;
    }
    CUresult host(CUDA_HOST_NODE_PARAMS& out) const { return hook_client_cuGraphHostNodeGetParams(call, node, &out); }
    CUresult child(CUDA_CHILD_GRAPH_NODE_PARAMS& out) const {
        const CUresult result = hook_client_cuGraphChildGraphNodeGetGraph(call, node, &out.graph);
        const Graph* graph = result == CUDA_SUCCESS ? call.state.graphs.find(to_token(out.graph)) : nullptr;
        const bool moved = graph && graph->is_moved.load();
        out.ownership = moved ? CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE : CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
        return result;
    }
    CUresult conditional(CUDA_CONDITIONAL_NODE_PARAMS& out) const {
        GraphNode* known = call.state.graph_nodes.find(to_token(node));
        MutexLock lock(known->mutex);
        if (!known->conditional) return CUDA_ERROR_NOT_SUPPORTED;
        out = *known->conditional;
        return CUDA_SUCCESS;
    }
    CUresult wait(CUevent& out) const { return hook_client_cuGraphEventWaitNodeGetEvent(call, node, &out); }
    CUresult record(CUevent& out) const { return hook_client_cuGraphEventRecordNodeGetEvent(call, node, &out); }
    CUresult batch(CUDA_BATCH_MEM_OP_NODE_PARAMS& out) const {
        return hook_client_cuGraphBatchMemOpNodeGetParams(call, node, &out);
    }
    CUresult allocation(CUDA_MEM_ALLOC_NODE_PARAMS& out) const {
        return hook_client_cuGraphMemAllocNodeGetParams(call, node, &out);
    }
    CUresult release(CUdeviceptr& out) const {
        gen::CuGraphMemFreeNodeGetParamsValues answer;
        const CUresult result = gen::request_cuGraphMemFreeNodeGetParams(call, to_token(node), answer);
        if (result == CUDA_SUCCESS) out = answer.dptrOut;
        return result;
    }
};

}  // namespace

CUresult hook_client_cuGraphNodeGetParams(Call& call, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
    const GraphNode* node = call.state.graph_nodes.find(to_token(hNode));
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeType type{};
    CUresult result = hook_client_cuGraphNodeGetType(call, hNode, &type);
    if (result != CUDA_SUCCESS) return result;
    CUgraphNodeParams params;
    result = cuda::abi::gather_node_params(type, ParamsOfNode{call, hNode, node->context}, params);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        return WL_REFUSE_CALL("cuGraphNodeGetParams",
                              "parameters of semaphores, and of conditional nodes that capture has made");
    if (result == CUDA_SUCCESS) *nodeParams = params;
    return result;
}

}  // namespace warpline::client
