// A kernel that fails, and then more copies to the host than anybody wants to keep in mind: each call ends, with the kernel's
// error.
#include "check.h"

__global__ void fault(int* data) { data[1ull << 40] = 1; }

int main() {
    constexpr size_t k_bytes = 1 << 20;
    constexpr int k_copies = 64;
    cudaStream_t stream;
    char *device = nullptr, *pinned = nullptr;
    int* small = nullptr;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&device, k_bytes));
    CHECK(cudaMalloc(&small, sizeof(int)));
    CHECK(cudaMallocHost(&pinned, k_bytes));
    CHECK(cudaMemcpyAsync(pinned, device, k_bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    fault<<<1, 1, 0, stream>>>(small);
    for (int i = 0; i < k_copies; ++i) {
        const cudaError_t result = cudaMemcpyAsync(pinned, device, k_bytes, cudaMemcpyDeviceToHost, stream);
        EXPECT(result == cudaSuccess || result == cudaErrorIllegalAddress);
    }
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    std::printf("copies behind a fault: verified\n");
}
