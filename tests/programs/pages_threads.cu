// Threads whose calls come between each other's: what one of them is told of, no other one's older pages may hide.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

__global__ void add(int* data, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] += 1;
}

// Takes a few milliseconds before it does what add() does.
__global__ void add_late(int* data, int n, long long cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] += 1;
}

// Pages that both sides use at any time, with events.
static void events(int, std::atomic<int>& wrong) {
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

// Pieces of managed memory that lie side by side, come and go. Each cudaFree finds the device at rest, while another thread is
// about to give it something.
static void kernels(int thread, std::atomic<int>& wrong) {
    constexpr int k_n = 20000;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int round = 0; round < 20; ++round) {
        int* data;
        CHECK(cudaMallocManaged(&data, k_n * sizeof(int)));
        for (int i = 0; i < k_n; ++i) data[i] = thread * 1000 + round;
        add_late<<<1, 32, 0, stream>>>(data, k_n, 2000000);
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < k_n; ++i) wrong += data[i] != thread * 1000 + round + 1;
        CHECK(cudaFree(data));
    }
    CHECK(cudaStreamDestroy(stream));
}

// Copies and fills of managed memory, of which the other threads look at the same pages. More than 64 KiB each: a smaller copy
// may be on its way when it returns.
static void copies(int thread, std::atomic<int>& wrong) {
    constexpr int k_n = 20002;
    static int* all = [] {
        int* made;
        CHECK(cudaMallocManaged(&made, 4 * k_n * sizeof(int)));
        return made;
    }();
    int* const own = all + thread * k_n;
    std::vector<int> from(k_n);
    const size_t bytes = k_n * sizeof(int);
    for (int round = 1; round <= 40; ++round) {
        for (int i = 0; i < k_n; ++i) from[i] = round * (i + 1);
        if (round % 2 == 0)
            CHECK(cudaMemcpy(own, from.data(), bytes, cudaMemcpyHostToDevice));
        else
            CHECK(cudaMemcpy2D(own, bytes / 2, from.data(), bytes / 2, bytes / 2, 2, cudaMemcpyHostToDevice));
        for (int i = 0; i < k_n; ++i) wrong += own[i] != from[i];
        CHECK(cudaMemset(own, round, bytes));
        for (int i = 0; i < k_n; ++i) wrong += own[i] != round * 0x01010101;
    }
}

int main(int, char** argv) {
    const std::string what = argv[1];
    void (*const step)(int, std::atomic<int>&) = what == "events" ? events : what == "kernels" ? kernels : copies;
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&, i] { step(i, wrong); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
    return passed("pages of several threads");
}
