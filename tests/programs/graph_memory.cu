// Graphs that allocate memory, and graphs that decide while they run.
#include <cuda.h>

#include <cstdint>

#include "check.h"

__global__ void fill(int* data, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = value + i;
}
__global__ void accumulate(int* out, const int* data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += data[i];
}
__global__ void count_down(int* counter, int* turns, cudaGraphConditionalHandle handle) {
    *counter -= 1;
    *turns += 1;
    cudaGraphSetConditional(handle, *counter > 0 ? 1 : 0);
}
__global__ void choose(cudaGraphConditionalHandle handle, const int* value) { cudaGraphSetConditional(handle, *value); }

static uint64_t graph_bytes(cudaGraphMemAttributeType attribute) {
    uint64_t value = ~0ull;
    CHECK(cudaDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
}

static void captured() {
    const int n = 10000;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> out(n);
    CHECK(cudaMemset(out.data(), 0, n * sizeof(int)));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    int* scratch = nullptr;
    CHECK(cudaMallocAsync(&scratch, n * sizeof(int), stream));
    fill<<<(n + 255) / 256, 256, 0, stream>>>(scratch, n, 5);
    accumulate<<<(n + 255) / 256, 256, 0, stream>>>(out.data(), scratch, n);
    CHECK(cudaFreeAsync(scratch, stream));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    auto host = out.download();
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], 3 * (5 + i));
    // What it has freed the graph has for its next launch (docs/driver-behaviour.md, DB-51).
    EXPECT(graph_bytes(cudaGraphMemAttrUsedMemCurrent) >= n * sizeof(int));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaDeviceGraphMemTrim(0));
    CHECK(cudaStreamDestroy(stream));
}

