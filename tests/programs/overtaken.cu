// One thread launches more kernels or graphs than a driver queues, or makes more copies, behind a kernel that waits for what another thread
// does later. On a driver with a short queue the first thread's launches wait; nothing of the other thread's may wait for them.
//   overtaken launches|copies|graphs, and through a server: events
#include <atomic>
#include <cstring>
#include <thread>

#include "check.h"

__global__ void wait_for(volatile int* flag) {
    while (*flag == 0) {
    }
}
__global__ void count(int* counter) { *counter += 1; }
__global__ void twice(int* data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] *= 2;
}

constexpr int k_launches = 300;
constexpr int k_queued = 20;  // fewer than the test's driver queues

static std::atomic<int> launched{0};
static int* counted;  // page-locked: a copy to other memory would wait in its call, and hold up the other thread's until it ends

static void launch_many(cudaStream_t stream, int* flag, int* counter) {
    wait_for<<<1, 1, 0, stream>>>(flag);
    CHECK(cudaGetLastError());
    for (int i = 0; i < k_launches; ++i) {
        count<<<1, 1, 0, stream>>>(counter);
        CHECK(cudaGetLastError());
        launched.fetch_add(1);
    }
    CHECK(cudaMemcpyAsync(counted, counter, sizeof *counted, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(*counted, k_launches);
}

static void launch_graphs(cudaStream_t stream, int* flag, int* counter) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    count<<<1, 1, 0, stream>>>(counter);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphUpload(exec, stream));
    wait_for<<<1, 1, 0, stream>>>(flag);
    CHECK(cudaGetLastError());
    for (int i = 0; i < k_launches; ++i) {
        CHECK(cudaGraphLaunch(exec, stream));
        launched.fetch_add(1);
    }
    CHECK(cudaMemcpyAsync(counted, counter, sizeof *counted, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(*counted, k_launches);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

// An event that a launch records, behind more launches than a driver queues: who waits for it comes behind them all.
static void launch_with_event(cudaStream_t stream, int* flag, int* counter) {
    constexpr int k_more_than_queued = 1100;
    cudaStream_t behind;
    cudaEvent_t event;
    CHECK(cudaStreamCreateWithFlags(&behind, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    wait_for<<<1, 1, 0, stream>>>(flag);
    CHECK(cudaGetLastError());
    for (int i = 0; i < k_more_than_queued; ++i) {
        count<<<1, 1, 0, stream>>>(counter);
        launched.fetch_add(1);
    }
    CHECK(cudaGetLastError());
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticEvent;
    attribute.val.programmaticEvent.event = event;
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = dim3(1);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, count, counter));
    CHECK(cudaStreamWaitEvent(behind, event, 0));
    CHECK(cudaMemcpyAsync(counted, counter, sizeof *counted, cudaMemcpyDeviceToHost, behind));
    CHECK(cudaStreamSynchronize(behind));
    EXPECT(*counted >= k_more_than_queued);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(behind));
}

// Copies of all directions, small and staged ones. Each adds nothing to what the device has; the order shows in the last.
static void copy_many(cudaStream_t stream, int* flag, int* counter) {
    constexpr size_t k_bytes = 100000, k_words = k_bytes / sizeof(int);
    int *device[2], *host;
    CHECK(cudaMalloc(&device[0], k_bytes));
    CHECK(cudaMalloc(&device[1], k_bytes));
    CHECK(cudaMallocHost(&host, 2 * k_bytes));
    for (size_t i = 0; i < k_words; ++i) host[i] = static_cast<int>(i * 7);
    wait_for<<<1, 1, 0, stream>>>(flag);
    CHECK(cudaGetLastError());
    for (int i = 0; i < k_launches / 6; ++i) {
        CHECK(cudaMemcpyAsync(device[0], host, k_bytes, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpyAsync(device[1], device[0], k_bytes, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaMemcpyAsync(host + k_words, device[1], k_bytes, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaMemcpyAsync(device[1] + 1, host, 64, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpy2DAsync(device[1], 256, device[0], 256, 128, 10, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaMemcpy2DAsync(device[0], 256, host, 256, 128, 10, cudaMemcpyHostToDevice, stream));
        launched.fetch_add(6);
    }
    count<<<1, 1, 0, stream>>>(counter);
    CHECK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < k_words; ++i) EXPECT_EQ(host[k_words + i], host[i]);
    CHECK(cudaFreeHost(host));
}

// What does not depend on the other stream goes on: memory, events, kernels, answers.
static void work_beside(cudaStream_t stream) {
    const int n = 1000;
    int* data;
    CHECK(cudaMalloc(&data, n * sizeof(int)));
    std::vector<int> host(n);
    for (int i = 0; i < n; ++i) host[i] = i;
    CHECK(cudaMemcpyAsync(data, host.data(), n * sizeof(int), cudaMemcpyHostToDevice, stream));
    cudaEvent_t done;
    CHECK(cudaEventCreate(&done));
    for (int round = 0; round < 5; ++round) twice<<<(n + 127) / 128, 128, 0, stream>>>(data, n);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(done, stream));
    CHECK(cudaEventSynchronize(done));
    CHECK(cudaMemcpyAsync(host.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], i * 32);
    CHECK(cudaEventDestroy(done));
}

int main(int, char** arguments) {
    auto* fill = &launch_many;
    if (std::strcmp(arguments[1], "copies") == 0) fill = &copy_many;
    if (std::strcmp(arguments[1], "graphs") == 0) fill = &launch_graphs;
    if (std::strcmp(arguments[1], "events") == 0) fill = &launch_with_event;
    int *flag, *counter;
    CHECK(cudaMalloc(&flag, sizeof(int)));
    CHECK(cudaMalloc(&counter, sizeof(int)));
    CHECK(cudaMallocHost(&counted, sizeof(int)));
    CHECK(cudaMemset(flag, 0, sizeof(int)));
    CHECK(cudaMemset(counter, 0, sizeof(int)));
    cudaStream_t first, second;
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaStreamCreate(&second));
    // Where kernels are loaded lazily, a first launch waits for the device: none of them may be the first behind wait_for.
    const int one = 1;
    CHECK(cudaMemcpy(flag, &one, sizeof one, cudaMemcpyHostToDevice));
    wait_for<<<1, 1>>>(flag);
    count<<<1, 1>>>(counter);
    twice<<<1, 1>>>(counter, 0);
    CHECK(cudaMemset(flag, 0, sizeof(int)));
    CHECK(cudaMemset(counter, 0, sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    std::thread launcher(fill, first, flag, counter);
    while (launched.load() < k_queued) std::this_thread::yield();
    work_beside(second);
    CHECK(cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, second));
    CHECK(cudaStreamSynchronize(second));
    launcher.join();
    CHECK(cudaDeviceSynchronize());
    std::printf("launches beyond the queue: verified\n");
    return 0;
}
