// Stream-ordered allocation.
#include "check.h"

__global__ void fill(int* data, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = value + i;
}

// Where CUDA has them: with concurrentManagedAccess.
static void managed_pools(cudaStream_t stream) {
    int concurrent = 0;
    CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypeManaged;
    properties.location = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool;
    const cudaError_t made = cudaMemPoolCreate(&pool, &properties);
    if (!concurrent) {
        EXPECT(made == cudaErrorNotSupported);
        cudaGetLastError();
        return;
    }
    CHECK(made);
    const int n = 3000;
    int* data;
    CHECK(cudaMallocFromPoolAsync(&data, n * sizeof(int), pool, stream));
    fill<<<(n + 127) / 128, 128, 0, stream>>>(data, n, 3);
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(data[i], i + 3);
    CHECK(cudaFreeAsync(data, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolDestroy(pool));
}

int main() {
    const int n = 3000;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    std::vector<int> host(n);
    for (int round = 0; round < 5; ++round) {
        int* data;
        CHECK(cudaMallocAsync(&data, n * sizeof(int), stream));
        fill<<<(n + 127) / 128, 128, 0, stream>>>(data, n, round);
        CHECK(cudaMemcpyAsync(host.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(data, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], i + round);
    }
    cudaMemPool_t pool;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    unsigned long long threshold = 1 << 20;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    // One that has a limit: what was freed can be had again.
    cudaMemPoolProps limited{};
    limited.allocType = cudaMemAllocationTypePinned;
    limited.location = {cudaMemLocationTypeDevice, 0};
    limited.maxSize = 8 << 20;
    CHECK(cudaMemPoolCreate(&pool, &limited));
    for (int round = 0; round < 3; ++round) {
        void *most, *more;
        CHECK(cudaMallocFromPoolAsync(&most, 6 << 20, pool, stream));
        EXPECT_EQ(cudaMallocFromPoolAsync(&more, 4 << 20, pool, stream), cudaErrorMemoryAllocation);
        EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
        CHECK(cudaFreeAsync(most, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaMemPoolDestroy(pool));
    managed_pools(stream);
    CHECK(cudaStreamDestroy(stream));
    return passed("pools");
}
