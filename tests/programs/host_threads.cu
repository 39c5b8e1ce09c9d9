// Eight host threads on one context: own streams, own memory, own kernels, shared default stream at the end.
#include <atomic>
#include <thread>

#include "check.h"

__global__ void mix(unsigned* data, int n, unsigned key) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = data[i] * 1664525u + key;
}
__global__ void increment(int* counter) { atomicAdd(counter, 1); }

static void work(int thread, std::atomic<int>* finished, int* counter) {
    const int n = 5000 + thread;
    CHECK(cudaSetDevice(0));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    std::vector<unsigned> host(n), result(n);
    for (int i = 0; i < n; ++i) host[i] = static_cast<unsigned>(i + thread);
    for (int round = 0; round < 10; ++round) {
        unsigned* device;
        CHECK(cudaMalloc(&device, n * sizeof(unsigned)));
        CHECK(cudaMemcpyAsync(device, host.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice, stream));
        for (unsigned k = 0; k < 5; ++k)
            mix<<<(n + 127) / 128, 128, 0, stream>>>(device, n, k * 77u + static_cast<unsigned>(thread));
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(result.data(), device, n * sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; ++i) {
            unsigned expected = host[i];
            for (unsigned k = 0; k < 5; ++k) expected = expected * 1664525u + k * 77u + static_cast<unsigned>(thread);
            EXPECT_EQ(result[i], expected);
        }
        CHECK(cudaFree(device));
        increment<<<1, 1>>>(counter);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaStreamDestroy(stream));
    finished->fetch_add(1);
}

int main() {
    DeviceArray<int> counter(std::vector<int>{0});
    std::atomic<int> finished{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) threads.emplace_back(work, t, &finished, counter.data());
    for (auto& t : threads) t.join();
    EXPECT_EQ(finished.load(), 8);
    CHECK(cudaDeviceSynchronize());  // with a default stream per thread, the copy below waits for none of theirs
    EXPECT_EQ(counter.download()[0], 80);
    return passed("eight host threads");
}
