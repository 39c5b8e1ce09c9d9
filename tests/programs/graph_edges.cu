// What a graph says of its edges, and what becomes of its launches when they change. By the driver's interface, in both forms:
// with data of edges and without.
#include <algorithm>
#include <utility>

#include "driver_calls.h"

// trace[0] counts; each node notes itself behind those that ran before it. Nodes without edges may run at the same time.
__global__ void note(int* trace, int node) { trace[1 + atomicAdd(trace, 1)] = node; }

using Nodes = std::vector<CUgraphNode>;
using Edges = std::vector<std::pair<CUgraphNode, CUgraphNode>>;

// The forms of before CUDA 12.3.
static const auto edges_without_data = find<CUgraph, CUgraphNode*, CUgraphNode*, size_t*>("cuGraphGetEdges", 10000);
static const auto dependents_without_data = find<CUgraphNode, CUgraphNode*, size_t*>("cuGraphNodeGetDependentNodes", 10000);
static const auto dependencies_without_data = find<CUgraphNode, CUgraphNode*, size_t*>("cuGraphNodeGetDependencies", 10000);
static const auto add_without_data =
    find<CUgraph, const CUgraphNode*, const CUgraphNode*, size_t>("cuGraphAddDependencies", 10000);
static const auto remove_without_data =
    find<CUgraph, const CUgraphNode*, const CUgraphNode*, size_t>("cuGraphRemoveDependencies", 10000);
// And with it.
static const auto edges_with_data =
    find<CUgraph, CUgraphNode*, CUgraphNode*, CUgraphEdgeData*, size_t*>("cuGraphGetEdges", 12030);
static const auto dependents_with_data =
    find<CUgraphNode, CUgraphNode*, CUgraphEdgeData*, size_t*>("cuGraphNodeGetDependentNodes", 12030);
static const auto dependencies_with_data =
    find<CUgraphNode, CUgraphNode*, CUgraphEdgeData*, size_t*>("cuGraphNodeGetDependencies", 12030);
static const auto add_with_data =
    find<CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdgeData*, size_t>("cuGraphAddDependencies", 12030);
static const auto remove_with_data =
    find<CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdgeData*, size_t>("cuGraphRemoveDependencies", 12030);

static CUgraphNode add_note(CUgraph graph, int* trace, int number) {
    CUDA_KERNEL_NODE_PARAMS params{};
    CHECK(cudaGetFuncBySymbol(&params.func, reinterpret_cast<const void*>(note)));
    params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    void* arguments[] = {&trace, &number};
    params.kernelParams = arguments;
    CUgraphNode node;
    DRIVER(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params));
    return node;
}

template <typename T>
static std::vector<T> sorted(std::vector<T> values) {
    std::sort(values.begin(), values.end());
    return values;
}

static Nodes roots(CUgraph graph) {
    size_t count = 0;
    DRIVER(cuGraphGetRootNodes(graph, nullptr, &count));
    Nodes nodes(count);
    if (count != 0) DRIVER(cuGraphGetRootNodes(graph, nodes.data(), &count));
    EXPECT_EQ(count, nodes.size());
    return sorted(nodes);
}

/// Both forms have to say the same.
static Edges edges(CUgraph graph) {
    size_t count = 0, again = 99;
    DRIVER(edges_without_data(graph, nullptr, nullptr, &count));
    Nodes from(count + 1), to(count + 1), from_again(count + 1), to_again(count + 1);
    std::vector<CUgraphEdgeData> data(count + 1);
    again = count + 1;
    DRIVER(edges_with_data(graph, from_again.data(), to_again.data(), data.data(), &again));
    EXPECT_EQ(again, count);
    again = count + 1;
    DRIVER(edges_without_data(graph, from.data(), to.data(), &again));
    EXPECT_EQ(again, count);
    EXPECT(from[count] == nullptr && to[count] == nullptr);  // room that is too much is cleared
    Edges found, found_again;
    for (size_t i = 0; i < count; ++i) {
        found.emplace_back(from[i], to[i]);
        found_again.emplace_back(from_again[i], to_again[i]);
        EXPECT(data[i].from_port == 0 && data[i].to_port == 0 && data[i].type == 0);
    }
    EXPECT(sorted(found) == sorted(found_again));
    return sorted(found);
}

template <typename Plain, typename WithData>
static Nodes neighbours(CUgraphNode node, Plain plain, WithData with_data) {
    size_t count = 0;
    DRIVER(plain(node, nullptr, &count));
    Nodes nodes(count), again(count);
    if (count == 0) return nodes;
    std::vector<CUgraphEdgeData> data(count);
    DRIVER(plain(node, nodes.data(), &count));
    DRIVER(with_data(node, again.data(), data.data(), &count));
    EXPECT(sorted(nodes) == sorted(again));
    return sorted(nodes);
}
static Nodes dependents(CUgraphNode node) { return neighbours(node, dependents_without_data, dependents_with_data); }
static Nodes dependencies(CUgraphNode node) { return neighbours(node, dependencies_without_data, dependencies_with_data); }

