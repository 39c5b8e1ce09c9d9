// User objects of graphs: when their destructors run. And graphs of memory operations, which hold up launches here.
#include <cuda.h>

#include <atomic>
#include <thread>

#include "check.h"

static int* g_memory;  // four words: [0] opens the gate, the others are results

__global__ void add(int* to, int value) { *to += value; }

struct Object {
    std::atomic<int> destroyed{0};
    cudaUserObject_t handle = nullptr;
    explicit Object(unsigned references = 1) {
        CHECK(cudaUserObjectCreate(
            &handle, this, [](void* p) { ++static_cast<Object*>(p)->destroyed; }, references, cudaUserObjectNoDestructorSync));
    }
    void expect_destroyed() {
        while (destroyed == 0) std::this_thread::yield();
        EXPECT_EQ(destroyed.load(), 1);
    }
};

static cudaGraph_t graph_of(Object* object, int value) {
    cudaGraph_t graph;
    cudaGraphNode_t node;
    CHECK(cudaGraphCreate(&graph, 0));
    if (object != nullptr) CHECK(cudaGraphRetainUserObject(graph, object->handle, 1, cudaGraphUserObjectMove));
    int* to = g_memory + 1;
    void* arguments[] = {&to, &value};
    cudaKernelNodeParams params = {};
    params.func = reinterpret_cast<void*>(add);
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params));
    return graph;
}

static cudaGraphExec_t instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

static int word(int index) {
    int value = -1;
    CHECK(cudaMemcpy(&value, g_memory + index, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

// A stream that goes on when it is told to; what waits is a graph of its own, of a batch of memory operations.
struct Gate {
    cudaStream_t stream, opener;
    CUgraphNode node = nullptr;
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    static CUstreamBatchMemOpParams item(CUstreamBatchMemOpType type, int index, uint32_t value) {
        CUstreamBatchMemOpParams made = {};
        made.waitValue.operation = type;
        made.waitValue.address = reinterpret_cast<CUdeviceptr>(g_memory + index);
        made.waitValue.value = value;
        made.waitValue.flags = type == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? CU_STREAM_WAIT_VALUE_EQ : 0;
        return made;
    }
    Gate() {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&opener, cudaStreamNonBlocking));
        CHECK(cudaMemset(g_memory, 0, 4 * sizeof(int)));
        CHECK(cudaDeviceSynchronize());
        CUcontext context;
        EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
        CUstreamBatchMemOpParams items[] = {item(CU_STREAM_MEM_OP_WAIT_VALUE_32, 0, 1),
                                            item(CU_STREAM_MEM_OP_WRITE_VALUE_32, 2, 22)};
        CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context, 2, items, 0};
        EXPECT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
        EXPECT_EQ(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params), CUDA_SUCCESS);
        EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
        EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    }
    void open() const {
        EXPECT_EQ(cuStreamWriteValue32(opener, reinterpret_cast<CUdeviceptr>(g_memory), 1, 0), CUDA_SUCCESS);
        CHECK(cudaStreamSynchronize(stream));
        EXPECT_EQ(word(2), 22);
    }
    ~Gate() {
        EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
        EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
        CHECK(cudaStreamDestroy(stream));
        CHECK(cudaStreamDestroy(opener));
    }
};

