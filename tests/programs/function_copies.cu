// Copies from page-locked memory while functions of the program are pending: they bring what a function has written that they
// come behind, and wait for no other (A7).
#include <time.h>

#include <atomic>

#include "driver_calls.h"

__global__ void nothing() {}

static std::atomic<bool> g_go{false};

// Of a stream, or apart from it.
struct Scene {
    Scene() {
        CHECK(cudaMallocHost(&host, sizeof *host));
        CHECK(cudaMalloc(&device, sizeof *device));
        for (cudaStream_t* stream : {&calls, &copies}) CHECK(cudaStreamCreate(stream));
        CHECK(cudaEventCreate(&event));
        *host = 1;
        CHECK(cudaMemcpyAsync(device, host, sizeof *host, cudaMemcpyHostToDevice, copies));
        CHECK(cudaDeviceSynchronize());
    }
    ~Scene() {
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaEventDestroy(event));
        for (cudaStream_t stream : {calls, copies}) CHECK(cudaStreamDestroy(stream));
        CHECK(cudaFree(device));
        CHECK(cudaFreeHost(host));
    }
    // A function that takes its time, and writes.
    void call(cudaStream_t stream) {
        const auto write = [](void* to) {
            const timespec a_while{0, 20000000};
            nanosleep(&a_while, nullptr);
            *static_cast<int*>(to) = 7;
        };
        CHECK(cudaLaunchHostFunc(stream, write, host));
    }
    void copy(cudaStream_t stream) { CHECK(cudaMemcpyAsync(device, host, sizeof *host, cudaMemcpyHostToDevice, stream)); }
    int found(cudaStream_t stream) {
        int value = 0;
        CHECK(cudaMemcpyAsync(&value, device, sizeof value, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        return value;
    }

    int* host = nullptr;
    int* device = nullptr;
    cudaStream_t calls = nullptr, copies = nullptr;
    cudaEvent_t event = nullptr;
};

// The function returns when the copy is known to be done.
static void apart() {
    Scene scene;
    g_go = false;
    const auto wait = [](void*) { g_go.wait(false); };
    CHECK(cudaLaunchHostFunc(scene.calls, wait, nullptr));
    for (int i = 2; i < 5; ++i) {
        *scene.host = i;
        scene.copy(scene.copies);
        EXPECT_EQ(scene.found(scene.copies), i);
    }
    g_go = true;
    g_go.notify_all();
}

static void behind() {
    {
        Scene same;
        same.call(same.calls);
        same.copy(same.calls);
        EXPECT_EQ(same.found(same.calls), 7);
    }
    {
        Scene by_event;
        by_event.call(by_event.calls);
        CHECK(cudaEventRecord(by_event.event, by_event.calls));
        CHECK(cudaStreamWaitEvent(by_event.copies, by_event.event, 0));
        by_event.copy(by_event.copies);
        EXPECT_EQ(by_event.found(by_event.copies), 7);
    }
    {
        Scene by_default_stream;
        by_default_stream.call(by_default_stream.calls);
        nothing<<<1, 1>>>();
        by_default_stream.copy(by_default_stream.copies);
        EXPECT_EQ(by_default_stream.found(by_default_stream.copies), 7);
    }
    {
        Scene by_value;
        unsigned* word = nullptr;
        CHECK(cudaMalloc(&word, sizeof *word));
        CHECK(cudaMemset(word, 0, sizeof *word));
        CHECK(cudaDeviceSynchronize());
        const auto address = reinterpret_cast<CUdeviceptr>(word);
        by_value.call(by_value.calls);
        DRIVER(cuStreamWriteValue32(by_value.calls, address, 1, 0));
        DRIVER(cuStreamWaitValue32(by_value.copies, address, 1, CU_STREAM_WAIT_VALUE_EQ));
        by_value.copy(by_value.copies);
        EXPECT_EQ(by_value.found(by_value.copies), 7);
        CHECK(cudaFree(word));
    }
    {
        Scene by_graph;
        cudaGraph_t graph;
        cudaGraphNode_t node;
        cudaGraphExec_t exec;
        CHECK(cudaGraphCreate(&graph, 0));
        CHECK(cudaGraphAddEventWaitNode(&node, graph, nullptr, 0, by_graph.event));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        by_graph.call(by_graph.calls);
        CHECK(cudaEventRecord(by_graph.event, by_graph.calls));
        CHECK(cudaGraphLaunch(exec, by_graph.copies));
        by_graph.copy(by_graph.copies);
        EXPECT_EQ(by_graph.found(by_graph.copies), 7);
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }
}

int main() {
    apart();
    behind();
    return passed("copies beside functions");
}
