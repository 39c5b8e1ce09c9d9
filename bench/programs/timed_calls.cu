// What calls cost as a program sees them: one line 'name value' for each, microseconds or GB/s. For bench/bounds.py, and for
// bench/peer/beside.py, which runs it over one libcuda and over another. Copies are compared; kernels may not be computed (a
// dry device).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "timed.h"

__global__ void touch(int* word, int a, int b, int c) { *word = a + b + c; }

/// The median of what a call takes.
template <typename Call>
static double median(int times, Call call) {
    std::vector<double> taken(static_cast<size_t>(times));
    for (double& one : taken) {
        const auto began = Clock::now();
        call();
        one = micros(Clock::now() - began);
    }
    std::nth_element(taken.begin(), taken.begin() + times / 2, taken.end());
    return taken[static_cast<size_t>(times) / 2];
}

/// What one of many in a row takes on average, without what is waited for behind them.
template <typename Call>
static double mean(int times, Call call) {
    const auto began = Clock::now();
    for (int i = 0; i < times; ++i) call();
    const double each = micros(Clock::now() - began) / times;
    CHECK(cudaDeviceSynchronize());
    return each;
}

static void fill(std::vector<uint64_t>& words, uint64_t seed) {
    for (uint64_t& word : words) word = seed = seed * 6364136223846793005u + 1442695040888963407u;
}

static void bulk() {
    constexpr size_t k_bytes = size_t{256} << 20;
    std::vector<uint64_t> out(k_bytes / 8), back(k_bytes / 8);
    void* device = nullptr;
    CHECK(cudaMalloc(&device, k_bytes));
    double to = 0, from = 0;
    for (int round = 0; round < 3; ++round) {
        fill(out, static_cast<uint64_t>(round) + 1);
        auto began = Clock::now();
        CHECK(cudaMemcpy(device, out.data(), k_bytes, cudaMemcpyHostToDevice));
        CHECK(cudaDeviceSynchronize());
        to = std::max(to, k_bytes / micros(Clock::now() - began) / 1e3);
        began = Clock::now();
        CHECK(cudaMemcpy(back.data(), device, k_bytes, cudaMemcpyDeviceToHost));
        from = std::max(from, k_bytes / micros(Clock::now() - began) / 1e3);
        if (std::memcmp(out.data(), back.data(), k_bytes) != 0) {
            std::fprintf(stderr, "other bytes came back\n");
            std::exit(1);
        }
    }
    std::printf("bulk_to_device %.3f\nbulk_from_device %.3f\n", to, from);
    CHECK(cudaFree(device));
}

int main() {
    const auto began = Clock::now();
    int* word = nullptr;
    CHECK(cudaMalloc(&word, sizeof(int)));
    touch<<<1, 1>>>(word, 1, 2, 3);
    CHECK(cudaDeviceSynchronize());
    std::printf("first_kernel %.1f\n", micros(Clock::now() - began));
    for (int i = 0; i < 1000; ++i) touch<<<1, 1>>>(word, i, 2, 3);
    CHECK(cudaDeviceSynchronize());
    std::printf("launch %.3f\n", mean(20000, [&] { touch<<<1, 1>>>(word, 1, 2, 3); }));
    CHECK(cudaGetLastError());
    int value = 0;
    std::printf("synchronize %.2f\n", median(3000, [] { CHECK(cudaDeviceSynchronize()); }));
    std::printf("launch_and_synchronize %.2f\n", median(3000, [&] {
                    touch<<<1, 1>>>(word, 1, 2, 3);
                    CHECK(cudaDeviceSynchronize());
                }));
    std::printf("word_from_device %.2f\n", median(3000, [&] {
                    touch<<<1, 1>>>(word, 1, 2, 3);
                    CHECK(cudaMemcpy(&value, word, sizeof value, cudaMemcpyDeviceToHost));
                }));
    std::printf("word_to_device %.3f\n",
                mean(20000, [&] { CHECK(cudaMemcpy(word, &value, sizeof value, cudaMemcpyHostToDevice)); }));
    std::printf("malloc_and_free %.3f\n", mean(3000, [] {
                    void* memory = nullptr;
                    CHECK(cudaMalloc(&memory, 1 << 20));
                    CHECK(cudaFree(memory));
                }));
    bulk();
    CHECK(cudaFree(word));
    return 0;
}
