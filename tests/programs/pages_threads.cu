// Threads whose events and waits come between each other's: what one of them is told of, no other one's older pages may hide.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

__global__ void add(int* data, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] += 1;
}

static void steps(std::atomic<int>& wrong) {
    const size_t bytes = 64 << 10;
    int *host, *device;
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaHostAlloc(&host, bytes, cudaHostAllocDefault));
    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    std::memset(host, 0, bytes);
    for (int step = 1; step <= 60; ++step) {
        for (int i = 0; i < 100; ++i) host[i] += step;
        CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
        add<<<1, 64, 0, stream>>>(device, 100);
        add<<<1, 64, 0, stream>>>(host + 200, 50);
        CHECK(cudaMemcpyAsync(host, device, 400, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaEventRecord(event, stream));
        add<<<1, 64, 0, stream>>>(host + 8000, 50);
        if (step % 2 == 0) CHECK(cudaEventSynchronize(event));
        while (cudaEventQuery(event) == cudaErrorNotReady) {
        }
        const bool behind = host[8010] == step - 1 || host[8010] == step;
        wrong += host[7] != step * (step + 1) / 2 + step || host[210] != step || !behind;
    }
    CHECK(cudaStreamSynchronize(stream));
    wrong += host[8010] != 60;
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(device));
}

int main() {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { steps(wrong); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
    return passed("pages of several threads");
}
