// When copies read their source, and which calls wait for their end.
#include <cuda.h>

#include <atomic>
#include <cstring>

#include "check.h"

#define EXPECT_CU(call) EXPECT_EQ(static_cast<int>(call), static_cast<int>(CUDA_SUCCESS))

using BatchAsync = CUresult (*)(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t, size_t*,
                                CUstream);
static BatchAsync find_batch() {
    void* function = nullptr;
    CHECK(cudaGetDriverEntryPointByVersion("cuMemcpyBatchAsync", &function, 12080, cudaEnableDefault, nullptr));
    return reinterpret_cast<BatchAsync>(function);
}

static std::atomic<bool> may_go;
static char* to_fill = nullptr;
static void CUDART_CB fill_when_told(void*) {
    while (!may_go.load()) {
    }
    std::memset(to_fill, 7, 4096);
}

static CUresult copy_one(CUdeviceptr to, const void* from, size_t bytes, CUmemcpySrcAccessOrder order, CUstream stream) {
    static const BatchAsync batch = find_batch();
    auto source = reinterpret_cast<CUdeviceptr>(from);
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = order;
    size_t first = 0;
    return batch(&to, &source, &bytes, 1, &attributes, &first, 1, nullptr, stream);
}

// A large page-locked source is read before the call returns, if it is said to be; an ordinary one in the order of the stream.
static void source_access() {
    const size_t large = 8 << 20;
    CUstream stream;
    CUdeviceptr device;
    void* pinned;
    EXPECT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    EXPECT_CU(cuMemAlloc(&device, large));
    EXPECT_CU(cuMemHostAlloc(&pinned, large, 0));
    std::vector<char> seen(large), ordinary(4096, 1);
    for (int round = 0; round < 5; ++round) {
        std::memset(pinned, round, large);
        EXPECT_CU(copy_one(device, pinned, large, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, stream));
        std::memset(pinned, 99, large);
        EXPECT_CU(cuStreamSynchronize(stream));
        EXPECT_CU(cuMemcpyDtoH(seen.data(), device, large));
        for (size_t i = 0; i < large; i += 4093) EXPECT_EQ(seen[i], round);
    }
    to_fill = ordinary.data();
    may_go.store(false);
    EXPECT_CU(cuLaunchHostFunc(stream, fill_when_told, nullptr));
    may_go.store(true);
    EXPECT_CU(copy_one(device, ordinary.data(), ordinary.size(), CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, stream));
    EXPECT_CU(cuStreamSynchronize(stream));
    EXPECT_CU(cuMemcpyDtoH(seen.data(), device, ordinary.size()));
    for (size_t i = 0; i < ordinary.size(); ++i) EXPECT_EQ(seen[i], 7);

    EXPECT(copy_one(device, pinned, 100, CU_MEMCPY_SRC_ACCESS_ORDER_INVALID, stream) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(copy_one(device, pinned, 100, static_cast<CUmemcpySrcAccessOrder>(9), stream) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(copy_one(device, pinned, 100, CU_MEMCPY_SRC_ACCESS_ORDER_ANY, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr to[2] = {device, device + 100}, from[2] = {device + 200, device + 300};
    size_t sizes[2] = {10, 10}, firsts[2] = {0, 0};
    CUmemcpyAttributes attributes[2]{};
    attributes[0].srcAccessOrder = attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    const BatchAsync batch = find_batch();
    EXPECT(batch(to, from, sizes, 2, attributes, firsts, 2, nullptr, stream) == CUDA_ERROR_INVALID_VALUE);
    firsts[1] = 2;
    EXPECT(batch(to, from, sizes, 2, attributes, firsts, 2, nullptr, stream) == CUDA_ERROR_INVALID_VALUE);
    firsts[1] = 1;
    EXPECT_CU(batch(to, from, sizes, 2, attributes, firsts, 2, nullptr, stream));
    EXPECT_CU(cuStreamSynchronize(stream));
    EXPECT_CU(cuMemFreeHost(pinned));
    EXPECT_CU(cuMemFree(device));
    EXPECT_CU(cuStreamDestroy(stream));
}

__global__ void spin(long long cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}
__global__ void read(const int* from, int* to) { *to = *from; }

// Fills and copies from which CUDA returns before they are over are over when they return, if memory or context says so: work
// of a stream that waits for no other finds what they have written.
static void synchronous() {
    CUcontext context;
    CUstream stream;
    CUdeviceptr data, result, other;
    EXPECT_CU(cuCtxGetCurrent(&context));
    EXPECT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    EXPECT_CU(cuMemAlloc(&data, 4096));
    EXPECT_CU(cuMemAlloc(&other, 4096));
    EXPECT_CU(cuMemAlloc(&result, 4096));
    const auto expect = [&](int value) {
        read<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(data), reinterpret_cast<int*>(result));
        EXPECT_CU(cuStreamSynchronize(stream));
        int seen = 0;
        EXPECT_CU(cuMemcpyDtoH(&seen, result, sizeof seen));
        EXPECT_EQ(seen, value);
    };
    const unsigned on = 1;
    unsigned told = 0;
    EXPECT_CU(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, data));
    EXPECT_CU(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, data));
    EXPECT_EQ(told, 1u);
    for (int round = 1; round <= 20; ++round) {
        spin<<<1, 1>>>(20000);
        EXPECT_CU(cuMemsetD32(data, round, 1024));
        expect(round);
        EXPECT_CU(cuMemsetD32(other, 100 + round, 1024));
        spin<<<1, 1>>>(20000);
        EXPECT_CU(cuMemcpyDtoD(data, other, 4096));
        expect(100 + round);
    }
    const unsigned off = 0;
    EXPECT_CU(cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, data));
    unsigned flags = 0;
    EXPECT_CU(cuCtxGetFlags(&flags));
    EXPECT_CU(cuCtxSetFlags(flags | CU_CTX_SYNC_MEMOPS));
    for (int round = 1; round <= 20; ++round) {
        spin<<<1, 1>>>(20000);
        EXPECT_CU(cuMemsetD32(data, -round, 1024));
        expect(-round);
    }
    EXPECT_CU(cuCtxSetFlags(flags));
    for (CUdeviceptr memory : {data, other, result}) EXPECT_CU(cuMemFree(memory));
    EXPECT_CU(cuStreamDestroy(stream));
}

int main() {
    CHECK(cudaFree(nullptr));
    source_access();
    synchronous();
    return passed("orders of copies");
}
