// Graphs without end: numbers of nodes, and of launches, are used again.
#include "driver_calls.h"

__global__ void add(int* data, int value) { *data += value; }

// More nodes than there can be at a time.
static void nodes() {
    for (int round = 0; round < 2200; ++round) {
        CUgraph graph;
        DRIVER(cuGraphCreate(&graph, 0));
        CUgraphNode last = nullptr;
        for (int i = 0; i < 1000; ++i) DRIVER(cuGraphAddEmptyNode(&last, graph, nullptr, 0));
        DRIVER(cuGraphDestroy(graph));
    }
}

// More launches, with a copy to the host, than there can be under way at a time.
static void launches() {
    DeviceArray<int> data(1);
    CHECK(cudaMemset(data.data(), 0, sizeof(int)));
    int host = 0, *at = data.data(), value = 1;
    void* arguments[] = {&at, &value};
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaKernelNodeParams params{};
    params.func = reinterpret_cast<void*>(add);
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = arguments;
    cudaGraphNode_t kernel, copy;
    CHECK(cudaGraphAddKernelNode(&kernel, graph, nullptr, 0, &params));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &kernel, 1, &host, at, sizeof host, cudaMemcpyDeviceToHost));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    const int count = 135000;
    for (int i = 1; i <= count; ++i) {
        CHECK(cudaGraphLaunch(exec, nullptr));
        if (i % 1000 == 0) CHECK(cudaDeviceSynchronize());
    }
    EXPECT_EQ(host, count);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

int main() {
    CHECK(cudaFree(nullptr));
    nodes();
    launches();
    return passed("graphs without end");
}
