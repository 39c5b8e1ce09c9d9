// Forms that functions had in other versions of CUDA than the one that this program is built with, as programs of those
// versions call them: each by its effect.
#include "driver_calls.h"

__global__ void store(int* to, int value) { *to = value; }
__global__ void add(int* to, int value) { *to += value; }

/// One thread of a kernel with these arguments, as nodes of before CUDA 12 are described: by a function.
struct Launch {
    Launch(void (*kernel)(int*, int), int* at, int stored) : to(at), value(stored) {
        CHECK(cudaGetFuncBySymbol(&params.func, reinterpret_cast<const void*>(kernel)));
        params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimX = params.blockDimY = params.blockDimZ = 1;
        params.kernelParams = arguments;
    }
    Launch(const Launch&) = delete;
    int* to;
    int value;
    void* arguments[2] = {&to, &value};
    CUDA_KERNEL_NODE_PARAMS_v1 params{};
};

static const auto add_kernel =
    find<CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_KERNEL_NODE_PARAMS_v1*>("cuGraphAddKernelNode", 10000);
static const auto add_node =
    find<CUgraphNode*, CUgraph, const CUgraphNode*, size_t, CUgraphNodeParams*>("cuGraphAddNode", 12020);
static const auto update = find<CUgraphExec, CUgraph, CUgraphNode*, CUgraphExecUpdateResult*>("cuGraphExecUpdate", 10020);

static void run(CUgraphExec exec) {
    DRIVER(cuGraphLaunch(exec, nullptr));
    DRIVER(cuCtxSynchronize());
}

// Two nodes behind each other, one of each form, and the executable graph that is told to be like another one.
static void graphs() {
    DeviceArray<int> data(std::vector<int>{0});
    Launch first(store, data.data(), 20), second(add, data.data(), 3);
    CUgraph graph, other, longer;
    for (CUgraph* made : {&graph, &other, &longer}) DRIVER(cuGraphCreate(made, 0));
    CUgraphNode stored, added;
    DRIVER(add_kernel(&stored, graph, nullptr, 0, &first.params));
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel.func = second.params.func;
    params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = second.arguments;
    DRIVER(add_node(&added, graph, &stored, 1, &params));
    CUgraphExec exec;
    DRIVER(cuGraphInstantiate(&exec, graph, 0));
    run(exec);
    EXPECT_EQ(data.download()[0], 23);
    Launch third(store, data.data(), 500), fourth(add, data.data(), 6);
    DRIVER(add_kernel(&stored, other, nullptr, 0, &third.params));
    DRIVER(add_kernel(&added, other, &stored, 1, &fourth.params));
    CUgraphNode failed = added;
    CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_ERROR;
    DRIVER(update(exec, other, &failed, &result));
    EXPECT(result == CU_GRAPH_EXEC_UPDATE_SUCCESS && failed == nullptr);
    run(exec);
    EXPECT_EQ(data.download()[0], 506);
    // One of another shape is not followed, and the executable graph stays what it is.
    REFUSED(update(exec, longer, &failed, &result), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT(result != CU_GRAPH_EXEC_UPDATE_SUCCESS);
    DRIVER(cuMemsetD32(reinterpret_cast<CUdeviceptr>(data.data()), 0, 1));
    run(exec);
    EXPECT_EQ(data.download()[0], 506);
    DRIVER(cuGraphExecDestroy(exec));
    for (CUgraph each : {graph, other, longer}) DRIVER(cuGraphDestroy(each));
}

// Captures whose mode nobody chooses, and what was told of captures before there was their graph to be had.
static void captures() {
    const auto begin = find<CUstream>("cuStreamBeginCapture", 10000);
    const auto info = find<CUstream, CUstreamCaptureStatus*, cuuint64_t*>("cuStreamGetCaptureInfo", 10010);
    DeviceArray<int> data(std::vector<int>{0});
    CUstream stream;
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    cuuint64_t ids[2] = {};
    DRIVER(info(stream, &status, &ids[0]));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_NONE);
    for (cuuint64_t& id : ids) {
        DRIVER(begin(stream));
        REFUSED(begin(stream), CUDA_ERROR_ILLEGAL_STATE);
        store<<<1, 1, 0, stream>>>(data.data(), 9);
        CHECK(cudaGetLastError());
        DRIVER(info(stream, &status, &id));
        EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0);
        CUgraph graph;
        DRIVER(cuStreamEndCapture(stream, &graph));
        EXPECT_EQ(data.download()[0], 0);  // nothing has run
        CUgraphExec exec;
        DRIVER(cuGraphInstantiate(&exec, graph, 0));
        run(exec);
        EXPECT_EQ(data.download()[0], 9);
        DRIVER(cuGraphExecDestroy(exec));
        DRIVER(cuGraphDestroy(graph));
        data.upload({0});
    }
    EXPECT(ids[0] != ids[1]);
    DRIVER(cuStreamDestroy(stream));
}

