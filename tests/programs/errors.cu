// What goes wrong goes wrong as CUDA says: invalid launches at the launch, faults at the synchronisation and for ever after.
// Argument: which case, because a fault ends the use of the context.
#include <cassert>
#include <cstring>

#include "check.h"

__global__ void store(int* where) { *where = 1; }
__global__ void trap() { __trap(); }
__global__ void assertion(unsigned threads) { assert(threadIdx.x < threads); }
__global__ void misaligned(char* p) { *reinterpret_cast<int*>(p + 1) = 1; }

static int* g_locked;

static int fault(cudaError_t expected) {
    cudaError_t error = cudaDeviceSynchronize();
    if (error != expected) {
        std::fprintf(stderr, "expected error %d, got %d (%s)\n", expected, error, cudaGetErrorString(error));
        return 1;
    }
    int* p;
    EXPECT_EQ(cudaMalloc(&p, 16), expected);  // sticky
    cudaFuncAttributes attributes;
    EXPECT_EQ(cudaFuncGetAttributes(&attributes, store), expected);
    EXPECT_EQ(cudaFreeHost(g_locked), expected);
    EXPECT_EQ(cudaDeviceSynchronize(), expected);
    return passed("fault");
}

int main(int argc, char** argv) {
    const char* which = argc > 1 ? argv[1] : "launch";
    int* valid;
    CHECK(cudaMalloc(&valid, 64));
    CHECK(cudaMallocHost(&g_locked, 64));
    if (!std::strcmp(which, "launch")) {
        store<<<1, 2048>>>(valid);
        EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
        store<<<0, 1>>>(valid);
        EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
        store<<<dim3(1, 70000), 1>>>(valid);
        EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
        store<<<1, 1, 10 << 20>>>(valid);
        EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
        EXPECT_EQ(cudaMemcpy(valid, nullptr, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
        EXPECT_EQ(cudaFree(valid + 1), cudaErrorInvalidValue);
        cudaGetLastError();
        void* huge = nullptr;
        EXPECT_EQ(cudaMalloc(&huge, size_t{1} << 44), cudaErrorMemoryAllocation);
        EXPECT(huge == nullptr);
        EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
        EXPECT_EQ(cudaSetDevice(1000), cudaErrorInvalidDevice);
        cudaGetLastError();
        store<<<1, 1>>>(valid);  // none of that was sticky
        CHECK(cudaDeviceSynchronize());
        return passed("refused calls");
    }
    if (!std::strcmp(which, "address")) {
        store<<<1, 1>>>(reinterpret_cast<int*>(0x10));
        return fault(cudaErrorIllegalAddress);
    }
    if (!std::strcmp(which, "bounds")) {
        store<<<1, 1>>>(valid + (size_t{1} << 36));
        return fault(cudaErrorIllegalAddress);
    }
    if (!std::strcmp(which, "misaligned")) {
        misaligned<<<1, 1>>>(reinterpret_cast<char*>(valid));
        return fault(cudaErrorMisalignedAddress);
    }
    if (!std::strcmp(which, "trap")) {
        trap<<<1, 1>>>();
        return fault(cudaErrorLaunchFailure);
    }
    if (!std::strcmp(which, "assert")) {
        assertion<<<1, 34>>>(32);  // the second warp's two threads
        return fault(cudaErrorAssert);
    }
    std::fprintf(stderr, "unknown case %s\n", which);
    return 2;
}
