// Graphs: captured from two streams, built by hand, launched often, updated.
#include "check.h"

__global__ void add(int* data, int value) { data[threadIdx.x] += value; }
__global__ void multiply(int* data, int value) { data[threadIdx.x] *= value; }
__global__ void sum(int* out, const int* a, const int* b) { out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x]; }

static void captured() {
    const int n = 64;
    DeviceArray<int> a(n), b(n), out(n);
    cudaStream_t first, second;
    cudaEvent_t fork, join;
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaStreamCreate(&second));
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&join));
    CHECK(cudaMemset(a.data(), 0, n * sizeof(int)));
    CHECK(cudaMemset(b.data(), 0, n * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    add<<<1, n, 0, first>>>(a.data(), 1);
    CHECK(cudaEventRecord(fork, first));
    CHECK(cudaStreamWaitEvent(second, fork, 0));
    add<<<1, n, 0, second>>>(b.data(), 10);
    multiply<<<1, n, 0, first>>>(a.data(), 2);
    CHECK(cudaEventRecord(join, second));
    CHECK(cudaStreamWaitEvent(first, join, 0));
    sum<<<1, n, 0, first>>>(out.data(), a.data(), b.data());
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(first, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(first, &graph));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 4u);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    int expected_a = 0, expected_b = 0;
    for (int round = 0; round < 5; ++round) {
        CHECK(cudaGraphLaunch(exec, first));
        expected_a = (expected_a + 1) * 2, expected_b += 10;
    }
    CHECK(cudaStreamSynchronize(first));
    auto host = out.download();
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], expected_a + expected_b);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
}

static void explicit_nodes() {
    const int n = 32;
    DeviceArray<int> a(n), b(n);
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t clear, kernel, copy;
    cudaMemsetParams memset_params = {};
    memset_params.dst = a.data();
    memset_params.value = 5;
    memset_params.elementSize = 4;
    memset_params.width = n;
    memset_params.height = 1;
    CHECK(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &memset_params));
    int* pointer = a.data();
    int value = 3;
    void* arguments[] = {&pointer, &value};
    cudaKernelNodeParams kernel_params = {};
    kernel_params.func = reinterpret_cast<void*>(multiply);
    kernel_params.gridDim = dim3(1);
    kernel_params.blockDim = dim3(n);
    kernel_params.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&kernel, graph, &clear, 1, &kernel_params));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &kernel, 1, b.data(), a.data(), n * sizeof(int), cudaMemcpyDeviceToDevice));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    auto host = b.download();
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], 15);
    value = 7;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, kernel, &kernel_params));
    CHECK(cudaGraphLaunch(exec, 0));
    CHECK(cudaDeviceSynchronize());
    host = b.download();
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], 35);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

int main() {
    captured();
    explicit_nodes();
    return passed("graphs");
}
