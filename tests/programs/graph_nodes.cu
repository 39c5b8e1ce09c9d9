// Nodes of graphs, as the newer calls make and tell them: edges that carry data, child graphs that are moved, what a
// conditional node is; and that nodes end with their graph.
#include "driver_calls.h"

#define EXPECT_CU(call) EXPECT_EQ(static_cast<int>(call), static_cast<int>(CUDA_SUCCESS))

__global__ void add(int* data, int value) { *data += value; }

static CUgraphNodeParams kernel_params(int*& data, int& value, void* (&arguments)[2]) {
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    cudaFunction_t function;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<void*>(add)));
    params.kernel.func = function;
    params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    arguments[0] = &data;
    arguments[1] = &value;
    params.kernel.kernelParams = arguments;
    return params;
}

static CUgraphNode add_node(CUgraph graph, const CUgraphNode* after, CUgraphNodeParams params) {
    CUgraphNode node = nullptr;
    EXPECT_CU(cuGraphAddNode(&node, graph, after, nullptr, after ? 1 : 0, &params));
    return node;
}

static void run(CUgraph graph) {
    CUgraphExec exec;
    EXPECT_CU(cuGraphInstantiate(&exec, graph, 0));
    EXPECT_CU(cuGraphLaunch(exec, nullptr));
    EXPECT_CU(cuCtxSynchronize());
    EXPECT_CU(cuGraphExecDestroy(exec));
}

