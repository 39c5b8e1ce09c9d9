// Steps that end with a wait for one stream, or for an event: as far as kernels may use memory of both sides the device is known
// to rest then, and pages come as they do behind a wait for all of it (A7, B2).
#include <string>

#include "check.h"

__global__ void bump(int* data, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] += 1;
}

int main(int, char** argv) {
    const std::string memory = argv[1], wait = argv[2];
    const int n = 64 << 10, steps = 20;
    int* data = nullptr;
    if (memory == "managed")
        CHECK(cudaMallocManaged(&data, n * sizeof(int)));
    else
        CHECK(cudaHostAlloc(&data, n * sizeof(int), cudaHostAllocMapped));
    for (int i = 0; i < n; ++i) data[i] = i;
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    for (int step = 0; step < steps; ++step) {
        bump<<<1, 256, 0, stream>>>(data, n);
        if (wait == "event") {
            CHECK(cudaEventRecord(event, stream));
            CHECK(cudaEventSynchronize(event));
        } else {
            CHECK(cudaStreamSynchronize(stream));
        }
        for (int i = 0; i < n; ++i) {
            EXPECT_EQ(data[i], i + 2 * step + 1);
            data[i] += 1;
        }
    }
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(stream));
    CHECK(memory == "managed" ? cudaFree(data) : cudaFreeHost(data));
    return passed((memory + " " + wait).c_str());
}
