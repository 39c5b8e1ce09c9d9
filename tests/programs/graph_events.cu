// Events that graphs record behind copies to host memory: whoever has waited for one finds there what was copied before it,
// however much of the graph is still to come.
#include "check.h"
#include "driver_calls.h"

__global__ void fill(int* data, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = value + i;
}

// Something that takes its time, behind the event.
__global__ void count(unsigned* to, unsigned steps) {
    unsigned sum = 0;
    for (unsigned i = 0; i < steps; ++i) sum = sum * 1664525u + 1013904223u;
    *to = sum;
}

constexpr int k_count = 5000;
constexpr unsigned k_steps = 400'000;

// A kernel that fills, a copy to the host, an event, and a kernel behind it; or all of that in a child graph.
class Recording {
public:
    Recording(int* host, cudaEvent_t event, bool as_child) {
        cudaGraph_t graph, parent;
        CHECK(cudaGraphCreate(&graph, 0));
        cudaKernelNodeParams first{};
        first.func = reinterpret_cast<void*>(fill);
        first.gridDim = dim3((k_count + 255) / 256);
        first.blockDim = dim3(256);
        first.kernelParams = arguments();
        cudaGraphNode_t filled, copied, counted;
        CHECK(cudaGraphAddKernelNode(&filled, graph, nullptr, 0, &first));
        CHECK(cudaGraphAddMemcpyNode1D(&copied, graph, &filled, 1, host, m_data.data(), k_count * sizeof(int),
                                       cudaMemcpyDeviceToHost));
        CHECK(cudaGraphAddEventRecordNode(&m_record, graph, &copied, 1, event));
        unsigned* to = m_sum.data();
        unsigned steps = k_steps;
        void* counting[] = {&to, &steps};
        cudaKernelNodeParams second{};
        second.func = reinterpret_cast<void*>(count);
        second.gridDim = second.blockDim = dim3(1);
        second.kernelParams = counting;
        CHECK(cudaGraphAddKernelNode(&counted, graph, &m_record, 1, &second));
        if (as_child) {
            cudaGraphNode_t child;
            CHECK(cudaGraphCreate(&parent, 0));
            CHECK(cudaGraphAddChildGraphNode(&child, parent, nullptr, 0, graph));
            CHECK(cudaGraphInstantiate(&m_exec, parent, 0));
            CHECK(cudaGraphDestroy(parent));
        } else {
            CHECK(cudaGraphInstantiate(&m_exec, graph, 0));
        }
        m_graph = graph;
        m_filled = filled;
    }
    ~Recording() {
        CHECK(cudaGraphExecDestroy(m_exec));
        CHECK(cudaGraphDestroy(m_graph));
    }

    void launch(cudaStream_t stream) { CHECK(cudaGraphLaunch(m_exec, stream)); }
    void launch(cudaStream_t stream, int value) {
        m_value = value;
        cudaKernelNodeParams params{};
        params.func = reinterpret_cast<void*>(fill);
        params.gridDim = dim3((k_count + 255) / 256);
        params.blockDim = dim3(256);
        params.kernelParams = arguments();
        CHECK(cudaGraphExecKernelNodeSetParams(m_exec, m_filled, &params));
        launch(stream);
    }
    cudaError_t record(cudaEvent_t event) { return cudaGraphExecEventRecordNodeSetEvent(m_exec, m_record, event); }

private:
    void** arguments() { return m_arguments; }

    DeviceArray<int> m_data{k_count};
    DeviceArray<unsigned> m_sum{1};
    int* m_to = m_data.data();
    int m_n = k_count;
    int m_value = 0;
    void* m_arguments[3] = {&m_to, &m_n, &m_value};
    cudaGraph_t m_graph = nullptr;
    cudaGraphExec_t m_exec = nullptr;
    cudaGraphNode_t m_record = nullptr, m_filled = nullptr;
};

static void expect(std::vector<int>& host, int value) {
    for (int i = 0; i < k_count; ++i) EXPECT_EQ(host[i], value + i);
    std::fill(host.begin(), host.end(), -1);
}

// An event of another context than the stream that the graph is launched in.
static void of_another_context(cudaStream_t stream) {
    std::vector<int> host(k_count, -1);
    CUcontext mine, other;
    CUdevice device;
    cudaEvent_t event;
    DRIVER(cuCtxGetCurrent(&mine));
    DRIVER(cuCtxGetDevice(&device));
#if CUDA_VERSION >= 13000
    CUctxCreateParams params{};
    DRIVER(cuCtxCreate(&other, &params, 0, device));
#else
    DRIVER(cuCtxCreate(&other, 0, device));
#endif
    CHECK(cudaEventCreate(&event));
    DRIVER(cuCtxSetCurrent(mine));
    {
        Recording graph(host.data(), event, false);
        for (int value : {700, 800}) {
            graph.launch(stream, value);
            CHECK(cudaEventSynchronize(event));
            expect(host, value);
        }
        CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaEventDestroy(event));
    DRIVER(cuCtxDestroy(other));
}

int main() {
    cudaStream_t stream, other;
    cudaEvent_t event, another;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventCreateWithFlags(&another, cudaEventDisableTiming));
    std::vector<int> host(k_count, -1);
    {
        Recording graph(host.data(), event, false);
        for (int value : {100, 200, 300}) {
            graph.launch(stream, value);
            CHECK(cudaEventSynchronize(event));
            expect(host, value);
        }
        CHECK(cudaEventQuery(event));
        graph.launch(stream, 500);
        CHECK(cudaStreamWaitEvent(other, event, 0));
        CHECK(cudaStreamSynchronize(other));
        expect(host, 500);
        CHECK(graph.record(another));
        graph.launch(stream, 600);
        CHECK(cudaEventSynchronize(another));
        expect(host, 600);
        // The program's own record is the latest, and what an event was is no matter once it has gone.
        CHECK(cudaEventRecord(another, other));
        CHECK(cudaEventSynchronize(another));
        CHECK(cudaStreamSynchronize(stream));
    }
    {
        Recording graph(host.data(), event, true);
        graph.launch(stream);
        CHECK(cudaEventSynchronize(event));
        expect(host, 0);
        CHECK(cudaStreamSynchronize(stream));
    }
    of_another_context(stream);
    CHECK(cudaEventDestroy(another));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaStreamDestroy(stream));
    std::printf("events of graphs: verified\n");
    return 0;
}
