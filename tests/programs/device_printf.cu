// printf from a kernel: every format letter, in order within a thread, before what the host prints after the synchronisation.
#include "check.h"

__global__ void speak(int n) {
    if (threadIdx.x < n)
        printf("thread %d of %u: %5.2f %s %c %x %lld %%\n", static_cast<int>(threadIdx.x), blockDim.x, threadIdx.x * 1.5, "text",
               'a' + static_cast<int>(threadIdx.x), 255u + threadIdx.x, -1234567890123ll);
}
__global__ void last() { printf("last line"); }

int main() {
    std::printf("before\n");
    speak<<<1, 4>>>(3);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    std::printf("between\n");
    last<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize());
    std::printf("\n");
    return passed("device printf");
}
