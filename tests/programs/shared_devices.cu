// Memory that the program shares with two devices: kernels of both use it in turns, without peer access. So do they a managed
// variable, which is one for all of them.
#include "check.h"

constexpr int k_numbers = 4000;

__global__ void add(int* numbers, int by) {
    for (int i = threadIdx.x; i < k_numbers; i += blockDim.x) numbers[i] += by + i;
}

__managed__ int g_numbers[k_numbers];
__managed__ int g_uses = 40;
__device__ int g_own = 7;

__global__ void use_by_name(int by) {
    for (int i = threadIdx.x; i < k_numbers; i += blockDim.x) g_numbers[i] += by;
    if (threadIdx.x == 0) g_own += ++g_uses;
}

/// A managed variable is one for the host and all devices, also where the second device's code is loaded only now; others are
/// each device's own.
static void variables() {
    for (int device : {0, 1, 0, 1}) {
        CHECK(cudaSetDevice(device));
        use_by_name<<<1, 128>>>(device + 1);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        g_numbers[1] += 10;
    }
    EXPECT_EQ(g_uses, 44);
    for (int i = 0; i < k_numbers; ++i) EXPECT_EQ(g_numbers[i], i == 1 ? 46 : 6);
    for (int device : {0, 1}) {
        int own = 0;
        CHECK(cudaSetDevice(device));
        CHECK(cudaMemcpyFromSymbol(&own, g_own, sizeof own));
        EXPECT_EQ(own, device == 0 ? 7 + 41 + 43 : 7 + 42 + 44);
    }
    // The code of the device that had it first goes, and the other one's stays.
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceReset());
    CHECK(cudaSetDevice(1));
    use_by_name<<<1, 128>>>(100);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(g_uses, 45);
    EXPECT_EQ(g_numbers[0], 106);
    EXPECT_EQ(cudaFree(&g_uses), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
    std::printf("variables: ");
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

/// A kernel goes to the device that is current, and to no other one's stream ("Stream and Event Behavior" in NVIDIA's guide).
static void streams_of_the_other_device() {
    const int uses = g_uses;
    for (int device : {0, 1}) {
        cudaStream_t stream;
        CHECK(cudaSetDevice(device));
        CHECK(cudaStreamCreate(&stream));
        CHECK(cudaSetDevice(1 - device));
        use_by_name<<<1, 128, 0, stream>>>(1);
        EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamDestroy(stream));
    }
    EXPECT_EQ(g_uses, uses);
}

int main() {
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    if (count < 2) {
        std::printf("one device only: nothing to share\n");
        return 0;
    }
    variables();
    streams_of_the_other_device();
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
