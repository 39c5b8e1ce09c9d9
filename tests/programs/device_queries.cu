// What programs ask before they compute: properties, limits, attributes, occupancy, versions, priorities.
#include <cstring>

#include "check.h"

__global__ void __launch_bounds__(256) bounded(float* data) {
    __shared__ float tile[128];
    tile[threadIdx.x % 128] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = tile[(threadIdx.x + 1) % 128];
}

int main() {
    int count = 0, runtime = 0, driver = 0;
    CHECK(cudaGetDeviceCount(&count));
    EXPECT(count >= 1);
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cudaDriverGetVersion(&driver));
    EXPECT(driver >= runtime / 1000 * 1000);
    for (int device = 0; device < count; ++device) {
        cudaDeviceProp properties;
        CHECK(cudaGetDeviceProperties(&properties, device));
        EXPECT(std::strlen(properties.name) > 0 && properties.totalGlobalMem > 0);
        EXPECT(properties.major >= 5 && properties.warpSize == 32 && properties.maxThreadsPerBlock >= 256);
        EXPECT(properties.multiProcessorCount > 0 && properties.sharedMemPerBlock >= 16384);
        int value = 0;
        CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxBlockDimX, device));
        EXPECT_EQ(value, properties.maxThreadsDim[0]);
        CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, device));
        EXPECT_EQ(value, properties.major);
        char id[32];
        CHECK(cudaDeviceGetPCIBusId(id, sizeof(id), device));
        int again = -1;
        CHECK(cudaDeviceGetByPCIBusId(&again, id));
        EXPECT_EQ(again, device);
    }
    CHECK(cudaSetDevice(count - 1));
    int current = -1;
    CHECK(cudaGetDevice(&current));
    EXPECT_EQ(current, count - 1);
    CHECK(cudaSetDevice(0));
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, bounded));
    EXPECT_EQ(attributes.sharedSizeBytes, 512u);
    EXPECT_EQ(attributes.maxThreadsPerBlock, 256);
    EXPECT(attributes.numRegs > 0 && attributes.ptxVersion >= 50);
    int blocks = 0, minimum = 0, size = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bounded, 128, 0));
    EXPECT(blocks >= 1);
    CHECK(cudaOccupancyMaxPotentialBlockSize(&minimum, &size, bounded));
    EXPECT(size >= 32 && size <= 256 && minimum >= 1);
    CHECK(cudaFuncSetAttribute(bounded, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
    size_t limit = 0;
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitPrintfFifoSize));
    EXPECT(limit > 0);
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
    EXPECT(limit >= 16 << 20);
    DeviceArray<float> data(256);
    CHECK(cudaMemset(data.data(), 0, 1024));
    bounded<<<1, 256>>>(data.data());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDeviceReset());
    int* after;
    CHECK(cudaMalloc(&after, 64));
    CHECK(cudaFree(after));
    return passed("device queries");
}