/// The order in which a launch of the graph runs its nodes.
static std::vector<int> order_of(CUgraph graph, DeviceArray<int>& trace) {
    trace.upload(std::vector<int>(trace.size(), 0));
    CUgraphExec exec;
    DRIVER(cuGraphInstantiate(&exec, graph, 0));
    DRIVER(cuGraphLaunch(exec, nullptr));
    DRIVER(cuCtxSynchronize());
    DRIVER(cuGraphExecDestroy(exec));
    std::vector<int> found = trace.download();
    return {found.begin() + 1, found.begin() + 1 + found[0]};
}

static void shape() {
    DeviceArray<int> trace(8);
    CUgraph graph;
    DRIVER(cuGraphCreate(&graph, 0));
    EXPECT(roots(graph).empty() && edges(graph).empty());
    Nodes n;
    for (int i = 0; i < 5; ++i) n.push_back(add_note(graph, trace.data(), i));
    EXPECT(roots(graph) == sorted(n));
    const CUgraphNode from[] = {n[0], n[0], n[1], n[2]}, to[] = {n[1], n[2], n[3], n[3]};
    DRIVER(add_with_data(graph, from, to, nullptr, 4));
    EXPECT(roots(graph) == sorted(Nodes{n[0], n[4]}));
    EXPECT(edges(graph) == sorted(Edges{{n[0], n[1]}, {n[0], n[2]}, {n[1], n[3]}, {n[2], n[3]}}));
    EXPECT(dependents(n[0]) == sorted(Nodes{n[1], n[2]}) && dependents(n[3]).empty() && dependents(n[4]).empty());
    EXPECT(dependencies(n[3]) == sorted(Nodes{n[1], n[2]}) && dependencies(n[0]).empty());
    // As many as there is room for, and no more.
    size_t room = 1;
    Nodes some(2, nullptr);
    DRIVER(dependents_without_data(n[0], some.data(), &room));
    EXPECT(room == 1 && (some[0] == n[1] || some[0] == n[2]) && some[1] == nullptr);
    // Without its edges it is apart.
    DRIVER(remove_with_data(graph, from + 2, to + 2, nullptr, 2));
    EXPECT(roots(graph) == sorted(Nodes{n[0], n[3], n[4]}));
    EXPECT(edges(graph) == sorted(Edges{{n[0], n[1]}, {n[0], n[2]}}));
    // With a node go its edges.
    DRIVER(cuGraphDestroyNode(n[0]));
    EXPECT(edges(graph).empty() && roots(graph) == sorted(Nodes{n[1], n[2], n[3], n[4]}));
    EXPECT_EQ(order_of(graph, trace).size(), 4u);
    DRIVER(cuGraphDestroy(graph));
}

// A chain is turned round, once by each form: what ran last runs first.
static void order() {
    DeviceArray<int> trace(8);
    CUgraph graph;
    DRIVER(cuGraphCreate(&graph, 0));
    Nodes n;
    for (int i = 0; i < 4; ++i) n.push_back(add_note(graph, trace.data(), i));
    const CUgraphNode* first = n.data();
    const CUgraphNode* second = n.data() + 1;
    DRIVER(add_without_data(graph, first, second, 3));
    EXPECT((order_of(graph, trace) == std::vector<int>{0, 1, 2, 3}));
    DRIVER(remove_without_data(graph, first, second, 3));
    EXPECT(edges(graph).empty());
    DRIVER(add_with_data(graph, second, first, nullptr, 3));
    EXPECT((order_of(graph, trace) == std::vector<int>{3, 2, 1, 0}));
    DRIVER(remove_with_data(graph, second, first, nullptr, 3));
    DRIVER(add_without_data(graph, first, second, 3));
    EXPECT((order_of(graph, trace) == std::vector<int>{0, 1, 2, 3}));
    DRIVER(cuGraphDestroy(graph));
}

// An edge between kernels that starts the second one early cannot be told without its data.
static void data() {
    DeviceArray<int> trace(8);
    CUgraph graph;
    DRIVER(cuGraphCreate(&graph, 0));
    const CUgraphNode one = add_note(graph, trace.data(), 0), other = add_note(graph, trace.data(), 1);
    CUgraphEdgeData early{};
    early.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    early.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    DRIVER(add_with_data(graph, &one, &other, &early, 1));
    CUgraphNode from = nullptr, to = nullptr;
    size_t count = 1;
    REFUSED(edges_without_data(graph, &from, &to, &count), CUDA_ERROR_LOSSY_QUERY);
    REFUSED(dependents_without_data(one, &to, &count), CUDA_ERROR_LOSSY_QUERY);
    CUgraphEdgeData found{};
    count = 1;
    DRIVER(edges_with_data(graph, &from, &to, &found, &count));
    EXPECT(count == 1 && from == one && to == other);
    EXPECT(found.type == early.type && found.from_port == early.from_port && found.to_port == early.to_port);
    found = {};
    DRIVER(dependents_with_data(one, &to, &found, &count));
    EXPECT(count == 1 && to == other && found.type == early.type && found.from_port == early.from_port);
    DRIVER(remove_with_data(graph, &one, &other, &early, 1));
    EXPECT(edges(graph).empty());
    DRIVER(cuGraphDestroy(graph));
}

