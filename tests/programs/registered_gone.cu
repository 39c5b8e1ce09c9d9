// Registered memory that the program takes away, or whose access it takes away, before it takes the registration back: a device
// that has it pinned does not mind, nor does anything that the program does next (A7).
#include <sys/mman.h>

#include <cstring>

#include "check.h"

__global__ void add(int* data, int n, int value) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] += value;
}

constexpr size_t k_bytes = 256 << 10;
constexpr int k_count = k_bytes / sizeof(int);

static int* make() {
    void* memory = mmap(nullptr, k_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED);
    return static_cast<int*>(memory);
}

static int* use(int* memory) {
    CHECK(cudaHostRegister(memory, k_bytes, cudaHostRegisterMapped));
    int* device = nullptr;
    CHECK(cudaHostGetDevicePointer(&device, memory, 0));
    memory[7] = 40;
    add<<<1, 256>>>(device, k_count, 2);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(memory[7], 42);
    return device;
}

int main() {
    int *gone = make(), *half = make(), *closed = make(), *other = make();
    use(gone), use(half), use(closed);
    int* device = use(other);
    munmap(gone, k_bytes);
    munmap(reinterpret_cast<char*>(half) + k_bytes / 2, k_bytes / 2);
    mprotect(closed, k_bytes, PROT_NONE);
    // What is there goes to and fro as before.
    for (int round = 0; round < 3; ++round) {
        other[k_count - 1] = 10 * round;
        half[round] = round;
        add<<<1, 256>>>(device, k_count, 1);
        CHECK(cudaDeviceSynchronize());
        EXPECT_EQ(other[k_count - 1], 10 * round + 1);
    }
    mprotect(closed, k_bytes, PROT_READ | PROT_WRITE);
    EXPECT_EQ(closed[7], 42);
    for (int* one : {gone, half, closed, other}) CHECK(cudaHostUnregister(one));
    return passed("registered memory that has gone");
}
