// Graphs and their shape: nodes that the driver tells get tokens.
#include "server/gen/graph_calls.gen.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/scope_guard.h"
#include "server/hooks/graph_common.h"
#include "server/hooks/graph_params.h"
#include "server/session/struct_bytes.h"

namespace warpline::server {

namespace {

constexpr size_t k_max_nodes = 1u << 20;

/// Asks for a list of nodes, first for its length: `ask(nodes or null, &count)`.
template <typename Ask>
CUresult ask_nodes(Ask&& ask, std::vector<CUgraphNode>& nodes) {
    size_t count = 0;
    WL_CUDA(ask(nullptr, &count));
    if (count > k_max_nodes) return CUDA_ERROR_OUT_OF_MEMORY;
    nodes.resize(count);
    if (count > 0) WL_CUDA(ask(nodes.data(), &count));
    nodes.resize(std::min(nodes.size(), count));
    return CUDA_SUCCESS;
}

std::vector<uint64_t> name_all(NodeNamer& namer, const std::vector<CUgraphNode>& nodes) {
    std::vector<uint64_t> tokens;
    for (CUgraphNode node : nodes) tokens.push_back(namer.name(node));
    return tokens;
}

/// The neighbours of a node, with the data of the edges if the driver can tell them.
template <typename WithEdges, typename Plain>
CUresult ask_neighbours(WithEdges with_edges, Plain plain, CUgraphNode node, std::vector<CUgraphNode>& nodes,
                        std::vector<CUgraphEdgeData>& edges) {
    if (with_edges == nullptr && plain == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    return ask_nodes(
        [&](CUgraphNode* out, size_t* count) {
            if (with_edges == nullptr) return plain(node, out, count);
            edges.assign(out != nullptr ? *count : 0, {});
            return with_edges(node, out, out != nullptr ? edges.data() : nullptr, count);
        },
        nodes);
}

/// What an object dies with, as far as we know: a node with its graph.
uint64_t owner_of(ServerCall& call, HandleKind kind, uint64_t token) {
    const auto entry = call.session().handles().find(kind, token);
    return entry ? entry->owner : 0;
}

void end_nodes_of(ServerCall& call, uint64_t graph);

/// What is remembered of the graphs inside a node that has gone: by name, as the driver has forgotten them.
void end_graphs_in(ServerCall& call, uint64_t node) {
    for (const auto& [token, value] : call.session().handles().owned(HandleKind::graph, node)) {
        end_nodes_of(call, token);
        call.session().values().owner_ended(token);
        call.session().graph_copies().graph_gone(reinterpret_cast<CUgraph>(value));
    }
}

void end_nodes_of(ServerCall& call, uint64_t graph) {
    for (const auto& [token, value] : call.session().handles().owned(HandleKind::graph_node, graph)) end_graphs_in(call, token);
}

}  // namespace

CUresult hook_server_cuGraphDestroy(ServerCall& call, const CuGraphDestroyArgs& args) {
    const auto destroy = WL_DRIVER(call, cuGraphDestroy);
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    // The graph of a child node or a body of a conditional one is its node's.
    if (owner_of(call, HandleKind::graph, args.hGraph) != 0) return CUDA_ERROR_INVALID_VALUE;
    WL_CUDA(destroy(graph));
    end_nodes_of(call, args.hGraph);
    call.unbind(HandleKind::graph, args.hGraph);
    call.session().values().owner_ended(args.hGraph);
    call.session().graph_copies().graph_gone(graph);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphDestroyNode(ServerCall& call, const CuGraphDestroyNodeArgs& args) {
    const auto destroy = WL_DRIVER(call, cuGraphDestroyNode);
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    const CUgraph graph = graph_of_node(call, args.hNode);
    WL_CUDA(destroy(node));
    end_graphs_in(call, args.hNode);
    call.session().graph_copies().node_gone(graph, node);
    call.unbind(HandleKind::graph_node, args.hNode);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphConditionalHandleCreate(ServerCall& call, const CuGraphConditionalHandleCreateArgs& args,
                                                    CuGraphConditionalHandleCreateValues& values) {
    const auto create = WL_DRIVER(call, cuGraphConditionalHandleCreate);
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    const auto context = WL_FIND_OR_NULL(call, CUcontext, context, args.ctx);
    GivenValues& given = call.session().values();
    if (given.full()) return CUDA_ERROR_OUT_OF_MEMORY;
    CUgraphConditionalHandle handle = 0;
    WL_CUDA(create(&handle, graph, context, args.defaultLaunchValue, args.flags));
    given.add(GivenValues::Kind::conditional, handle, args.hGraph);
    values.pHandleOut = handle;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphClone(ServerCall& call, const CuGraphCloneArgs& args) {
    const auto clone = WL_DRIVER(call, cuGraphClone);
    if (!call.may_bind(HandleKind::graph, args.phGraphClone)) return CUDA_ERROR_INVALID_HANDLE;
    const auto original = WL_FIND(call, CUgraph, graph, args.originalGraph);
    CUgraph made = nullptr;
    WL_CUDA(clone(&made, original));
    call.bind(HandleKind::graph, args.phGraphClone, made, 0);
    call.session().graph_copies().adopt(made, original);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphNodeFindInClone(ServerCall& call, const CuGraphNodeFindInCloneArgs& args,
                                            CuGraphNodeFindInCloneValues& values) {
    const auto find = WL_DRIVER(call, cuGraphNodeFindInClone);
    const auto original = WL_FIND(call, CUgraphNode, graph_node, args.hOriginalNode);
    const auto clone = WL_FIND(call, CUgraph, graph, args.hClonedGraph);
    CUgraphNode found = nullptr;
    WL_CUDA(find(&found, original, clone));
    const std::vector<uint64_t> fresh{args.fresh};
    values.node = NodeNamer(call, fresh, args.hClonedGraph).name(found);
    return values.node != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult hook_server_cuGraphNodeGetContainingGraph(ServerCall& call, const CuGraphNodeGetContainingGraphArgs& args,
                                                   CuGraphNodeGetContainingGraphValues& values) {
    (void)WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    // The driver would tell a graph, of which we should have to find the token: that is what the node dies with.
    values.phGraph = owner_of(call, HandleKind::graph_node, args.hNode);
    return values.phGraph != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult hook_server_cuGraphGetNodes(ServerCall& call, const CuGraphGetNodesArgs& args, CuGraphGetNodesValues& values) {
    const auto get = WL_DRIVER(call, cuGraphGetNodes);
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    std::vector<CUgraphNode> nodes;
    WL_CUDA(ask_nodes([&](CUgraphNode* out, size_t* count) { return get(graph, out, count); }, nodes));
    NodeNamer namer(call, args.fresh, args.hGraph);
    values.nodes = name_all(namer, nodes);
    values.count = nodes.size();
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphGetRootNodes(ServerCall& call, const CuGraphGetRootNodesArgs& args,
                                         CuGraphGetRootNodesValues& values) {
    const auto get = WL_DRIVER(call, cuGraphGetRootNodes);
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    std::vector<CUgraphNode> nodes;
    WL_CUDA(ask_nodes([&](CUgraphNode* out, size_t* count) { return get(graph, out, count); }, nodes));
    NodeNamer namer(call, args.fresh, args.hGraph);
    values.nodes = name_all(namer, nodes);
    values.count = nodes.size();
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphGetEdges_v2(ServerCall& call, const CuGraphGetEdgesV2Args& args, CuGraphGetEdgesV2Values& values) {
    const auto with_data = call.driver()->cuGraphGetEdges_v2;
    const auto plain = call.driver()->cuGraphGetEdges;
    if (with_data == nullptr && plain == nullptr) return call.missing_function();
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    const auto ask = [&](CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
        return with_data != nullptr ? with_data(graph, from, to, data, count) : plain(graph, from, to, count);
    };
    size_t count = 0;
    WL_CUDA(ask(nullptr, nullptr, nullptr, &count));
    if (count > k_max_nodes) return CUDA_ERROR_OUT_OF_MEMORY;
    values.count = count;
    size_t wanted = std::min<uint64_t>(count, args.wanted);
    std::vector<CUgraphNode> from(count);
    std::vector<CUgraphNode> to(count);
    std::vector<CUgraphEdgeData> data(count);
    if (wanted == 0) return CUDA_SUCCESS;
    WL_CUDA(ask(from.data(), to.data(), data.data(), &wanted));
    from.resize(wanted);
    to.resize(wanted);
    data.resize(wanted);
    NodeNamer namer(call, args.fresh, args.hGraph);
    values.from = name_all(namer, from);
    values.to = name_all(namer, to);
    values.edgeData = bytes_of_array(data);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphNodeGetDependencies_v2(ServerCall& call, const CuGraphNodeGetDependenciesV2Args& args,
                                                   CuGraphNodeGetDependenciesV2Values& values) {
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    std::vector<CUgraphNode> nodes;
    std::vector<CUgraphEdgeData> edges;
    WL_CUDA(ask_neighbours(call.driver()->cuGraphNodeGetDependencies_v2, call.driver()->cuGraphNodeGetDependencies, node, nodes,
                           edges));
    edges.resize(nodes.size());
    NodeNamer namer(call, args.fresh, owner_of(call, HandleKind::graph_node, args.hNode));
    values.nodes = name_all(namer, nodes);
    values.edgeData = bytes_of_array(edges);
    values.count = nodes.size();
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphNodeGetDependentNodes_v2(ServerCall& call, const CuGraphNodeGetDependentNodesV2Args& args,
                                                     CuGraphNodeGetDependentNodesV2Values& values) {
    const auto node = WL_FIND(call, CUgraphNode, graph_node, args.hNode);
    std::vector<CUgraphNode> nodes;
    std::vector<CUgraphEdgeData> edges;
    WL_CUDA(ask_neighbours(call.driver()->cuGraphNodeGetDependentNodes_v2, call.driver()->cuGraphNodeGetDependentNodes, node,
                           nodes, edges));
    edges.resize(nodes.size());
    NodeNamer namer(call, args.fresh, owner_of(call, HandleKind::graph_node, args.hNode));
    values.nodes = name_all(namer, nodes);
    values.edgeData = bytes_of_array(edges);
    values.count = nodes.size();
    return CUDA_SUCCESS;
}

CUresult hook_server_cuGraphDebugDotPrint(ServerCall& call, const CuGraphDebugDotPrintArgs& args) {
    const auto print = WL_DRIVER(call, cuGraphDebugDotPrint);
    const auto graph = WL_FIND(call, CUgraph, graph, args.hGraph);
    const int fd = memfd_create("graph.dot", MFD_CLOEXEC);
    if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    ScopeGuard closer([fd] { close(fd); });
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    WL_CUDA(print(graph, path.c_str(), args.flags));
    struct stat status {};
    if (fstat(fd, &status) != 0 || !call.reserve_reply_payload(static_cast<uint64_t>(status.st_size)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const ssize_t got = pread(fd, call.reply_payload().data(), call.reply_payload().size(), 0);
    if (got != status.st_size) {
        call.drop_reply_payload();
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