static void counted() {
    Object object(2);
    cudaGraph_t graph = graph_of(nullptr, 1), clone;
    EXPECT_EQ(cudaUserObjectRelease(object.handle, 0), cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(cudaGraphRetainUserObject(graph, object.handle, 2, 0));
    CHECK(cudaUserObjectRelease(object.handle, 2));
    CHECK(cudaGraphReleaseUserObject(graph, object.handle, 1));
    CHECK(cudaGraphClone(&clone, graph));
    CHECK(cudaGraphDestroy(graph));
    EXPECT_EQ(object.destroyed.load(), 0);
    CHECK(cudaGraphDestroy(clone));
    object.expect_destroyed();
}

// An executable graph is destroyed, or updated, while launches of it wait for their turn.
static void under_way(bool update) {
    Object object, other;
    cudaGraph_t graph = graph_of(&object, 5), second = graph_of(&other, 7);
    cudaGraphExec_t exec = instantiate(graph);
    CHECK(cudaGraphDestroy(graph));
    Gate gate;
    CHECK(cudaGraphLaunch(exec, gate.stream));
    CHECK(cudaGraphLaunch(exec, gate.stream));
    if (update) {
        cudaGraphExecUpdateResultInfo info;
        CHECK(cudaGraphExecUpdate(exec, second, &info));
    } else {
        CHECK(cudaGraphExecDestroy(exec));
    }
    EXPECT_EQ(object.destroyed.load(), 0);
    gate.open();
    EXPECT_EQ(word(1), 10);
    object.expect_destroyed();
    CHECK(cudaGraphDestroy(second));
    if (update) {
        EXPECT_EQ(other.destroyed.load(), 0);
        CHECK(cudaGraphLaunch(exec, gate.stream));
        CHECK(cudaStreamSynchronize(gate.stream));
        EXPECT_EQ(word(1), 17);
        CHECK(cudaGraphExecDestroy(exec));
    }
    other.expect_destroyed();
}

static void child_graphs() {
    Object object;
    cudaGraph_t child = graph_of(&object, 1), parent;
    cudaGraphNode_t node;
    CHECK(cudaGraphCreate(&parent, 0));
    CHECK(cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, child));
    CHECK(cudaGraphDestroy(child));
    cudaGraphExec_t exec = instantiate(parent);
    CHECK(cudaGraphDestroyNode(node));
    CHECK(cudaGraphDestroy(parent));
    EXPECT_EQ(object.destroyed.load(), 0);
    CHECK(cudaGraphExecDestroy(exec));
    object.expect_destroyed();
    // Another graph in the place of a child.
    Object old, fresh;
    cudaGraph_t first = graph_of(&old, 1), second = graph_of(&fresh, 2);
    CHECK(cudaGraphCreate(&parent, 0));
    CHECK(cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, first));
    exec = instantiate(parent);
    CHECK(cudaGraphExecChildGraphNodeSetParams(exec, node, second));
    for (cudaGraph_t graph : {first, second}) CHECK(cudaGraphDestroy(graph));
    EXPECT_EQ(old.destroyed.load(), 0);  // the graph's node has it
    CHECK(cudaGraphDestroy(parent));
    old.expect_destroyed();
    EXPECT_EQ(fresh.destroyed.load(), 0);
    CHECK(cudaGraphExecDestroy(exec));
    fresh.expect_destroyed();
}

static void memory_operations() {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMemset(g_memory, 0, 4 * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CUstreamBatchMemOpParams items[] = {Gate::item(CU_STREAM_MEM_OP_WRITE_VALUE_32, 0, 3),
                                        Gate::item(CU_STREAM_MEM_OP_WAIT_VALUE_32, 0, 3),
                                        Gate::item(CU_STREAM_MEM_OP_WRITE_VALUE_32, 1, 4)};
    EXPECT_EQ(cuStreamBatchMemOp(stream, 3, items, 0), CUDA_SUCCESS);
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    EXPECT_EQ(word(1), 0);
    cudaGraphNode_t node;
    size_t count = 1;
    CHECK(cudaGraphGetNodes(graph, &node, &count));
    CUDA_BATCH_MEM_OP_NODE_PARAMS got = {}, params = {};
    EXPECT_EQ(cuGraphBatchMemOpNodeGetParams(node, &got), CUDA_SUCCESS);
    EXPECT_EQ(got.count, 3u);
    EXPECT_EQ(got.paramArray[2].writeValue.value, 4u);
    EXPECT_EQ(cuCtxGetCurrent(&params.ctx), CUDA_SUCCESS);
    EXPECT(got.ctx == params.ctx);
    cudaGraphExec_t exec = instantiate(graph);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(word(1), 4);
    // The executable graph's are as many and do the same, with other values.
    params.count = 1, params.paramArray = items;
    items[0].writeValue.value = items[1].waitValue.value = 6;
    EXPECT_EQ(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params), CUDA_ERROR_INVALID_VALUE);
    params.count = 3;
    CUDA_BATCH_MEM_OP_NODE_PARAMS nowhere = params;
    nowhere.ctx = nullptr;
    EXPECT_EQ(cuGraphExecBatchMemOpNodeSetParams(exec, node, &nowhere), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params), CUDA_SUCCESS);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(word(0), 6);
    params.count = 1;
    items[0].writeValue.value = 7;
    EXPECT_EQ(cuGraphBatchMemOpNodeSetParams(node, &params), CUDA_SUCCESS);
    CHECK(cudaGraphExecDestroy(exec));
    exec = instantiate(graph);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(word(0), 7);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

int main() {
    CHECK(cudaMalloc(&g_memory, 4 * sizeof(int)));
    counted();
    under_way(false);
    under_way(true);
    child_graphs();
    memory_operations();
    return passed("user objects");
}
