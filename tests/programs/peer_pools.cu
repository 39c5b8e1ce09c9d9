// Pools whose memory other devices may use. With one device there is nothing to share.
#include "check.h"

__global__ void add(int* data, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += value;
}

static cudaMemAccessFlags access_of(cudaMemPool_t pool, int device) {
    cudaMemLocation location = {cudaMemLocationTypeDevice, device};
    cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
    CHECK(cudaMemPoolGetAccess(&flags, pool, &location));
    return flags;
}

static cudaError_t give(cudaMemPool_t pool, int device, cudaMemAccessFlags flags) {
    cudaMemAccessDesc wanted = {};
    wanted.location = {cudaMemLocationTypeDevice, device};
    wanted.flags = flags;
    return cudaMemPoolSetAccess(pool, &wanted, 1);
}

// Memory of a pool is of the pool's device, and cudaMallocAsync's of the stream's, whichever device is current.
static void of_another_device() {
    const int n = 1000;
    cudaMemPool_t pool;
    cudaStream_t stream;
    int *from_pool = nullptr, *of_stream = nullptr;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 1));
    CHECK(cudaSetDevice(1));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaSetDevice(0));
    CHECK(cudaMallocFromPoolAsync(&from_pool, n * sizeof(int), pool, stream));
    CHECK(cudaMallocAsync(&of_stream, n * sizeof(int), stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int* data : {from_pool, of_stream}) {
        cudaPointerAttributes told{};
        CHECK(cudaPointerGetAttributes(&told, data));
        EXPECT_EQ(told.device, 1);
    }
    CHECK(cudaSetDevice(1));  // its kernels reach its own memory only
    for (int* data : {from_pool, of_stream}) {
        CHECK(cudaMemsetAsync(data, 0, n * sizeof(int), stream));
        add<<<4, 256, 0, stream>>>(data, n, 5);
        std::vector<int> host(n);
        CHECK(cudaMemcpyAsync(host.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], 5);
        CHECK(cudaFreeAsync(data, stream));
    }
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaSetDevice(0));
}

// A captured allocation has its pool's access and device, and so has a node that was added by hand.
static void captured(cudaMemPool_t pool, cudaStream_t first, cudaStream_t second, bool by_hand) {
    const int n = 2000;
    int* data = nullptr;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaSetDevice(0));
    if (by_hand) {
        cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
        cudaMemAllocNodeParams alloc = {};
        alloc.poolProps.allocType = cudaMemAllocationTypePinned;
        alloc.poolProps.location = {cudaMemLocationTypeDevice, 0};
        alloc.accessDescs = &access;
        alloc.accessDescCount = 1;
        alloc.bytesize = n * sizeof(int);
        cudaGraphNode_t made, filled;
        CHECK(cudaGraphCreate(&graph, 0));
        CHECK(cudaGraphAddMemAllocNode(&made, graph, nullptr, 0, &alloc));
        data = static_cast<int*>(alloc.dptr);
        cudaMemsetParams fill = {data, 0, 0, 4, size_t{n}, 1};
        CHECK(cudaGraphAddMemsetNode(&filled, graph, &made, 1, &fill));
    } else {
        CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaMallocFromPoolAsync(&data, n * sizeof(int), pool, first));
        CHECK(cudaMemsetAsync(data, 0, n * sizeof(int), first));
        add<<<(n + 255) / 256, 256, 0, first>>>(data, n, 0);
        CHECK(cudaStreamEndCapture(first, &graph));
        size_t count = 0;
        CHECK(cudaGraphGetNodes(graph, nullptr, &count));
        EXPECT_EQ(count, size_t{3});
    }
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, first));
    CHECK(cudaStreamSynchronize(first));
    CHECK(cudaSetDevice(1));
    add<<<(n + 255) / 256, 256, 0, second>>>(data, n, 4);
    CHECK(cudaStreamSynchronize(second));
    CHECK(cudaSetDevice(0));
    std::vector<int> host(n);
    CHECK(cudaMemcpyAsync(host.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost, first));
    CHECK(cudaFreeAsync(data, first));
    CHECK(cudaStreamSynchronize(first));
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], 4);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