// Contexts by the form that knew shares of multiprocessors.
static void contexts() {
    const auto create = find<CUcontext*, CUexecAffinityParam*, int, unsigned, CUdevice>("cuCtxCreate", 11040);
    CUcontext before, made = nullptr, found = nullptr;
    DRIVER(cuCtxGetCurrent(&before));
    DRIVER(create(&made, nullptr, 0, CU_CTX_SCHED_BLOCKING_SYNC, 0));
    DRIVER(cuCtxGetCurrent(&found));
    EXPECT(made != before && found == made);
    unsigned flags = 0;
    DRIVER(cuCtxGetFlags(&flags));
    EXPECT((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
    CUdeviceptr memory;
    DRIVER(cuMemAlloc(&memory, 4));
    DRIVER(cuMemsetD32(memory, 1234, 1));
    int value = 0;
    DRIVER(cuMemcpyDtoH(&value, memory, 4));
    EXPECT_EQ(value, 1234);
    DRIVER(cuCtxDestroy(made));
    DRIVER(cuCtxSetCurrent(before));
    REFUSED(create(&made, nullptr, 0, 0, 999), CUDA_ERROR_INVALID_DEVICE);
}

// Batches by the form that tells no index of what failed.
static void batches() {
    const auto flat = find<CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t, CUstream>(
        "cuMemcpyBatchAsync", 13000);
    const auto shaped = find<size_t, CUDA_MEMCPY3D_BATCH_OP*, unsigned long long, CUstream>("cuMemcpy3DBatchAsync", 13000);
    constexpr int k_count = 600;
    std::vector<int> from(k_count), back(k_count, -1);
    for (int i = 0; i < k_count; ++i) from[i] = 5 * i;
    DeviceArray<int> one(k_count), other(std::vector<int>(k_count, -1));
    const auto address = [](const int* at) { return reinterpret_cast<CUdeviceptr>(at); };
    CUstream stream;
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    // The two halves change places.
    CUdeviceptr sources[] = {address(from.data()), address(from.data() + 300)};
    CUdeviceptr targets[] = {address(one.data() + 300), address(one.data())};
    size_t sizes[] = {300 * sizeof(int), 300 * sizeof(int)}, first[] = {0};
    DRIVER(flat(targets, sources, sizes, 2, &attributes, first, 1, stream));
    DRIVER(cuStreamSynchronize(stream));
    const std::vector<int> turned = one.download();
    for (int i = 0; i < k_count; ++i) EXPECT_EQ(turned[i], from[(i + 300) % k_count]);
    REFUSED(flat(targets, sources, sizes, 2, &attributes, first, 0, stream), CUDA_ERROR_INVALID_VALUE);
    // Five rows of six, twenty apart, to ten apart; and back to the host in a batch of the same.
    CUDA_MEMCPY3D_BATCH_OP ops[2] = {};
    for (CUDA_MEMCPY3D_BATCH_OP& op : ops) {
        op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
        op.extent = {6 * sizeof(int), 5, 1};
        op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        op.src.op.ptr.rowLength = 20 * sizeof(int), op.dst.op.ptr.rowLength = 10 * sizeof(int);
    }
    ops[0].src.op.ptr.ptr = address(one.data()), ops[0].dst.op.ptr.ptr = address(other.data());
    ops[1].src.op.ptr.ptr = address(one.data() + 300), ops[1].dst.op.ptr.ptr = address(back.data());
    DRIVER(shaped(2, ops, 0, stream));
    DRIVER(cuStreamSynchronize(stream));
    const std::vector<int> seen = other.download();
    for (int y = 0; y < 5; ++y) {
        for (int x = 0; x < 10; ++x) {
            EXPECT_EQ(seen[y * 10 + x], x < 6 ? turned[y * 20 + x] : -1);
            EXPECT_EQ(back[y * 10 + x], x < 6 ? turned[300 + y * 20 + x] : -1);
        }
    }
    REFUSED(shaped(2, ops, 77, stream), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuStreamDestroy(stream));
}

int main() {
    CHECK(cudaFree(nullptr));
    graphs();
    captures();
    contexts();
    batches();
    return passed("older forms");
}
