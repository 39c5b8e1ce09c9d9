// Memory that graphs allocate, and conditional nodes. The addresses are the driver's: a graph has them from the moment it has
// the node, so adding one waits for the answer.
#include "client/graph/memory.h"

#include "client/call/allocate.h"
#include "client/gen/graph_node_calls.gen.h"
#include "client/gen/internal_calls.gen.h"
#include "client/gen/pool_calls.gen.h"
#include "client/graph/capture.h"
#include "client/session/address_window.h"

namespace warpline::client {

namespace {

/// Makes memory at an address of the server's choice known, and keeps the address free of the program's own memory, so that
/// pointers tell where they point.
CUresult know_range(Call& call, CUdeviceptr address, uint64_t size_bytes, int device, GraphAddress& known) {
    if (!claim_server_range(address, size_bytes))
        return WL_REFUSE_CALL("cuGraphAddMemAllocNode", "the server's memory has an address that the program uses itself");
    DeviceRange range;
    range.base = address;
    range.size_bytes = range.capacity_bytes = size_bytes;
    range.context = call.context;
    range.device = device;
    range.kind = MemoryKind::global;
    range.owner = k_graph_memory_owner;
    known = call.state.graph_memory.know(range);
    return CUDA_SUCCESS;
}

/// What follows from the answer to a captured allocation.
CUresult captured(Call& call, CUresult result, CUdeviceptr address, uint64_t size_bytes, int device, uint64_t stream,
                  CUdeviceptr* out) {
    if (result == CUDA_SUCCESS) took_memory(call, device);
    GraphAddress known;
    if (result == CUDA_SUCCESS) result = know_range(call, address, size_bytes, device, known);
    if (result == CUDA_SUCCESS) *out = address;
    if (const Stream* state = stream_state(call, stream)) {
        const uint64_t id = state->capture_id.load();
        call.state.captures.note_memory(id, [&](MemoryNodes& memory) {
            if (known) memory.allocate(std::move(known));
        });
    }
    return result;
}

/// Notes of the graph that it has memory: a node was added that allocates or frees it.
void note_allocated(Call& call, const NewNode& node, GraphAddress address) {
    Graph& graph = *call.state.graphs.find(to_token(node.graph));
    graph.memory.store(true);
    MutexLock lock(graph.mutex);
    graph.memory_nodes.allocate(std::move(address));
}
void note_freed(Call& call, const NewNode& node, CUdeviceptr address) {
    Graph& graph = *call.state.graphs.find(to_token(node.graph));
    graph.memory.store(true);
    MutexLock lock(graph.mutex);
    graph.memory_nodes.free(address);
}

}  // namespace

CUresult capture_allocation(Call& call, CUdeviceptr* address, uint64_t size_bytes, int device, uint64_t stream) {
    gen::CuMemAllocAsyncValues answer;
    const CUresult result = gen::request_cuMemAllocAsync(call, size_bytes, stream, answer);
    return captured(call, result, answer.address, size_bytes, device, stream, address);
}

CUresult capture_allocation(Call& call, CUdeviceptr* address, uint64_t size_bytes, CUmemPoolProps properties,
                            std::span<const CUmemAccessDesc> access, uint64_t stream) {
    properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;  // memory of graphs is for no other process
    gen::WlCaptureAllocationValues answer;
    const CUresult result = gen::request_wlCaptureAllocation(call, stream, struct_bytes(&properties),
                                                             array_bytes(access.data(), access.size()), size_bytes, answer);
    return captured(call, result, answer.address, size_bytes, properties.location.id, stream, address);
}

CUresult add_allocation(Call& call, const NewNode& node, const CUmemPoolProps& properties, const CUmemAccessDesc* access,
                        size_t access_count, size_t size_bytes, CUdeviceptr& address) {
    if (size_bytes == 0 || (access_count != 0 && !access)) return CUDA_ERROR_INVALID_VALUE;
    if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return WL_REFUSE_CALL("cuGraphAddMemAllocNode", "memory of the host, or for other processes");
    if (!find_device(properties.location.id)) return CUDA_ERROR_INVALID_DEVICE;
    return add_node(call, node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, [&](uint64_t token, std::span<const uint64_t> dependencies) {
        gen::CuGraphAddMemAllocNodeValues answer;
        CUresult result =
            gen::request_cuGraphAddMemAllocNode(call, token, to_token(node.graph), dependencies, struct_bytes(&properties),
                                                array_bytes(access, access_count), size_bytes, answer);
        if (result == CUDA_SUCCESS) took_memory(call, properties.location.id);
        GraphAddress known;
        if (result == CUDA_SUCCESS) result = know_range(call, answer.address, size_bytes, properties.location.id, known);
        if (result == CUDA_SUCCESS) note_allocated(call, node, std::move(known));
        if (result == CUDA_SUCCESS) address = answer.address;
        return result;
    });
}

CUresult add_free(Call& call, const NewNode& node, CUdeviceptr address) {
    return add_node(call, node, CU_GRAPH_NODE_TYPE_MEM_FREE, [&](uint64_t token, std::span<const uint64_t> dependencies) {
        const CUresult result =
            gen::request_cuGraphAddMemFreeNode(call, token, to_token(node.graph), dependencies, node.count, address);
        if (result == CUDA_SUCCESS) note_freed(call, node, address);
        return result;
    });
}

CUresult add_conditional(Call& call, const NewNode& node, CUDA_CONDITIONAL_NODE_PARAMS& params) {
    constexpr unsigned k_max_bodies = 1024;
    if (params.size == 0 || params.size > k_max_bodies) return CUDA_ERROR_INVALID_VALUE;
    std::vector<uint64_t> bodies;
    for (unsigned i = 0; i < params.size; ++i) {
        auto made = make_object<HandleKind::graph>(call);
        if (!made) break;
        bodies.push_back(made.token);
    }
    CUresult result = bodies.size() < params.size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        result =
            add_node(call, node, CU_GRAPH_NODE_TYPE_CONDITIONAL, [&](uint64_t token, std::span<const uint64_t> dependencies) {
                return gen::request_cuGraphAddNode_v2(call, token, to_token(node.graph), dependencies, params.handle,
                                                      static_cast<uint32_t>(params.type), params.size,
                                                      params.ctx ? to_token(params.ctx) : call.context, bodies);
            });
    }
    if (result != CUDA_SUCCESS) {
        for (uint64_t body : bodies) call.state.graphs.remove(body);
        return result;
    }
    call.state.graphs.find(to_token(node.graph))->has_conditional.store(true);
    for (uint64_t body : bodies) {
        Graph* graph = call.state.graphs.find(body);
        graph->is_body.store(true);
        hold_inner(call, node, graph->references);
    }
    // The array is CUDA's, as long as there is the node.
    GraphNode* made = call.state.graph_nodes.find(to_token(*node.out));
    MutexLock lock(made->mutex);
    made->bodies.clear();
    for (uint64_t body : bodies) made->bodies.push_back(to_handle<CUgraph>(body));
    params.phGraph_out = made->bodies.data();
    made->conditional = params;
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
