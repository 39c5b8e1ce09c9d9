// For test_chaos.py, which kills the worker when there is "given" on stdout: what a program has of page-locked memory that the
// device had when its session was lost. It is the program's memory: it stays, and can be written.
#include "check.h"

__global__ void increment(int* words, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) words[i] += 1;
}

int main() {
    constexpr int k_words = 64 * 1024;
    int* words = nullptr;
    CHECK(cudaMallocHost(&words, k_words * sizeof(int)));
    for (int i = 0; i < k_words; ++i) words[i] = i;
    increment<<<1, 256>>>(words, k_words);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < k_words; ++i) EXPECT_EQ(words[i], i + 1);
    increment<<<1, 256>>>(words, k_words);
    CHECK(cudaGetLastError());
    std::printf("given\n");
    std::fflush(stdout);
    EXPECT(std::getchar() == '\n');
    // What the last kernel has written is lost with the session, or has come with its last words.
    for (int i = 0; i < k_words; ++i) EXPECT(words[i] == i + 1 || words[i] == i + 2);
    for (int i = 0; i < k_words; ++i) words[i] = -i;
    for (int i = 0; i < k_words; ++i) EXPECT_EQ(words[i], -i);
    EXPECT_EQ(static_cast<int>(cudaDeviceSynchronize()), static_cast<int>(cudaErrorDevicesUnavailable));
    return passed("lost pages");
}