// What the graph allocates is used and freed outside of it, or freed by the next launch.
static void allocated_by_hand(bool free_on_launch) {
    const int n = 3000;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaMemAllocNodeParams alloc = {};
    alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    alloc.poolProps.location = {cudaMemLocationTypeDevice, 0};
    alloc.bytesize = n * sizeof(int);
    cudaGraphNode_t memory, kernel;
    CHECK(cudaGraphAddMemAllocNode(&memory, graph, nullptr, 0, &alloc));
    EXPECT(alloc.dptr != nullptr);
    cudaMemAllocNodeParams told = {};
    CHECK(cudaGraphMemAllocNodeGetParams(memory, &told));
    EXPECT(told.dptr == alloc.dptr && told.bytesize == alloc.bytesize);
    int count = n, value = 40;
    void* arguments[] = {&alloc.dptr, &count, &value};
    cudaKernelNodeParams params = {};
    params.func = reinterpret_cast<void*>(fill);
    params.gridDim = dim3((n + 255) / 256);
    params.blockDim = dim3(256);
    params.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&kernel, graph, &memory, 1, &params));
    CUDA_KERNEL_NODE_PARAMS read = {};
    void* function = nullptr;
    CHECK(cudaGetDriverEntryPointByVersion("cuGraphKernelNodeGetParams", &function, 12000, cudaEnableDefault, nullptr));
    EXPECT(reinterpret_cast<decltype(&cuGraphKernelNodeGetParams)>(function)(kernel, &read) == CUDA_SUCCESS);
    EXPECT(read.gridDimX == params.gridDim.x && read.blockDimX == 256 && (read.func || read.kern));
    EXPECT_EQ(*static_cast<int*>(read.kernelParams[1]), n);
    EXPECT_EQ(*static_cast<int*>(read.kernelParams[2]), 40);
    EXPECT(*static_cast<void**>(read.kernelParams[0]) == alloc.dptr);
    cudaKernelNodeParams named = {};
    CHECK(cudaGraphKernelNodeGetParams(kernel, &named));
    EXPECT(named.func == params.func && named.gridDim.x == params.gridDim.x);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, free_on_launch ? cudaGraphInstantiateFlagAutoFreeOnLaunch : 0));
    for (int round = 0; round < 3; ++round) {
        CHECK(cudaGraphLaunch(exec, stream));
        std::vector<int> host(n);
        CHECK(cudaMemcpyAsync(host.data(), alloc.dptr, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], 40 + i);
        EXPECT(graph_bytes(cudaGraphMemAttrUsedMemCurrent) >= n * sizeof(int));
        if (!free_on_launch) {
            // It is there: the next launch cannot allocate it.
            EXPECT_EQ(static_cast<int>(cudaGraphLaunch(exec, stream)), static_cast<int>(cudaErrorInvalidValue));
            EXPECT_EQ(static_cast<int>(cudaGetLastError()), static_cast<int>(cudaErrorInvalidValue));
            if (round == 1)
                CHECK(cudaFree(alloc.dptr));
            else
                CHECK(cudaFreeAsync(alloc.dptr, stream));
        }
    }
    if (free_on_launch) CHECK(cudaFreeAsync(alloc.dptr, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

// Allocated by one graph, freed by another.
static void freed_by_another() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t first, second;
    CHECK(cudaGraphCreate(&first, 0));
    CHECK(cudaGraphCreate(&second, 0));
    cudaMemAllocNodeParams alloc = {};
    alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    alloc.poolProps.location = {cudaMemLocationTypeDevice, 0};
    alloc.bytesize = 4096;
    cudaGraphNode_t memory, release;
    CHECK(cudaGraphAddMemAllocNode(&memory, first, nullptr, 0, &alloc));
    CHECK(cudaGraphAddMemFreeNode(&release, second, nullptr, 0, alloc.dptr));
    void* told = nullptr;
    CHECK(cudaGraphMemFreeNodeGetParams(release, &told));
    EXPECT(told == alloc.dptr);
    cudaGraphExec_t execs[2];
    CHECK(cudaGraphInstantiate(&execs[0], first, 0));
    CHECK(cudaGraphInstantiate(&execs[1], second, 0));
    for (int round = 0; round < 3; ++round) {
        CHECK(cudaGraphLaunch(execs[0], stream));
        CHECK(cudaMemsetAsync(alloc.dptr, round, 4096, stream));
        CHECK(cudaGraphLaunch(execs[1], stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(graph_bytes(cudaGraphMemAttrUsedMemCurrent) >= 4096u);
    for (cudaGraphExec_t exec : execs) CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(first));
    CHECK(cudaGraphDestroy(second));
    CHECK(cudaStreamDestroy(stream));
}

// What a launch has allocated outlives the graph, until the program frees it, as PyTorch does with the results of a graph.
static void outlives_its_graph() {
    const int n = 3000;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    const uint64_t before = graph_bytes(cudaGraphMemAttrReservedMemCurrent);
    for (int round = 0; round < 3; ++round) {
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        int* result = nullptr;
        CHECK(cudaMallocAsync(&result, n * sizeof(int), stream));
        fill<<<(n + 255) / 256, 256, 0, stream>>>(result, n, round);
        cudaGraph_t graph;
        CHECK(cudaStreamEndCapture(stream, &graph));
        cudaGraphExec_t exec;
        CHECK(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaGraphExecDestroy(exec));
        EXPECT(graph_bytes(cudaGraphMemAttrUsedMemCurrent) >= n * sizeof(int));
        std::vector<int> host(n);
        CHECK(cudaMemcpyAsync(host.data(), result, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], round + i);
        if (round == 1)
            CHECK(cudaFree(result));
        else
            CHECK(cudaFreeAsync(result, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT(graph_bytes(cudaGraphMemAttrUsedMemCurrent) >= n * sizeof(int));  // until it is trimmed
    }
    CHECK(cudaDeviceGraphMemTrim(0));
    EXPECT(graph_bytes(cudaGraphMemAttrReservedMemCurrent) <= before);
    CHECK(cudaStreamDestroy(stream));
}

static cudaGraphNode_t add_kernel(cudaGraph_t graph, cudaGraphNode_t* after, void* function, void** arguments) {
    cudaKernelNodeParams params = {};
    params.func = function;
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after, after ? 1 : 0, &params));
    return node;
}

// A loop of which the body says when it ends, with a source in host memory; then a branch of two.
static void conditional() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> counter(1), turns(1), branch(1);
    CHECK(cudaMemset(turns.data(), 0, sizeof(int)));
    int start = 7;
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle handle;
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    cudaGraphNode_t begin, loop;
    CHECK(cudaGraphAddMemcpyNode1D(&begin, graph, nullptr, 0, counter.data(), &start, sizeof start, cudaMemcpyHostToDevice));
    cudaGraphNodeParams params = {cudaGraphNodeTypeConditional};
    params.conditional.handle = handle;
    params.conditional.type = cudaGraphCondTypeWhile;
    params.conditional.size = 1;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&loop, graph, &begin, nullptr, 1, &params));
#else
    CHECK(cudaGraphAddNode(&loop, graph, &begin, 1, &params));
#endif
    int *counter_at = counter.data(), *turns_at = turns.data();
    void* arguments[] = {&counter_at, &turns_at, &handle};
    add_kernel(params.conditional.phGraph_out[0], nullptr, reinterpret_cast<void*>(count_down), arguments);
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(loop, &type));
    EXPECT(type == cudaGraphNodeTypeConditional);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(turns.download()[0], 7);
    start = 3;
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(turns.download()[0], 10);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));

    DeviceArray<int> result(1);
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 0, 0));
    int* branch_at = branch.data();
    void* chosen[] = {&handle, &branch_at};
    cudaGraphNode_t decide = add_kernel(graph, nullptr, reinterpret_cast<void*>(choose), chosen);
    params = {cudaGraphNodeTypeConditional};
    params.conditional.handle = handle;
    params.conditional.type = cudaGraphCondTypeIf;
    params.conditional.size = 1;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&loop, graph, &decide, nullptr, 1, &params));