// A kernel that begins when the one before it lets it.
static void edges_with_data() {
    DeviceArray<int> data(1);
    CHECK(cudaMemset(data.data(), 0, sizeof(int)));
    CUgraph graph;
    EXPECT_CU(cuGraphCreate(&graph, 0));
    int *at = data.data(), value = 3;
    void* arguments[2];
    const CUgraphNodeParams params = kernel_params(at, value, arguments);
    const CUgraphNode first = add_node(graph, nullptr, params);
    CUgraphEdgeData edge{};
    edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    CUgraphNode second = nullptr, found = nullptr;
    CUgraphNodeParams copy = params;
    EXPECT_CU(cuGraphAddNode(&second, graph, &first, &edge, 1, &copy));
    CUgraphEdgeData told{};
    size_t count = 1;
    EXPECT_EQ(cuGraphNodeGetDependencies(second, &found, nullptr, &count), CUDA_ERROR_LOSSY_QUERY);
    count = 1;
    EXPECT_CU(cuGraphNodeGetDependencies(second, &found, &told, &count));
    EXPECT(count == 1 && found == first && told.from_port == edge.from_port && told.type == edge.type);
    CUgraphNode none = nullptr;
    EXPECT(cuGraphAddNode(&none, graph, nullptr, &edge, 1, &copy) == CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(cuGraphGetNodes(graph, nullptr, &count));
    EXPECT_EQ(count, 2u);
    run(graph);
    EXPECT_EQ(data.download()[0], 6);
    EXPECT_CU(cuGraphDestroy(graph));
}

// The child graph itself becomes the node's, with its handles, and may allocate memory.
static void moved() {
    DeviceArray<int> data(1);
    CHECK(cudaMemset(data.data(), 0, sizeof(int)));
    CUgraph graph, child, same;
    EXPECT_CU(cuGraphCreate(&graph, 0));
    EXPECT_CU(cuGraphCreate(&child, 0));
    int *at = data.data(), value = 5;
    void* arguments[2];
    const CUgraphNode inner = add_node(child, nullptr, kernel_params(at, value, arguments));
    CUgraphNodeParams alloc{};
    alloc.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    alloc.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    alloc.alloc.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    alloc.alloc.bytesize = 1024;
    CUgraphNode memory = nullptr;
    EXPECT_CU(cuGraphAddNode(&memory, child, &inner, nullptr, 1, &alloc));
    CUgraphNodeParams release{};
    release.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    release.free.dptr = alloc.alloc.dptr;
    add_node(child, &memory, release);

    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    params.graph.graph = child;
    CUgraphNode node = nullptr;
    EXPECT(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params) != CUDA_SUCCESS);  // it allocates: it cannot be copied
    params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    EXPECT_CU(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
    EXPECT_CU(cuGraphChildGraphNodeGetGraph(node, &same));
    EXPECT(same == child);
    EXPECT_EQ(cuGraphDestroy(child), CUDA_ERROR_INVALID_VALUE);
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&exec, child, 0), CUDA_ERROR_NOT_SUPPORTED);
    CUgraphNode again = nullptr;
    EXPECT_EQ(cuGraphAddNode(&again, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
    params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
    EXPECT_EQ(cuGraphAddNode(&again, graph, nullptr, nullptr, 0, &params), CUDA_ERROR_NOT_SUPPORTED);

    EXPECT_CU(cuGraphInstantiate(&exec, graph, 0));
    EXPECT_CU(cuGraphLaunch(exec, nullptr));
    value = 100;  // the node inside is the one that was made before the graph was moved
    const CUgraphNodeParams changed = kernel_params(at, value, arguments);
    CUDA_KERNEL_NODE_PARAMS kernel{};
    kernel.func = changed.kernel.func;
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.kernelParams = arguments;
    EXPECT_CU(cuGraphExecKernelNodeSetParams(exec, inner, &kernel));
    EXPECT_CU(cuGraphLaunch(exec, nullptr));
    EXPECT_CU(cuCtxSynchronize());
    EXPECT_EQ(data.download()[0], 105);
    EXPECT_CU(cuGraphExecDestroy(exec));
    EXPECT_CU(cuGraphDestroy(graph));
    size_t count = 0;
    EXPECT_EQ(cuGraphGetNodes(child, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
}

// The graph inside a node, copied for it or moved there, is part of its graph, and can be cloned.
static void inside() {
    DeviceArray<int> data(1);
    CHECK(cudaMemset(data.data(), 0, sizeof(int)));
    int *at = data.data(), value = 7;
    void* arguments[2];
    for (const auto ownership : {CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE}) {
        const bool moves = ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
        CUgraph graph, child, other, part, clone;
        for (CUgraph* made : {&graph, &child, &other}) EXPECT_CU(cuGraphCreate(made, 0));
        add_node(child, nullptr, kernel_params(at, value, arguments));
        CUgraphNodeParams params{};
        params.type = CU_GRAPH_NODE_TYPE_GRAPH;
        params.graph.graph = child;
        params.graph.ownership = ownership;
        CUgraphNode node = nullptr, none = nullptr;
        EXPECT_CU(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
        EXPECT_CU(cuGraphChildGraphNodeGetGraph(node, &part));
        EXPECT((part == child) == moves);
        CUgraphExec exec = nullptr;
        EXPECT_EQ(cuGraphInstantiate(&exec, part, 0), CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ(cuGraphDestroy(part), CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(cuGraphAddChildGraphNode(&none, other, nullptr, 0, part), CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_CU(cuGraphClone(&clone, part));
        run(clone);
        EXPECT_EQ(data.download()[0], moves ? 14 : 7);
        EXPECT_CU(cuGraphInstantiate(&exec, graph, 0));
        if (moves) EXPECT_EQ(cuGraphExecUpdate(exec, part, nullptr), CUDA_ERROR_INVALID_VALUE);
        EXPECT_CU(cuGraphExecDestroy(exec));
        for (CUgraph one : {graph, other, clone}) EXPECT_CU(cuGraphDestroy(one));
        if (!moves) EXPECT_CU(cuGraphDestroy(child));
    }
}

// Graphs with conditional nodes are neither copied nor part of others.
static void conditional() {
    CUcontext context;
    EXPECT_CU(cuCtxGetCurrent(&context));
    CUgraph graph, copy = nullptr, outer;
    EXPECT_CU(cuGraphCreate(&graph, 0));
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    EXPECT_CU(cuGraphConditionalHandleCreate(&params.conditional.handle, graph, context, 0, 0));
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    params.conditional.ctx = context;
    CUgraphNode node = nullptr;
    EXPECT_CU(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
    EXPECT_EQ(cuGraphDestroy(params.conditional.phGraph_out[0]), CUDA_ERROR_INVALID_VALUE);
    int version = 0;
    EXPECT_CU(cuDriverGetVersion(&version));
    if (version >= 13020) {
        CUgraphNodeParams told{};
        EXPECT_CU((find<CUgraphNode, CUgraphNodeParams*>("cuGraphNodeGetParams", 13020)(node, &told)));
        EXPECT(told.type == params.type && told.conditional.handle == params.conditional.handle);
        EXPECT(told.conditional.size == 1 && told.conditional.phGraph_out[0] == params.conditional.phGraph_out[0]);
    }
    // A handle is its graph's: good for nodes there and in no other.
    CUgraphNodeParams inner{};
    inner.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    inner.conditional = {params.conditional.handle, CU_GRAPH_COND_TYPE_IF, 1, nullptr, context};
    CUgraphNode within = nullptr, foreign = nullptr;
    EXPECT_CU(cuGraphCreate(&outer, 0));
    EXPECT_EQ(cuGraphAddNode(&foreign, outer, nullptr, nullptr, 0, &inner), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(cuGraphConditionalHandleCreate(&inner.conditional.handle, params.conditional.phGraph_out[0], context, 0, 0));
    EXPECT_CU(cuGraphAddNode(&within, params.conditional.phGraph_out[0], nullptr, nullptr, 0, &inner));
    EXPECT_CU(cuGraphDestroy(outer));
    EXPECT(cuGraphClone(&copy, graph) != CUDA_SUCCESS);
    EXPECT_CU(cuGraphCreate(&outer, 0));
    CUgraphNodeParams child{};
    child.type = CU_GRAPH_NODE_TYPE_GRAPH;
    child.graph.graph = graph;
    child.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    CUgraphNode refused = nullptr;
    EXPECT(cuGraphAddNode(&refused, outer, nullptr, nullptr, 0, &child) != CUDA_SUCCESS);
    EXPECT_CU(cuGraphDestroy(outer));
    EXPECT_CU(cuGraphDestroy(graph));
}

// A node has one handle, however it is found.
static void in_a_clone() {
    CUgraph graph, clone;
    EXPECT_CU(cuGraphCreate(&graph, 0));
    CUgraphNode node = nullptr, found = nullptr, again = nullptr, listed = nullptr;
    EXPECT_CU(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
    EXPECT_CU(cuGraphClone(&clone, graph));
    EXPECT_CU(cuGraphNodeFindInClone(&found, node, clone));
    EXPECT_CU(cuGraphNodeFindInClone(&again, node, clone));
    size_t count = 1;
    EXPECT_CU(cuGraphGetNodes(clone, &listed, &count));
    EXPECT(found == listed && again == found && found != node);
    EXPECT(cuGraphNodeFindInClone(&found, listed, graph) != CUDA_SUCCESS);
    EXPECT_CU(cuGraphDestroy(clone));
    EXPECT_CU(cuGraphDestroy(graph));
}

// Nodes that come after each other cannot be executed: why, and which of them, the program is told.
static void cycle() {
    DeviceArray<int> data(1);
    CUgraph graph;
    EXPECT_CU(cuGraphCreate(&graph, 0));
    int *at = data.data(), value = 3;
    void* arguments[2];
    const CUgraphNodeParams params = kernel_params(at, value, arguments);
    const CUgraphNode before = add_node(graph, nullptr, params), first = add_node(graph, &before, params);
    const CUgraphNode second = add_node(graph, &first, params), after = add_node(graph, &second, params);
    EXPECT_CU(cuGraphAddDependencies(graph, &second, &first, nullptr, 1));
    CUgraphExec exec = nullptr;
    CUDA_GRAPH_INSTANTIATE_PARAMS wanted{};
    wanted.hErrNode_out = after;
    EXPECT_EQ(cuGraphInstantiateWithParams(&exec, graph, &wanted), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(wanted.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    EXPECT(wanted.hErrNode_out == first || wanted.hErrNode_out == second);
    // The older form names none.
    CUgraphNode failed = after;
    const auto instantiate = find<CUgraphExec*, CUgraph, CUgraphNode*, char*, size_t>("cuGraphInstantiate", 11000);
    EXPECT_EQ(instantiate(&exec, graph, &failed, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(failed == nullptr);
    EXPECT_CU(cuGraphDestroy(graph));
}

int main() {
    CHECK(cudaFree(nullptr));
    cycle();
    edges_with_data();
    moved();
    inside();
    conditional();
    in_a_clone();
    return passed("nodes of graphs");
}
