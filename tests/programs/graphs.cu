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

static cudaGraphNodeParams fill(int* to, int value, int count) {
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeMemset;
    params.memset.dst = to;
    params.memset.value = value;
    params.memset.elementSize = 4;
    params.memset.width = count;
    params.memset.height = 1;
    return params;
}

// One call for nodes of all types, on a graph and on an executable one.
static void parameters_by_type() {
    const int n = 64;
    DeviceArray<int> a(n), b(n);
    cudaEvent_t first, second;
    CHECK(cudaEventCreate(&first));
    CHECK(cudaEventCreate(&second));
    cudaGraph_t child, graph;
    CHECK(cudaGraphCreate(&child, 0));
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t inner, clear, nested, record, wait;
    cudaGraphNodeParams in_child = fill(b.data(), 1, n), in_graph = fill(a.data(), 2, n);
    CHECK(cudaGraphAddNode(&inner, child, nullptr, nullptr, 0, &in_child));
    CHECK(cudaGraphAddNode(&clear, graph, nullptr, nullptr, 0, &in_graph));
    cudaGraphNodeParams whole = {}, recorded = {}, awaited = {};
    whole.type = cudaGraphNodeTypeGraph;
    whole.graph.graph = child;
    CHECK(cudaGraphAddNode(&nested, graph, &clear, nullptr, 1, &whole));
    recorded.type = cudaGraphNodeTypeEventRecord;
    recorded.eventRecord.event = first;
    CHECK(cudaGraphAddNode(&record, graph, &nested, nullptr, 1, &recorded));
    awaited.type = cudaGraphNodeTypeWaitEvent;
    awaited.eventWait.event = first;
    CHECK(cudaGraphAddNode(&wait, graph, &record, nullptr, 1, &awaited));
    const auto expect = [&](cudaGraphExec_t exec, int in_a, int in_b, cudaEvent_t told) {
        CHECK(cudaGraphLaunch(exec, 0));
        CHECK(cudaEventSynchronize(told));
        CHECK(cudaDeviceSynchronize());
        const auto got_a = a.download(), got_b = b.download();
        for (int i = 0; i < n; ++i) EXPECT(got_a[i] == in_a && got_b[i] == in_b);
    };

    in_graph = fill(a.data(), 3, n);
    CHECK(cudaGraphNodeSetParams(clear, &in_graph));
    recorded.eventRecord.event = awaited.eventWait.event = second;
    CHECK(cudaGraphNodeSetParams(record, &recorded));
    CHECK(cudaGraphNodeSetParams(wait, &awaited));
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(record, &type));
    EXPECT(type == cudaGraphNodeTypeEventRecord);
    cudaEvent_t now;
    CHECK(cudaGraphEventRecordNodeGetEvent(record, &now));
    EXPECT(now == second);
    CHECK(cudaGraphEventWaitNodeGetEvent(wait, &now));
    EXPECT(now == second);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    expect(exec, 3, 1, second);

    in_graph = fill(a.data(), 4, n);
    CHECK(cudaGraphExecNodeSetParams(exec, clear, &in_graph));
    in_child = fill(b.data(), 5, n);
    CHECK(cudaGraphNodeSetParams(inner, &in_child));
    CHECK(cudaGraphExecNodeSetParams(exec, nested, &whole));
    recorded.eventRecord.event = awaited.eventWait.event = first;
    CHECK(cudaGraphExecNodeSetParams(exec, record, &recorded));
    CHECK(cudaGraphExecNodeSetParams(exec, wait, &awaited));
    expect(exec, 4, 5, first);
    CHECK(cudaEventQuery(first));
    float between = -1;
    CHECK(cudaEventElapsedTime(&between, second, first));  // it has been recorded after the other one
    EXPECT(between >= 0);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(child));
    CHECK(cudaEventDestroy(first));
    CHECK(cudaEventDestroy(second));
}

int main() {
    captured();
    explicit_nodes();
    parameters_by_type();
    return passed("graphs");
}