// What cannot be an edge is refused by the call itself, by both forms, and changes nothing.
static void refused() {
    DeviceArray<int> trace(8);
    CUgraph graph, other;
    DRIVER(cuGraphCreate(&graph, 0));
    DRIVER(cuGraphCreate(&other, 0));
    const CUgraphNode a = add_note(graph, trace.data(), 0), b = add_note(graph, trace.data(), 1);
    const CUgraphNode elsewhere = add_note(other, trace.data(), 2);
    CUgraphNode c, d;
    DRIVER(cuGraphAddEmptyNode(&c, graph, &a, 1));
    DRIVER(add_without_data(graph, &a, &b, 1));
    const auto none_is_added = [&](CUgraphNode from, CUgraphNode to) {
        REFUSED(add_without_data(graph, &from, &to, 1), CUDA_ERROR_INVALID_VALUE);
        REFUSED(add_with_data(graph, &from, &to, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    };
    const auto none_is_removed = [&](CUgraphNode from, CUgraphNode to) {
        REFUSED(remove_without_data(graph, &from, &to, 1), CUDA_ERROR_INVALID_VALUE);
        REFUSED(remove_with_data(graph, &from, &to, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    };
    none_is_added(a, a);
    none_is_added(a, b);  // there, by the same call
    none_is_added(a, c);  // there, since it was added
    none_is_added(a, elsewhere);
    none_is_added(elsewhere, a);
    none_is_removed(b, a);
    none_is_removed(b, c);
    none_is_removed(a, elsewhere);
    DRIVER(add_without_data(graph, nullptr, nullptr, 0));
    const CUgraphNode twice[] = {a, a};
    REFUSED(cuGraphAddEmptyNode(&d, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuGraphAddEmptyNode(&d, graph, &elsewhere, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(edges(graph) == sorted(Edges{{a, b}, {a, c}}));
    // Gone by a call, or with a node, it may be added again, or another one like it.
    DRIVER(remove_without_data(graph, &a, &b, 1));
    none_is_removed(a, b);
    DRIVER(add_without_data(graph, &a, &b, 1));
    DRIVER(cuGraphDestroyNode(a));
    DRIVER(cuGraphAddEmptyNode(&d, graph, nullptr, 0));
    none_is_removed(d, b);
    DRIVER(add_with_data(graph, &d, &b, nullptr, 1));
    EXPECT(edges(graph) == sorted(Edges{{d, b}}));
    // Nodes of a capture, whose edges the program has not told.
    CUstream stream;
    CUgraph captured;
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < 2; ++i) note<<<1, 1, 0, stream>>>(trace.data(), i);
    DRIVER(cuStreamEndCapture(stream, &captured));
    const Edges chain = edges(captured);
    EXPECT_EQ(chain.size(), 1u);
    REFUSED(add_without_data(captured, &chain[0].first, &chain[0].second, 1), CUDA_ERROR_INVALID_VALUE);
    DRIVER(remove_without_data(captured, &chain[0].first, &chain[0].second, 1));
    REFUSED(remove_without_data(captured, &chain[0].first, &chain[0].second, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(edges(captured).empty());
    DRIVER(cuStreamDestroy(stream));
    for (CUgraph one : {captured, other, graph}) DRIVER(cuGraphDestroy(one));
}

// What an executable graph was made with.
static void flags() {
    CUgraph graph;
    DRIVER(cuGraphCreate(&graph, 0));
    const cuuint64_t choices[] = {0, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
                                  CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY};
    for (const cuuint64_t wanted : choices) {
        CUgraphExec exec;
        cuuint64_t found = 77;
        DRIVER(cuGraphInstantiate(&exec, graph, wanted));
        DRIVER(cuGraphExecGetFlags(exec, &found));
        // Of a graph that has no kernel a driver need not tell that their priorities count (docs/driver-behaviour.md).
        EXPECT(found == wanted || (wanted == CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY && found == 0));
        DRIVER(cuGraphExecDestroy(exec));
    }
    // Made by the form that says why it fails, and brought to the device at once.
    DeviceArray<int> trace(std::vector<int>(8, 0));
    add_note(graph, trace.data(), 5);
    CUstream stream;
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    params.hUploadStream = stream;
    params.result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
    CUgraphExec exec;
    DRIVER(cuGraphInstantiateWithParams(&exec, graph, &params));
    EXPECT(params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS);
    DRIVER(cuGraphLaunch(exec, stream));
    DRIVER(cuStreamSynchronize(stream));
    EXPECT((trace.download() == std::vector<int>{1, 5, 0, 0, 0, 0, 0, 0}));
    DRIVER(cuGraphExecDestroy(exec));
    DRIVER(cuStreamDestroy(stream));
    DRIVER(cuGraphDestroy(graph));
}

int main() {
    CHECK(cudaFree(nullptr));
    shape();
    order();
    data();
    refused();
    flags();
    return passed("edges of graphs");
}