// A pool of another device than the capturing stream's, and one with a largest size.
static void captured_of_other_pools(cudaStream_t first) {
    for (const bool other_device : {true, false}) {
        const int n = 1000, device = other_device ? 1 : 0;
        cudaMemPoolProps properties = {};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location = {cudaMemLocationTypeDevice, device};
        properties.maxSize = other_device ? 0 : size_t{64} << 20;
        cudaMemPool_t pool;
        CHECK(cudaMemPoolCreate(&pool, &properties));
        if (other_device) CHECK(give(pool, 0, cudaMemAccessFlagsProtReadWrite));
        int* data = nullptr;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        cudaGraphNode_t nodes[3];
        size_t count = 3;
        CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaMallocFromPoolAsync(&data, n * sizeof(int), pool, first));
        CHECK(cudaMemsetAsync(data, 0, n * sizeof(int), first));
        CHECK(cudaStreamEndCapture(first, &graph));
        CHECK(cudaGraphGetNodes(graph, nodes, &count));
        EXPECT_EQ(count, size_t{2});
        cudaMemAllocNodeParams told = {};
        CHECK(cudaGraphMemAllocNodeGetParams(nodes[0], &told));
        EXPECT_EQ(told.poolProps.location.id, device);
        EXPECT(told.dptr == data && told.bytesize == n * sizeof(int));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphLaunch(exec, first));
        add<<<(n + 255) / 256, 256, 0, first>>>(data, n, 9);
        std::vector<int> host(n);
        CHECK(cudaMemcpyAsync(host.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost, first));
        CHECK(cudaFreeAsync(data, first));
        CHECK(cudaStreamSynchronize(first));
        for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], 9);
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaMemPoolDestroy(pool));
    }
}

int main() {
    const int n = 5000;
    cudaMemPool_t pool;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    EXPECT(access_of(pool, 0) == cudaMemAccessFlagsProtReadWrite);
    CHECK(give(pool, 0, cudaMemAccessFlagsProtReadWrite));
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) return passed("pools of one device");
    EXPECT(access_of(pool, 1) == cudaMemAccessFlagsProtNone);
    CHECK(give(pool, 1, cudaMemAccessFlagsProtReadWrite));
    EXPECT(access_of(pool, 1) == cudaMemAccessFlagsProtReadWrite);
    cudaStream_t first, second;
    cudaEvent_t ready;
    int* data = nullptr;
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaEventCreate(&ready));
    CHECK(cudaMallocAsync(&data, n * sizeof(int), first));
    CHECK(cudaMemsetAsync(data, 0, n * sizeof(int), first));
    CHECK(cudaEventRecord(ready, first));
    CHECK(cudaSetDevice(1));
    CHECK(cudaStreamCreate(&second));
    CHECK(cudaStreamWaitEvent(second, ready, 0));
    add<<<(n + 255) / 256, 256, 0, second>>>(data, n, 11);
    CHECK(cudaStreamSynchronize(second));
    // Access between the contexts comes and goes without the pool's.
    CHECK(cudaDeviceEnablePeerAccess(0, 0));
    CHECK(cudaDeviceDisablePeerAccess(0));
    add<<<(n + 255) / 256, 256, 0, second>>>(data, n, 22);
    CHECK(cudaStreamSynchronize(second));
    for (const bool by_hand : {false, true}) captured(pool, first, second, by_hand);
    CHECK(cudaSetDevice(1));
    CHECK(cudaStreamDestroy(second));
    CHECK(cudaSetDevice(0));
    captured_of_other_pools(first);
    std::vector<int> host(n);
    CHECK(cudaMemcpyAsync(host.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost, first));
    CHECK(cudaStreamSynchronize(first));
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], 33);
    CHECK(cudaFreeAsync(data, first));
    CHECK(give(pool, 1, cudaMemAccessFlagsProtNone));
    // All of a list is checked before any of it is done.
    cudaMemAccessDesc both[2] = {};
    both[0].location = {cudaMemLocationTypeDevice, 1};
    both[0].flags = cudaMemAccessFlagsProtReadWrite;
    both[1].location = {cudaMemLocationTypeDevice, 0};
    both[1].flags = cudaMemAccessFlagsProtNone;
    EXPECT_EQ(cudaMemPoolSetAccess(pool, both, 2), cudaErrorInvalidDevice);
    cudaGetLastError();
    EXPECT(access_of(pool, 1) == cudaMemAccessFlagsProtNone);
    of_another_device();
    EXPECT(access_of(pool, 1) == cudaMemAccessFlagsProtNone);
    EXPECT(give(pool, 0, cudaMemAccessFlagsProtNone) != cudaSuccess);
    (void)cudaGetLastError();
    CHECK(cudaStreamDestroy(first));
    return passed("pools of two devices");
}
