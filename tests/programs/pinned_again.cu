// Page-locked memory at addresses that kernels have used before: it becomes the device's with the next launch of any thread, also
// while other threads are in the middle of copies to it and from it.
//   pinned_again ROUNDS
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "check.h"

__global__ void add(int* data, int n, int what) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] += what;
}

static const int k_ints = 2000;

// What was allocated there before was a kernel's.
static void use_address() {
    int* memory = nullptr;
    CHECK(cudaMallocHost(&memory, k_ints * sizeof(int)));
    for (int i = 0; i < k_ints; ++i) memory[i] = i;
    add<<<1, 64>>>(memory, k_ints, 1);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < k_ints; ++i) EXPECT_EQ(memory[i], i + 1);
    CHECK(cudaFreeHost(memory));
}

static void copy_there_and_back(int seed, int rounds) {
    cudaStream_t stream;
    int* device = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&device, k_ints * sizeof(int)));
    for (int round = 0; round < rounds; ++round) {
        int *there = nullptr, *back = nullptr;
        CHECK(cudaMallocHost(&there, k_ints * sizeof(int)));
        CHECK(cudaMallocHost(&back, k_ints * sizeof(int)));
        for (int i = 0; i < k_ints; ++i) there[i] = seed + round * 7 + i;
        for (int begin = 0; begin < k_ints; begin += k_ints / 4) {
            const size_t bytes = k_ints / 4 * sizeof(int);
            CHECK(cudaMemcpyAsync(device + begin, there + begin, bytes, cudaMemcpyHostToDevice, stream));
            CHECK(cudaMemcpyAsync(back + begin, device + begin, bytes, cudaMemcpyDeviceToHost, stream));
        }
        // By rows as well, which are gathered.
        CHECK(cudaMemcpy2DAsync(device, 80, there, 80, 40, k_ints / 20, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpy2DAsync(back, 80, device, 80, 40, k_ints / 20, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < k_ints; ++i) EXPECT_EQ(back[i], seed + round * 7 + i);
        CHECK(cudaFreeHost(there));
        CHECK(cudaFreeHost(back));
    }
    CHECK(cudaFree(device));
    CHECK(cudaStreamDestroy(stream));
}

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
    use_address();
    std::atomic<bool> done{false};
    std::thread launches([&] {
        int* memory = nullptr;
        CHECK(cudaMalloc(&memory, k_ints * sizeof(int)));
        cudaStream_t stream;
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        while (!done.load()) {
            add<<<1, 64, 0, stream>>>(memory, 64, 1);
            CHECK(cudaGetLastError());
            CHECK(cudaStreamSynchronize(stream));
        }
        CHECK(cudaFree(memory));
        CHECK(cudaStreamDestroy(stream));
    });
    std::vector<std::thread> copies;
    for (int i = 0; i < 3; ++i) copies.emplace_back(copy_there_and_back, i * 100000, rounds);
    for (std::thread& thread : copies) thread.join();
    done.store(true);
    launches.join();
    return passed("page-locked memory in use while it becomes the device's");
}