#else
    CHECK(cudaGraphAddNode(&loop, graph, &decide, 1, &params));
#endif
    CHECK(cudaStreamBeginCaptureToGraph(stream, params.conditional.phGraph_out[0], nullptr, nullptr, 0,
                                        cudaStreamCaptureModeRelaxed));
    fill<<<1, 1, 0, stream>>>(result.data(), 1, 99);
    CHECK(cudaStreamEndCapture(stream, nullptr));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int value : {0, 1}) {
        CHECK(cudaMemset(result.data(), 0, sizeof(int)));
        CHECK(cudaMemcpy(branch.data(), &value, sizeof value, cudaMemcpyHostToDevice));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT_EQ(result.download()[0], value == 1 ? 99 : 0);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

// A launch goes on with its memory when the graph and the executable one are gone.
static void destroyed_in_flight() {
    const int n = 300000, rounds = 20;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    DeviceArray<int> out(n);
    CHECK(cudaMemset(out.data(), 0, n * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < rounds; ++i) {
        int* scratch = nullptr;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaMallocAsync(&scratch, n * sizeof(int), stream));
        fill<<<(n + 255) / 256, 256, 0, stream>>>(scratch, n, i);
        accumulate<<<(n + 255) / 256, 256, 0, stream>>>(out.data(), scratch, n);
        CHECK(cudaFreeAsync(scratch, stream));
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaGraphExecDestroy(exec));
    }
    CHECK(cudaStreamSynchronize(stream));
    const auto host = out.download();
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], rounds * i + rounds * (rounds - 1) / 2);
    CHECK(cudaStreamDestroy(stream));
}

// Memory of a graph may have the addresses of graphs that are gone, and is as large as it is.
static void addresses_of_before() {
    constexpr size_t k_piece = 512 << 10, k_pieces = 16;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (size_t count : {k_pieces, size_t(1), k_pieces, size_t(1)}) {
        const size_t bytes = k_piece * k_pieces / count;
        char* memory[k_pieces];
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (size_t i = 0; i < count; ++i) CHECK(cudaMallocAsync(&memory[i], bytes, stream));
        for (size_t i = 0; i < count; ++i) {
            for (size_t at = 0; at < bytes; at += k_piece) CHECK(cudaMemsetAsync(memory[i] + at, 1, bytes - at, stream));
        }
        for (size_t i = 0; i < count; ++i) CHECK(cudaFreeAsync(memory[i], stream));
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaDeviceGraphMemTrim(0));
    }
    CHECK(cudaStreamDestroy(stream));
}

// What is not there cannot be freed, and the call says so; what a launch has left can, by its address.
static void freed_by_address() {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (bool relaunch : {false, true}) {
        int* memory = nullptr;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaMallocAsync(&memory, 4096, stream));
        CHECK(cudaMemsetAsync(memory, 1, 4096, stream));
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, relaunch ? cudaGraphInstantiateFlagAutoFreeOnLaunch : 0));
        EXPECT_EQ(cudaFreeAsync(memory, stream), cudaErrorInvalidValue);
        EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
        for (int i = 0; i <= relaunch; ++i) CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        int word = 0;
        CHECK(cudaMemcpyAsync(&word, memory, sizeof word, cudaMemcpyDefault, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT_EQ(word, 0x01010101);
        CHECK(cudaFreeAsync(memory, stream));
        EXPECT_EQ(cudaFreeAsync(memory, stream), cudaErrorInvalidValue);
        EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
        CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaStreamDestroy(stream));
}

int main() {
    captured();
    allocated_by_hand(false);
    allocated_by_hand(true);
    freed_by_another();
    outlives_its_graph();
    conditional();
    destroyed_in_flight();
    addresses_of_before();
    freed_by_address();
    return passed("graph memory");
}
