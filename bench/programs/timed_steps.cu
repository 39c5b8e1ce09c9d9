// Programs that launch and wait, as bench/bounds.py wants to see them: how fast launches go, how long steps and waits take, and
// what a program keeps from its server that only exists. Kernels may not be computed (a dry device).
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "timed.h"

__global__ void touch(int* word, int a, int b, int c) { *word = a + b + c; }
__global__ void layer(float* y, const float* x, int k, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i] * static_cast<float>(k);
}

/// Device memory, and a context in which everything has been used once.
static int* start() {
    int* word = nullptr;
    CHECK(cudaMalloc(&word, sizeof *word));
    touch<<<1, 1>>>(word, 1, 2, 3);
    CHECK(cudaDeviceSynchronize());
    return word;
}

/// Several programs begin together: when a line comes, after each has said that it is ready.
static void wait_for_others() {
    std::printf("ready\n");
    std::fflush(stdout);
    if (std::getchar() == EOF) std::exit(0);
}

/// So many launches in a row, each with one parameter that changes: nanoseconds for each, as the program sees them and until
/// the last has been executed.
static void storm(int launches) {
    int* word = start();
    const auto began = Clock::now();
    for (int i = 0; i < launches; ++i) touch<<<1, 1>>>(word, i, 2, 3);
    const double called = micros(Clock::now() - began);
    CHECK(cudaDeviceSynchronize());
    std::printf("%.1f %.1f\n", called * 1e3 / launches, micros(Clock::now() - began) * 1e3 / launches);
}

/// Launches and a wait, again and again for so many seconds: launches, then the microseconds of each wait if they are wanted.
static void steps(int launches, double seconds, bool tells_waits) {
    int* word = start();
    std::vector<float> waits;
    waits.reserve(size_t{1} << 20);
    wait_for_others();
    uint64_t launched = 0;
    for (const auto began = Clock::now(); micros(Clock::now() - began) < seconds * 1e6; launched += launches) {
        for (int i = 0; i < launches; ++i) touch<<<1, 1>>>(word, i, 2, 3);
        const auto waits_from = Clock::now();
        CHECK(cudaDeviceSynchronize());
        if (tells_waits) waits.push_back(static_cast<float>(micros(Clock::now() - waits_from)));
    }
    std::printf("%llu\n", static_cast<unsigned long long>(launched));
    for (const float wait : waits) std::printf("%.1f\n", wait);
}

/// Like training: a batch to the device, 32 layers, the loss from it. The median of a step, in milliseconds.
static void train(int rounds) {
    constexpr int k_elements = 16384, k_layers = 32;
    std::vector<float> batch(k_elements), took;
    float *x = nullptr, *y = nullptr, loss = 0;
    CHECK(cudaMalloc(&x, k_elements * sizeof(float)));
    CHECK(cudaMalloc(&y, k_elements * sizeof(float)));
    layer<<<1, 1>>>(y, x, 1, 1);
    CHECK(cudaDeviceSynchronize());
    for (int round = 0; round < rounds; ++round) {
        for (float& number : batch) number = static_cast<float>(std::rand());
        const auto began = Clock::now();
        CHECK(cudaMemcpy(x, batch.data(), k_elements * sizeof(float), cudaMemcpyHostToDevice));
        for (int k = 0; k < k_layers; ++k) layer<<<k_elements / 256, 256>>>(y, x, k, k_elements);
        CHECK(cudaMemcpy(&loss, y, sizeof loss, cudaMemcpyDeviceToHost));
        took.push_back(static_cast<float>(micros(Clock::now() - began) / 1e3));
    }
    std::nth_element(took.begin(), took.begin() + rounds / 2, took.end());
    std::printf("%.3f\n", took[static_cast<size_t>(rounds) / 2]);
}

int main(int count, char** words) {
    const std::string what = count > 1 ? words[1] : "";
    if (what == "storm" && count == 3)
        storm(std::atoi(words[2]));
    else if (what == "steps" && count == 5)
        steps(std::atoi(words[2]), std::atof(words[3]), std::string(words[4]) == "waits");
    else if (what == "train" && count == 3)
        train(std::atoi(words[2]));
    else if (what == "idle" && count == 2)
        start(), wait_for_others();
    else
        return std::fprintf(stderr, "usage: timed_steps storm N | steps N SECONDS waits|none | train STEPS | idle\n"), 2;
    return 0;
}
