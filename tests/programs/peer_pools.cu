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
    CHECK(cudaStreamDestroy(second));
    CHECK(cudaSetDevice(0));
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
