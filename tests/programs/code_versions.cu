// What kernels say they were compiled for: libraries choose among their kernels by it. In a relocatable program each kernel is
// of its own unit, whatever it is linked with.
#include "check.h"

__global__ void child(int* data) { data[threadIdx.x] += 1; }

__global__ void parent(int* data) {
#ifdef WITH_MACHINE_CODE
    data[threadIdx.x] += 1;
#else
    if (threadIdx.x == 0) child<<<1, 32>>>(data);  // takes the device run time's library, which has newer architectures
#endif
}

int main() {
    int major = 0, minor = 0;
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
    // Machine code for 8.0 runs on every 8.x; what is compiled for the device is the device's.
    int binary = 10 * major + minor;
#ifdef WITH_MACHINE_CODE
    if (major == 8) binary = 80;
#endif
    for (const void* kernel : {reinterpret_cast<const void*>(parent), reinterpret_cast<const void*>(child)}) {
        cudaFuncAttributes attributes{};
        CHECK(cudaFuncGetAttributes(&attributes, kernel));
        EXPECT_EQ(attributes.ptxVersion, 80);
        EXPECT_EQ(attributes.binaryVersion, binary);
    }
    DeviceArray<int> data(32);
    CHECK(cudaMemset(data.data(), 0, 32 * sizeof(int)));
    parent<<<1, 32>>>(data.data());
    CHECK(cudaDeviceSynchronize());
    int values[32];
    CHECK(cudaMemcpy(values, data.data(), sizeof values, cudaMemcpyDeviceToHost));
    for (int value : values) EXPECT_EQ(value, 1);
    return passed("versions of code");
}
