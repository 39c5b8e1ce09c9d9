// Works until a call fails, and says which error it was and how long that call took. For the tests that kill servers.
// Prints "working" once the first round is verified, and takes a breath after each, of so many microseconds as its argument says,
// or 5 ms: for seconds it is to be at work, not to keep the processors from others.
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "check.h"

__global__ void increment(int* data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += 1;
}

int main(int argc, char** argv) {
    const useconds_t breath_us = argc > 1 ? static_cast<useconds_t>(std::atoi(argv[1])) : 5000;
    const int n = 4096;
    int* device;
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    CHECK(cudaMemset(device, 0, n * sizeof(int)));
    std::vector<int> host(n);
    for (int round = 1;; ++round) {
        auto began = std::chrono::steady_clock::now();
        increment<<<(n + 255) / 256, 256>>>(device, n);
        cudaError_t error = cudaGetLastError();
        if (error == cudaSuccess) error = cudaDeviceSynchronize();
        if (error == cudaSuccess) error = cudaMemcpy(host.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost);
        if (error != cudaSuccess) {
            double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
            cudaError_t again = cudaDeviceSynchronize();
            std::printf("error %d after %.1f s, then %d\n", error, seconds, again);
            return again == error ? 0 : 1;
        }
        for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], round);
        if (round == 1) {
            std::printf("working\n");
            std::fflush(stdout);
        }
        if (breath_us > 0) usleep(breath_us);
    }
}
