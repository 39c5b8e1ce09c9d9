// Registered memory that the program may not write any more when a kernel has: a device's writes take no notice of that.
#include <sys/mman.h>

#include "check.h"

__global__ void fill(char* data, int n, char with) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = with;
}

int main() {
    const int size = 1 << 16;
    auto* memory = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT(memory != MAP_FAILED);
    char* device;
    CHECK(cudaHostRegister(memory, size, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, memory, 0));
    for (char round = 1; round < 4; ++round) {
        fill<<<1, 256>>>(device, size, round);
        if (round == 2) EXPECT_EQ(mprotect(memory + size / 2, size / 2, PROT_READ), 0);
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < size; ++i) EXPECT_EQ(memory[i], round);
    }
    CHECK(cudaHostUnregister(memory));
    munmap(memory, size);
    return passed("memory that has become unwritable");
}
