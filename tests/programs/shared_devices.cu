// Memory that the program shares with two devices: kernels of both use it in turns, without peer access.
#include "check.h"

constexpr int k_numbers = 4000;

__global__ void add(int* numbers, int by) {
    for (int i = threadIdx.x; i < k_numbers; i += blockDim.x) numbers[i] += by + i;
}

/// Each device in turn, and the program in between.
static void in_turns(int* numbers, const char* what) {
    for (int i = 0; i < k_numbers; ++i) numbers[i] = -i;
    int expected_by = 0, rounds = 0;
    for (int device : {0, 1, 1, 0}) {
        CHECK(cudaSetDevice(device));
        add<<<1, 128>>>(numbers, 100 + device);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        expected_by += 100 + device;
        ++rounds;
        for (int i = 0; i < k_numbers; ++i) EXPECT_EQ(numbers[i], -i + expected_by + rounds * i);
        numbers[0] += 5;
        numbers[0] -= 5;
    }
    std::printf("%s: ", what);
}

int main() {
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    if (count < 2) {
        std::printf("one device only: nothing to share\n");
        return 0;
    }
    int* numbers = nullptr;
    CHECK(cudaSetDevice(0));
    CHECK(cudaMallocManaged(&numbers, k_numbers * sizeof *numbers));
    in_turns(numbers, "managed");
    CHECK(cudaFree(numbers));
    CHECK(cudaSetDevice(1));
    CHECK(cudaMallocManaged(&numbers, (1 << 20) + k_numbers * sizeof *numbers));
    in_turns(numbers, "large");
    CHECK(cudaFree(numbers));
    CHECK(cudaSetDevice(0));
    CHECK(cudaHostAlloc(&numbers, k_numbers * sizeof *numbers, cudaHostAllocPortable | cudaHostAllocMapped));
    in_turns(numbers, "page-locked");
    CHECK(cudaFreeHost(numbers));
    std::printf("verified\n");
}
