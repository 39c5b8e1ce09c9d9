// Attributes that a program sets and asks for at each step, as attention kernels do: what has been told once is not asked
// again.
#include "check.h"

__global__ void scale(float* data) {
    extern __shared__ float staged[];
    staged[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = 2 * staged[threadIdx.x];
}

static int dynamic_shared_bytes() {
    cudaFuncAttributes attributes{};
    CHECK(cudaFuncGetAttributes(&attributes, scale));
    return attributes.maxDynamicSharedSizeBytes;
}

static int blocks_with(int shared_bytes) {
    int blocks = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 64, static_cast<size_t>(shared_bytes)));
    return blocks;
}

int main() {
    constexpr int k_steps = 100, k_most = 64 << 10, k_less = 56 << 10;
    DeviceArray<float> data(64);
    CHECK(cudaMemset(data.data(), 0, 64 * sizeof(float)));
    const int before = dynamic_shared_bytes();
    EXPECT(before > 0 && before < k_less);
    int most_blocks = 0;
    for (int i = 0; i < k_steps; ++i) {
        CHECK(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, k_most));
        EXPECT_EQ(dynamic_shared_bytes(), k_most);
        const int blocks = blocks_with(k_most);
        EXPECT(blocks > 0 && (most_blocks == 0 || blocks == most_blocks));
        most_blocks = blocks;
        scale<<<1, 64, k_most>>>(data.data());
    }
    CHECK(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, k_less));
    EXPECT_EQ(dynamic_shared_bytes(), k_less);
    EXPECT(blocks_with(k_less) >= most_blocks);
    scale<<<1, 64, k_most>>>(data.data());
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK(cudaFuncSetAttribute(scale, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
    EXPECT_EQ(dynamic_shared_bytes(), k_less);
    CHECK(cudaDeviceSynchronize());
    std::printf("verified\n");
    return 0;
}
