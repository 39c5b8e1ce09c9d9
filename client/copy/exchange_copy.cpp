// Taking a node out of a graph and putting another one in its place.
#include "client/copy/exchange_copy.h"

#include "client/copy/copies_on_host.h"
#include "client/gen/graph_calls.gen.h"
#include "client/gen/graph_node_calls.gen.h"
#include "client/graph/holds.h"
#include "client/graph/node_tokens.h"

namespace warpline::client {

namespace {

/// The nodes on one side of a node, and the edges between.
struct Neighbours {
    std::vector<uint64_t> nodes;
    Bytes edges;
};

template <typename Values, typename Request>
CUresult find_neighbours(Call& call, uint64_t node, Request request, Neighbours& found) {
    Values answer;
    CUresult result = request(call, node, {}, answer);
    if (result == CUDA_SUCCESS && std::find(answer.nodes.begin(), answer.nodes.end(), 0) != answer.nodes.end()) {
        FreshNodes fresh(call, answer.count);
        result = request(call, node, fresh.tokens(), answer);
        fresh.keep(answer.nodes, call.state.graph_nodes.find(node)->graph);
    }
    found = {std::move(answer.nodes), std::move(answer.edgeData)};
    return result;
}

CUresult find_graph(Call& call, uint64_t node, uint64_t& graph) {
    graph = call.state.graph_nodes.find(node)->graph;
    if (graph == 0) {
        gen::CuGraphNodeGetContainingGraphValues answer;
        const CUresult result = gen::request_cuGraphNodeGetContainingGraph(call, node, answer);
        if (result != CUDA_SUCCESS) return result;
        graph = answer.phGraph;
    }
    const Graph* known = call.state.graphs.find(graph);
    if (!known || known->memory.load())
        return WL_REFUSE_CALL(
            "cuGraphMemcpyNodeSetParams",
            "a copy within host memory becomes one with the device's, or the other way round, in a graph that "
            "allocates memory, or that is not known");
    return CUDA_SUCCESS;
}

/// The new node, without edges. @param end  what it has of the program; null: nothing
CUresult add_in_place(Call& call, uint64_t node, uint64_t graph, uint64_t context, const CopyNode& from, UserObjectPtr& end) {
    if (from.on_host) {
        const uint64_t id = register_host_copy(call, *from.on_host, from.copy, context);
        end = make_end(call, EndKind::function, id);
        return gen::issue_cuGraphAddHostNode(call, node, graph, {}, id);
    }
    HostEndOfCopy host = from.host;
    const CUresult result = host.send(call, [&](uint64_t source, uint64_t address, uint64_t bytes) {
        return gen::issue_cuGraphAddMemcpyNode(call, node, graph, {}, from.source_array, from.destination_array,
                                               struct_bytes(&from.copy), context, source, address, bytes);
    });
    end = host.held();
    return result;
}

CUresult add_edges(Call& call, uint64_t node, uint64_t graph, const Neighbours& before, const Neighbours& after) {
    const std::vector<uint64_t> to_here(before.nodes.size(), node), from_here(after.nodes.size(), node);
    CUresult result = CUDA_SUCCESS;
    if (!before.nodes.empty())
        result = gen::issue_cuGraphAddDependencies_v2(call, graph, before.nodes, to_here, before.edges, to_here.size());
    if (result == CUDA_SUCCESS && !after.nodes.empty())
        result = gen::issue_cuGraphAddDependencies_v2(call, graph, from_here, after.nodes, after.edges, from_here.size());
    return result;
}

}  // namespace

CUresult exchange_copy(Call& call, CUgraphNode handle, const CopyNode& copy) {
    const uint64_t node = to_token(handle);
    GraphNode& known = *call.state.graph_nodes.find(node);
    const uint64_t context = known.context != 0 ? known.context : call.context;
    uint64_t graph = 0;
    Neighbours before, after;
    CUresult result = find_graph(call, node, graph);
    if (result == CUDA_SUCCESS)
        result = find_neighbours<gen::CuGraphNodeGetDependenciesV2Values>(call, node,
                                                                          gen::request_cuGraphNodeGetDependencies_v2, before);
    if (result == CUDA_SUCCESS)
        result = find_neighbours<gen::CuGraphNodeGetDependentNodesV2Values>(
            call, node, gen::request_cuGraphNodeGetDependentNodes_v2, after);
    UserObjectPtr end;
    if (result == CUDA_SUCCESS) result = gen::issue_cuGraphDestroyNode(call, node);
    if (result == CUDA_SUCCESS) result = add_in_place(call, node, graph, context, copy, end);
    if (result == CUDA_SUCCESS) result = add_edges(call, node, graph, before, after);
    if (result != CUDA_SUCCESS) return result;
    UserObjectPtr gone;
    UserReferencesPtr holder;
    {
        MutexLock lock(known.mutex);
        gone.swap(known.end);
        holder.swap(known.holder);
    }
    if (gone && holder) holder->remove(gone, 1);
    if (end) hold_in_graph(call, graph, node, end);
    known.host_copy.store(copy.on_host ? GraphNode::HostCopy::yes : GraphNode::HostCopy::no);
    known.copy_kinds.store(copy.kinds());
    known.copy_changed.store(true);
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
