// Page-locked memory and registrations end with their context: what is registered again is new (A3, A7).
#include "check.h"

__global__ void add(int* data, int n, int value) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] += value;
}

constexpr int k_count = 1 << 18;
static int g_memory[k_count];

static void round(int value) {
    int *locked = nullptr, *mapped = nullptr, *device = nullptr;
    CHECK(cudaMallocHost(&locked, sizeof g_memory));
    CHECK(cudaHostAlloc(&mapped, sizeof g_memory, cudaHostAllocMapped));
    CHECK(cudaHostRegister(g_memory, sizeof g_memory, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, g_memory, 0));
    for (int i = 0; i < k_count; ++i) locked[i] = mapped[i] = g_memory[i] = value;
    add<<<1, 256>>>(device, k_count, 1);
    add<<<1, 256>>>(mapped, k_count, 2);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(g_memory[k_count - 1], value + 1);
    EXPECT_EQ(mapped[k_count - 1], value + 2);
    CHECK(cudaDeviceReset());
    EXPECT_EQ(static_cast<int>(cudaHostUnregister(g_memory)), static_cast<int>(cudaErrorHostMemoryNotRegistered));
    EXPECT_EQ(static_cast<int>(cudaFreeHost(locked)), static_cast<int>(cudaErrorInvalidValue));
    (void)cudaGetLastError();
    // It is the program's memory, and no more than that.
    g_memory[0] = value;
    add<<<1, 1>>>(nullptr, 0, 0);
    CHECK(cudaDeviceSynchronize());
}

int main() {
    for (int i = 0; i < 4; ++i) round(i);
    return passed("page-locked memory and resets");
}
