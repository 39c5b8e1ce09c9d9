// Stream-ordered allocation.
#include "check.h"

__global__ void fill(int* data, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = value + i;
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
    CHECK(cudaStreamDestroy(stream));
    return passed("pools");
}
