// Graphs: what the program asks about their nodes, and edges between them.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <type_traits>

#include "client/copy/copies_on_host.h"
#include "client/gen/graph_calls.gen.h"
#include "client/graph/edges.h"
#include "client/graph/node_tokens.h"

namespace warpline::client {

namespace {

/// A list of nodes as CUDA's functions tell it: with a null array its length only, else at most *count of them, *count becoming
/// how many there were; what is left of the array becomes null.
///
/// @param graph  token, of the one that has the nodes; 0: it is not known
/// @param ask    `ask(fresh tokens, nodes, total)`
template <typename Ask>
CUresult list_nodes(Call& call, uint64_t graph, CUgraphNode* nodes, size_t* count, Ask&& ask) {
    if (nodes && *count == 0) return CUDA_ERROR_INVALID_VALUE;  // an array without room is no question
    std::vector<uint64_t> found;
    uint64_t total = 0;
    if (CUresult result = ask(std::span<const uint64_t>(), found, total); result != CUDA_SUCCESS) return result;
    if (!nodes) {
        *count = total;
        return CUDA_SUCCESS;
    }
    // Nodes without a token came as zeros: they get one now.
    if (std::find(found.begin(), found.end(), 0) != found.end()) {
        FreshNodes fresh(call, total);
        CUresult result = ask(fresh.tokens(), found, total);
        fresh.keep(found, graph);
        if (result != CUDA_SUCCESS) return result;
    }
    const size_t room = *count;
    for (size_t i = 0; i < room; ++i) nodes[i] = i < found.size() ? to_handle<CUgraphNode>(found[i]) : nullptr;
    *count = std::min(room, found.size());
    return CUDA_SUCCESS;
}

CUresult check_graph(const Call& call, CUgraph graph) {
    return call.state.graphs.find(to_token(graph)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check_node(const Call& call, CUgraphNode node) {
    return call.state.graph_nodes.find(to_token(node)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// What a node comes after, or what comes after it, with the edges in between.
template <typename Values, typename Request>
CUresult list_neighbours(Call& call, CUgraphNode node, Request request, CUgraphNode* nodes, CUgraphEdgeData* edge_data,
                         size_t* count) {
    if (CUresult refused = check_node(call, node); refused != CUDA_SUCCESS) return refused;
    if (!nodes && edge_data) return CUDA_ERROR_INVALID_VALUE;
    Bytes edges;
    const uint64_t graph = call.state.graph_nodes.find(to_token(node))->graph;
    CUresult result = list_nodes(
        call, graph, nodes, count, [&](std::span<const uint64_t> fresh, std::vector<uint64_t>& found, uint64_t& total) {
            Values answer;
            CUresult asked = request(call, to_token(node), fresh, answer);
            found = std::move(answer.nodes);
            edges = std::move(answer.edgeData);
            total = answer.count;
            return asked == CUDA_SUCCESS && nodes && !edge_data && any_data(edges) ? CUDA_ERROR_LOSSY_QUERY : asked;
        });
    if (result == CUDA_SUCCESS && nodes && edge_data) copy_array(edge_data, *count, edges);
    return result;
}

/// What the driver can only accept, and what is noted of it then.
struct Change {
    bool (*is_certain)(const State&, const Edges&);
    void (*note)(const State&, const Edges&);
    void (*note_with_data)(const State&, const Edges&);
};
constexpr Change k_add{are_new, note_new, note_with_data};
constexpr Change k_remove{are_there, note_gone, note_gone};

/// What the driver may refuse is asked of it; what it can only accept takes no round trip.
/// @param data            of the edges, if any
/// @param issue, request  send the call, with data or without
template <typename Send>
CUresult change(Call& call, CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                size_t count, const Change& change, Send* issue, Send* request) {
    if (!call.state.graphs.find(to_token(graph))) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult refused = check_nodes(call, from, count); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_nodes(call, to, count); refused != CUDA_SUCCESS) return refused;
    const Edges edges{to_token(graph), tokens_of(from, count), tokens_of(to, count)};
    const bool has_data = carries_data(data, count);
    Send* const send = !has_data && change.is_certain(call.state, edges) ? issue : request;
    CUresult result = CUDA_SUCCESS;
    if constexpr (std::is_invocable_v<Send, Call&, uint64_t, decltype(edges.from), decltype(edges.to), uint64_t>)
        result = send(call, edges.graph, edges.from, edges.to, count);
    else
        result = send(call, edges.graph, edges.from, edges.to, array_bytes(data, data ? count : 0), count);
    if (result == CUDA_SUCCESS) (has_data ? change.note_with_data : change.note)(call.state, edges);
    return result;
}

}  // namespace

CUresult hook_client_cuGraphDestroy(Call& call, CUgraph hGraph) {
    const Graph* graph = call.state.graphs.find(to_token(hGraph));
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    if (call.state.captures.adds_to(to_token(hGraph))) return CUDA_ERROR_ILLEGAL_STATE;
    if (graph->is_child.load() || graph->is_body.load()) return CUDA_ERROR_INVALID_VALUE;  // it is its node's
    const UserReferencesPtr references = graph->references;
    CUresult result = gen::issue_cuGraphDestroy(call, to_token(hGraph));
    if (result != CUDA_SUCCESS) return result;
    end_graph(call.state, to_token(hGraph));
    references->clear();
    return result;
}

CUresult hook_client_cuGraphClone(Call& call, CUgraph* phGraphClone, CUgraph originalGraph) {
    const Graph* original = call.state.graphs.find(to_token(originalGraph));
    if (!original) return CUDA_ERROR_INVALID_VALUE;
    if (!can_be_copied(*original)) return CUDA_ERROR_NOT_SUPPORTED;
    auto made = make_object<HandleKind::graph>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = gen::issue_cuGraphClone(call, made.token, to_token(originalGraph));
    if (result != CUDA_SUCCESS) {
        call.state.graphs.remove(made.token);
        return result;
    }
    made.object->references = original->references->clone();
    *phGraphClone = to_handle<CUgraph>(made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphNodeFindInClone(Call& call, CUgraphNode* phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph) {
    if (CUresult refused = check_node(call, hOriginalNode); refused != CUDA_SUCCESS) return refused;
    if (CUresult refused = check_graph(call, hClonedGraph); refused != CUDA_SUCCESS) return refused;
    FreshNodes fresh(call, 1);
    if (fresh.tokens().empty()) return CUDA_ERROR_OUT_OF_MEMORY;
    gen::CuGraphNodeFindInCloneValues answer;
    const CUresult result = gen::request_cuGraphNodeFindInClone(call, fresh.tokens().front(), to_token(hOriginalNode),
                                                                to_token(hClonedGraph), answer);
    if (result != CUDA_SUCCESS) return result;
    fresh.keep(std::span(&answer.node, 1), to_token(hClonedGraph));
    *phNode = to_handle<CUgraphNode>(answer.node);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphDestroyNode(Call& call, CUgraphNode hNode) {
    GraphNode* node = call.state.graph_nodes.find(to_token(hNode));
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    const Graph* graph = call.state.graphs.find(node->graph);
    if (graph && graph->memory.load()) return CUDA_ERROR_NOT_SUPPORTED;
    // Of which graph it is, and whether that can lose it, the server knows of nodes that capture has made.
    CUresult result =
        graph ? gen::issue_cuGraphDestroyNode(call, to_token(hNode)) : gen::request_cuGraphDestroyNode(call, to_token(hNode));
    if (result != CUDA_SUCCESS) return result;
    std::vector<UserReferencesPtr> inner;
    UserReferencesPtr holder;
    UserObjectPtr end;
    {
        MutexLock lock(node->mutex);
        inner.swap(node->inner);
        holder.swap(node->holder);
        end.swap(node->end);
    }
    end_node(call.state, to_token(hNode));
    for (const UserReferencesPtr& references : inner) references->clear();
    if (holder && end) holder->remove(end, 1);
    return result;
}

CUresult hook_client_cuGraphNodeGetType(Call& call, CUgraphNode hNode, CUgraphNodeType* type) {
    if (CUresult refused = check_handle<HandleKind::graph_node>(call, to_token(hNode), false); refused != CUDA_SUCCESS)
        return refused;
    GraphNode& node = *call.state.graph_nodes.find(to_token(hNode));
    int known = node.type.load();
    if (known == GraphNode::k_unknown_type) {
        gen::CuGraphNodeGetTypeValues answer;
        CUresult result = gen::request_cuGraphNodeGetType(call, to_token(hNode), answer);
        bool on_host = false;
        if (result == CUDA_SUCCESS && answer.type == CU_GRAPH_NODE_TYPE_HOST) result = is_host_copy(call, hNode, on_host);
        if (result != CUDA_SUCCESS) return result;
        known = on_host ? CU_GRAPH_NODE_TYPE_MEMCPY : static_cast<int>(answer.type);
        node.type.store(known);
    }
    *type = static_cast<CUgraphNodeType>(known);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphNodeGetContainingGraph(Call& call, CUgraphNode hNode, CUgraph* phGraph) {
    const GraphNode* node = call.state.graph_nodes.find(to_token(hNode));
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    uint64_t graph = node->graph;
    if (graph == 0) {
        gen::CuGraphNodeGetContainingGraphValues answer;
        CUresult result = gen::request_cuGraphNodeGetContainingGraph(call, to_token(hNode), answer);
        if (result != CUDA_SUCCESS) return result;
        graph = answer.phGraph;
    }
    if (!call.state.graphs.find(graph)) return CUDA_ERROR_INVALID_VALUE;
    *phGraph = to_handle<CUgraph>(graph);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphGetNodes(Call& call, CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
    if (CUresult refused = check_graph(call, hGraph); refused != CUDA_SUCCESS) return refused;
    return list_nodes(call, to_token(hGraph), nodes, numNodes,
                      [&](std::span<const uint64_t> fresh, std::vector<uint64_t>& found, uint64_t& total) {
                          gen::CuGraphGetNodesValues answer;
                          CUresult result = gen::request_cuGraphGetNodes(call, to_token(hGraph), fresh, answer);
                          found = std::move(answer.nodes);
                          total = answer.count;
                          return result;
                      });
}

CUresult hook_client_cuGraphGetRootNodes(Call& call, CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
    if (CUresult refused = check_graph(call, hGraph); refused != CUDA_SUCCESS) return refused;
    return list_nodes(call, to_token(hGraph), rootNodes, numRootNodes,
                      [&](std::span<const uint64_t> fresh, std::vector<uint64_t>& found, uint64_t& total) {
                          gen::CuGraphGetRootNodesValues answer;
                          CUresult result = gen::request_cuGraphGetRootNodes(call, to_token(hGraph), fresh, answer);
                          found = std::move(answer.nodes);
                          total = answer.count;
                          return result;
                      });
}

CUresult hook_client_cuGraphGetEdges_v2(Call& call, CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                                        CUgraphEdgeData* edgeData, size_t* numEdges) {
    if (CUresult refused = check_graph(call, hGraph); refused != CUDA_SUCCESS) return refused;
    if (!from != !to || (from && *numEdges == 0)) return CUDA_ERROR_INVALID_VALUE;
    const size_t wanted = from ? std::min(*numEdges, FreshNodes::k_max / 2) : 0;
    FreshNodes fresh(call, wanted * 2);
    gen::CuGraphGetEdgesV2Values answer;
    CUresult result = gen::request_cuGraphGetEdges_v2(call, to_token(hGraph), wanted, fresh.tokens(), answer);
    if (result != CUDA_SUCCESS) return result;
    fresh.keep(answer.from, to_token(hGraph));
    fresh.keep(answer.to, to_token(hGraph));
    if (!from) {
        *numEdges = answer.count;
        return CUDA_SUCCESS;
    }
    if (!edgeData && any_data(answer.edgeData)) return CUDA_ERROR_LOSSY_QUERY;
    const size_t count = std::min({wanted, answer.from.size(), answer.to.size()});
    for (size_t i = 0; i < *numEdges; ++i) {
        from[i] = i < count ? to_handle<CUgraphNode>(answer.from[i]) : nullptr;
        to[i] = i < count ? to_handle<CUgraphNode>(answer.to[i]) : nullptr;
    }
    if (edgeData) copy_array(edgeData, count, answer.edgeData);
    *numEdges = count;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphGetEdges(Call& call, CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, size_t* numEdges) {
    return hook_client_cuGraphGetEdges_v2(call, hGraph, from, to, nullptr, numEdges);
}

CUresult hook_client_cuGraphNodeGetDependencies_v2(Call& call, CUgraphNode hNode, CUgraphNode* dependencies,
                                                   CUgraphEdgeData* edgeData, size_t* numDependencies) {
    return list_neighbours<gen::CuGraphNodeGetDependenciesV2Values>(call, hNode, gen::request_cuGraphNodeGetDependencies_v2,
                                                                    dependencies, edgeData, numDependencies);
}

CUresult hook_client_cuGraphNodeGetDependencies(Call& call, CUgraphNode hNode, CUgraphNode* dependencies,
                                                size_t* numDependencies) {
    return hook_client_cuGraphNodeGetDependencies_v2(call, hNode, dependencies, nullptr, numDependencies);
}

CUresult hook_client_cuGraphNodeGetDependentNodes_v2(Call& call, CUgraphNode hNode, CUgraphNode* dependentNodes,
                                                     CUgraphEdgeData* edgeData, size_t* numDependentNodes) {
    return list_neighbours<gen::CuGraphNodeGetDependentNodesV2Values>(call, hNode, gen::request_cuGraphNodeGetDependentNodes_v2,
                                                                      dependentNodes, edgeData, numDependentNodes);
}

CUresult hook_client_cuGraphNodeGetDependentNodes(Call& call, CUgraphNode hNode, CUgraphNode* dependentNodes,
                                                  size_t* numDependentNodes) {
    return hook_client_cuGraphNodeGetDependentNodes_v2(call, hNode, dependentNodes, nullptr, numDependentNodes);
}

CUresult hook_client_cuGraphDebugDotPrint(Call& call, CUgraph hGraph, const char* path, unsigned int flags) {
    if (CUresult refused = check_graph(call, hGraph); refused != CUDA_SUCCESS) return refused;
    Bytes text;
    CUresult result = gen::request_cuGraphDebugDotPrint(call, to_token(hGraph), flags, CopyTarget::into(text));
    if (result != CUDA_SUCCESS) return result;
    int fd = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    const bool closed = ::close(fd) == 0;
    return written && closed ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult hook_client_cuGraphAddDependencies_v2(Call& call, CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                               const CUgraphEdgeData* edgeData, size_t numDependencies) {
    return change(call, hGraph, from, to, edgeData, numDependencies, k_add, gen::issue_cuGraphAddDependencies_v2,
                  gen::request_cuGraphAddDependencies_v2);
}

CUresult hook_client_cuGraphAddDependencies(Call& call, CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                            size_t numDependencies) {
    return change(call, hGraph, from, to, nullptr, numDependencies, k_add, gen::issue_cuGraphAddDependencies,
                  gen::request_cuGraphAddDependencies);
}

CUresult hook_client_cuGraphRemoveDependencies_v2(Call& call, CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                                  const CUgraphEdgeData* edgeData, size_t numDependencies) {
    return change(call, hGraph, from, to, edgeData, numDependencies, k_remove, gen::issue_cuGraphRemoveDependencies_v2,
                  gen::request_cuGraphRemoveDependencies_v2);
}

CUresult hook_client_cuGraphRemoveDependencies(Call& call, CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                               size_t numDependencies) {
    return change(call, hGraph, from, to, nullptr, numDependencies, k_remove, gen::issue_cuGraphRemoveDependencies,
                  gen::request_cuGraphRemoveDependencies);
}

}  // namespace warpline::client
