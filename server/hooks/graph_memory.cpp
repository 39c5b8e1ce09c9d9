// Memory that graphs allocate, and conditional nodes.
#include "server/gen/graph_node_calls.gen.h"
#include "server/gen/graph_node_params_calls.gen.h"
#include "server/gen/pool_calls.gen.h"
#include "server/hooks/graph_common.h"
#include "server/session/device_numbers.h"
#include "server/session/serve.h"

namespace warpline::server {

namespace {

void location_to_client(ServerCall& call, CUmemLocation& location) {
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        static_cast<void>(call.session().contexts().client_device(location.id, location.id));
}

}  // namespace

CUresult hook_server_cuGraphAddMemAllocNode(ServerCall& call, const CuGraphAddMemAllocNodeArgs& args,
                                            CuGraphAddMemAllocNodeValues& values) {
    const auto add = WL_DRIVER(call, cuGraphAddMemAllocNode);
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    std::vector<CUmemAccessDesc> access;
    if (!read_struct(args.properties, params.poolProps)) return CUDA_ERROR_INVALID_VALUE;
    if (!read_array(args.access, args.access.size() / sizeof(CUmemAccessDesc), access)) return CUDA_ERROR_INVALID_VALUE;
    if (!to_driver(call, params.poolProps) || !to_driver(call, access)) return CUDA_ERROR_INVALID_DEVICE;
    params.accessDescs = access.empty() ? nullptr : access.data();
    params.accessDescCount = access.size();
    params.bytesize = args.bytes;
    WL_CUDA(add_node(call, args.phGraphNode, args.hGraph, args.dependencies,
                     [&](CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) -> CUresult {
                         return add(node, graph, dependencies, count, &params);
                     }));
    call.session().memory().add_range(params.dptr, args.bytes);
    values.address = params.dptr;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphMemAllocNodeGetParams(ServerCall& call, const CuGraphMemAllocNodeGetParamsArgs& args,
                                                  CuGraphMemAllocNodeGetParamsValues& values) {
    const auto get = WL_DRIVER(call, cuGraphMemAllocNodeGetParams);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    WL_CUDA(get(node, &params));
    std::vector<CUmemAccessDesc> access(params.accessDescs, params.accessDescs + params.accessDescCount);
    location_to_client(call, params.poolProps.location);
    for (CUmemAccessDesc& one : access) location_to_client(call, one.location);
    values.properties = bytes_of(params.poolProps);
    values.access = bytes_of_array(access);
    values.bytes = params.bytesize;
    values.address = params.dptr;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuMemAllocAsync(ServerCall& call, const CuMemAllocAsyncArgs& args, CuMemAllocAsyncValues& values) {
    const auto allocate = WL_DRIVER(call, cuMemAllocAsync);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    if (!is_capturing(call, stream)) return CUDA_ERROR_ILLEGAL_STATE;
    CUdeviceptr address = 0;
    WL_CUDA(allocate(&address, args.bytes, stream));
    call.session().memory().add_range(address, args.bytes);
    values.address = address;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphAddNode_v2(ServerCall& call, const CuGraphAddNodeV2Args& args) {
    const auto add = call.driver()->cuGraphAddNode;
    const auto add_v2 = call.driver()->cuGraphAddNode_v2;
    if (add == nullptr && add_v2 == nullptr) return call.missing_function();
    if (!call.may_bind(HandleKind::graph_node, args.node)) return CUDA_ERROR_INVALID_HANDLE;
    for (uint64_t body : args.bodies) {
        if (!call.may_bind(HandleKind::graph, body)) return CUDA_ERROR_INVALID_HANDLE;
    }
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    std::vector<CUgraphNode> dependencies;
    WL_CUDA(find_nodes(call, args.dependencies, dependencies));
    if (args.bodies.size() != args.size) return CUDA_ERROR_INVALID_VALUE;
    // Drivers take the handle for a pointer of theirs.
    if (!call.session().values().contains(GivenValues::Kind::conditional, args.handle)) return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = args.handle;
    params.conditional.type = static_cast<CUgraphConditionalNodeType>(args.type);
    params.conditional.size = args.size;
    params.conditional.ctx = WL_FIND_OR_NULL(call, CUcontext, context, args.ctx);
    CUgraphNode node = nullptr;
    WL_CUDA(add_v2 != nullptr ? add_v2(&node, graph, dependencies.data(), nullptr, dependencies.size(), &params)
                              : add(&node, graph, dependencies.data(), dependencies.size(), &params));
    call.bind(HandleKind::graph_node, args.node, node, args.hGraph);
    std::vector<CUgraph> bodies(params.conditional.phGraph_out, params.conditional.phGraph_out + args.size);
    for (size_t i = 0; i < bodies.size(); ++i) call.bind(HandleKind::graph, args.bodies[i], bodies[i], args.node);
    call.session().graph_copies().note_bodies(graph, node, std::move(bodies));
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
