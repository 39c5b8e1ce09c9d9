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
    EXPECT(access_of(pool, 1) == cudaMemAccessFlagsProtNone);
    EXPECT(give(pool, 0, cudaMemAccessFlagsProtNone) != cudaSuccess);
    (void)cudaGetLastError();
    CHECK(cudaStreamDestroy(first));
    return passed("pools of two devices");
}
