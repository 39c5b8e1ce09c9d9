// Captures: the graphs and nodes that come of them get the client's tokens.
#include <algorithm>

#include "server/gen/capture_calls.gen.h"
#include "server/gen/internal_calls.gen.h"
#include "server/hooks/graph_common.h"
#include "server/session/device_numbers.h"
#include "server/session/serve.h"
#include "server/session/struct_bytes.h"

namespace warpline::server {

namespace {

/// What a stream's capture has come to, by whichever form of the question the driver knows.
struct CaptureInfo {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* dependencies = nullptr;
    const CUgraphEdgeData* edges = nullptr;
    size_t count = 0;
};

CUresult ask(ServerCall& call, CUstream stream, CaptureInfo& info) {
    if (const auto get = call.driver()->cuStreamGetCaptureInfo_v3) {
        const CUresult result = get(stream, &info.status, &info.id, &info.graph, &info.dependencies, &info.edges, &info.count);
        // Edges that carry data can only be told by this form; it refuses to leave them out.
        return result;
    }
    const auto get = WL_DRIVER(call, cuStreamGetCaptureInfo_v2);
    return get(stream, &info.status, &info.id, &info.graph, &info.dependencies, &info.count);
}

/// Which calls are allowed while a stream is captured, in which thread, is for the client to say, who knows the program's
/// threads. Ours change: only a relaxed capture may be ended by another thread than began it.
constexpr CUstreamCaptureMode k_mode = CU_STREAM_CAPTURE_MODE_RELAXED;

/// The data of the edges to so many nodes; none at all where they are plain.
bool read_edges(BytesView bytes, size_t nodes, std::vector<CUgraphEdgeData>& edges) {
    if (bytes.empty()) return true;
    if (bytes.size() != nodes * sizeof(CUgraphEdgeData)) return false;
    edges.resize(nodes);
    std::memcpy(edges.data(), bytes.data(), bytes.size());
    return true;
}

bool is_mode(uint32_t mode) { return mode <= CU_STREAM_CAPTURE_MODE_RELAXED; }

/// While something is captured, nothing is unmapped: drivers that wait for the device there break the capture.
template <typename Begin>
CUresult begin_watched(ServerCall& call, CUstream stream, Begin begin) {
    FreedMemory& freed = call.session().freed();
    const bool was_capturing = is_capturing(call, stream);
    if (!was_capturing) {
        // A function of the program's may hold that up, and need pages.
        call.allow_overtaking();
        freed.capture_begins(stream);
    }
    const CUresult result = begin();
    if (result != CUDA_SUCCESS && !was_capturing) freed.capture_ended(stream);
    return result;
}

bool are_plain(const CUgraphEdgeData* edges, size_t count) {
    const BytesView bytes = as_bytes(edges, edges != nullptr ? count * sizeof(CUgraphEdgeData) : 0);
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

/// Puts a node that allocates behind what a stream's capture has come to, and the capture behind the node.
CUresult continue_with(ServerCall& call, CUstream stream, const CaptureInfo& info, CUDA_MEM_ALLOC_NODE_PARAMS& params) {
    CUgraphNode node = nullptr;
    if (are_plain(info.edges, info.count)) {
        WL_CUDA(WL_DRIVER(call, cuGraphAddMemAllocNode)(&node, info.graph, info.dependencies, info.count, &params));
    } else {
        CUgraphNodeParams any{};
        any.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
        any.alloc = {params.poolProps, params.accessDescs, params.accessDescCount, params.bytesize, 0};
        WL_CUDA(WL_DRIVER(call, cuGraphAddNode_v2)(&node, info.graph, info.dependencies, info.edges, info.count, &any));
        params.dptr = any.alloc.dptr;
    }
    if (const auto update = call.driver()->cuStreamUpdateCaptureDependencies_v2)
        return update(stream, &node, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    return WL_DRIVER(call, cuStreamUpdateCaptureDependencies)(stream, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

}  // namespace

CUresult hook_server_wlCaptureAllocation(ServerCall& call, const WlCaptureAllocationArgs& args,
                                         WlCaptureAllocationValues& values) {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    std::vector<CUmemAccessDesc> access;
    if (!read_struct(args.properties, params.poolProps)) return CUDA_ERROR_INVALID_VALUE;
    if (!read_array(args.access, args.access.size() / sizeof(CUmemAccessDesc), access)) return CUDA_ERROR_INVALID_VALUE;
    const CUmemLocation location = params.poolProps.location;  // as the client counts devices
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (!to_driver(call, params.poolProps) || !to_driver(call, access)) return CUDA_ERROR_INVALID_DEVICE;
    params.accessDescs = access.data();
    params.accessDescCount = access.size();
    params.bytesize = args.bytes;
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    CaptureInfo info;
    WL_CUDA(ask(call, stream, info));
    if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return info.status == CU_STREAM_CAPTURE_STATUS_NONE ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    WL_CUDA(call.session().graph_memory().check_node(location.id, args.bytes));
    WL_CUDA(continue_with(call, stream, info, params));
    call.session().memory().add_range(params.dptr, args.bytes);
    values.address = params.dptr;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuStreamBeginCapture_v2(ServerCall& call, const CuStreamBeginCaptureV2Args& args) {
    const auto begin = WL_DRIVER(call, cuStreamBeginCapture_v2);
    if (!is_mode(args.mode)) return CUDA_ERROR_INVALID_VALUE;
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    return begin_watched(call, stream, [&] { return begin(stream, k_mode); });
}

CUresult hook_server_cuStreamBeginCaptureToGraph(ServerCall& call, const CuStreamBeginCaptureToGraphArgs& args) {
    const auto begin = WL_DRIVER(call, cuStreamBeginCaptureToGraph);
    if (!is_mode(args.mode) || args.dependencies.size() != args.numDependencies) return CUDA_ERROR_INVALID_VALUE;
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    std::vector<CUgraphNode> nodes;
    WL_CUDA(find_nodes(call, args.dependencies, nodes));
    std::vector<CUgraphEdgeData> edges;
    if (!read_edges(args.dependencyData, nodes.size(), edges)) return CUDA_ERROR_INVALID_VALUE;
    return begin_watched(call, stream, [&] {
        return begin(stream, graph, nodes.data(), edges.empty() ? nullptr : edges.data(), nodes.size(), k_mode);
    });
}

CUresult hook_server_cuStreamUpdateCaptureDependencies_v2(ServerCall& call,
                                                          const CuStreamUpdateCaptureDependenciesV2Args& args) {
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    std::vector<CUgraphNode> nodes;
    std::vector<CUgraphEdgeData> edges;
    if (args.dependencies.size() != args.numDependencies) return CUDA_ERROR_INVALID_VALUE;
    WL_CUDA(find_nodes(call, args.dependencies, nodes));
    if (!read_edges(args.dependencyData, nodes.size(), edges)) return CUDA_ERROR_INVALID_VALUE;
    // Drivers before CUDA 12.3 know plain edges only.
    if (const auto update = call.driver()->cuStreamUpdateCaptureDependencies_v2)
        return update(stream, nodes.data(), edges.empty() ? nullptr : edges.data(), nodes.size(), args.flags);
    if (!edges.empty()) return call.missing_function();
    return WL_DRIVER(call, cuStreamUpdateCaptureDependencies)(stream, nodes.data(), nodes.size(), args.flags);
}

CUresult hook_server_cuStreamEndCapture(ServerCall& call, const CuStreamEndCaptureArgs& args) {
    const auto end = WL_DRIVER(call, cuStreamEndCapture);
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    CUgraph graph = nullptr, known = nullptr;
    const bool is_known = call.find(HandleKind::graph, args.phGraph, known);
    if (!is_known && !call.may_bind(HandleKind::graph, args.phGraph)) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult result = end(stream, &graph);
    if (!is_capturing(call, stream)) call.session().freed().capture_ended(stream);
    if (result != CUDA_SUCCESS) {
        if (is_known && args.drop) call.unbind(HandleKind::graph, args.phGraph);
        return result;
    }
    if (!is_known) call.bind(HandleKind::graph, args.phGraph, graph, 0);
    return is_known && known != graph ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult hook_server_cuStreamGetCaptureInfo_v3(ServerCall& call, const CuStreamGetCaptureInfoV3Args& args,
                                               CuStreamGetCaptureInfoV3Values& values) {
    const auto stream = WL_FIND(call, CUstream, stream, args.hStream);
    CaptureInfo info;
    WL_CUDA(ask(call, stream, info));
    values.captureStatusOut = static_cast<uint32_t>(info.status);
    values.idOut = info.id;
    if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    HandleTable& handles = call.session().handles();
    values.graphOut = handles.token_of(HandleKind::graph, handle_to_value(info.graph));
    if (values.graphOut == 0 && call.may_bind(HandleKind::graph, args.graphOut)) {
        call.bind(HandleKind::graph, args.graphOut, info.graph, 0);
        values.graphOut = args.graphOut;
    }
    NodeNamer namer(call, args.fresh, values.graphOut);
    for (size_t i = 0; i < info.count; ++i) {
        values.dependencies.push_back(namer.name(info.dependencies[i]));
        const CUgraphEdgeData edge = info.edges != nullptr ? info.edges[i] : CUgraphEdgeData{};
        const BytesView bytes = as_bytes(&edge, sizeof edge);
        values.edgeData.insert(values.edgeData.end(), bytes.begin(), bytes.end());
    }
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
