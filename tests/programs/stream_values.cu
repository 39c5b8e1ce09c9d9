// Streams that wait for values in page-locked memory by its own address, and write them there: "always directly accessible"
// (CUDA Driver API, unified addressing), and bad addresses fail at the call.
#include <cuda.h>

#include "check.h"

#define EXPECT_CU(call) EXPECT_EQ(static_cast<int>(call), static_cast<int>(CUDA_SUCCESS))

__global__ void set(int* data, int value) { *data = value; }

int main() {
    CHECK(cudaFree(nullptr));
    CUstream stream;
    EXPECT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    void* memory;
    EXPECT_CU(cuMemHostAlloc(&memory, 4096, 0));
    auto* words = static_cast<volatile unsigned*>(memory);
    auto* longs = reinterpret_cast<volatile unsigned long long*>(static_cast<char*>(memory) + 1024);
    const auto at = reinterpret_cast<CUdeviceptr>(memory);
    words[0] = words[1] = 0;
    longs[0] = longs[1] = 0;
    DeviceArray<int> data(1);
    set<<<1, 1>>>(data.data(), 0);  // code is loaded once nothing waits
    CHECK(cudaDeviceSynchronize());

    EXPECT_CU(cuStreamWaitValue32(stream, at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    set<<<1, 1, 0, stream>>>(data.data(), 5);
    EXPECT_CU(cuStreamWriteValue32(stream, at + 4, 17, 0));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(words[1], 0u);
    words[0] = 1;
    while (words[1] != 17) {
    }
    EXPECT_CU(cuStreamSynchronize(stream));
    EXPECT_EQ(data.download()[0], 5);

    EXPECT_CU(cuStreamWaitValue64(stream, at + 1024, 1ull << 40, CU_STREAM_WAIT_VALUE_EQ));
    EXPECT_CU(cuStreamWriteValue64(stream, at + 1032, 3ull << 40, 0));
    longs[0] = 1ull << 40;
    EXPECT_CU(cuStreamSynchronize(stream));
    EXPECT(longs[1] == 3ull << 40);

    CUstreamBatchMemOpParams items[2]{};
    items[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    items[0].writeValue.address = at + 8;
    items[0].writeValue.value = 99;
    items[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    items[1].waitValue.address = at + 8;
    items[1].waitValue.value = 99;
    items[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    EXPECT_CU(cuStreamBatchMemOp(stream, 2, items, 0));
    EXPECT_CU(cuStreamSynchronize(stream));
    EXPECT_EQ(words[2], 99u);

    // A word that only streams look at: nobody waits for the device before it is written, which waits for that.
    words[3] = 0;
    for (unsigned round = 1; round <= 9; ++round) {
        EXPECT_CU(cuStreamWaitValue32(stream, at + 12, round, CU_STREAM_WAIT_VALUE_GEQ));
        words[3] = round;
        if (round % 3 == 0) EXPECT_CU(cuStreamSynchronize(stream));
    }

    int ordinary[2] = {};
    EXPECT(cuStreamWriteValue32(stream, reinterpret_cast<CUdeviceptr>(ordinary), 1, 0) != CUDA_SUCCESS);
    EXPECT(cuStreamWaitValue32(stream, at + 1, 1, 0) != CUDA_SUCCESS);
    EXPECT(cuStreamWriteValue64(stream, at + 4, 1, 0) != CUDA_SUCCESS);
    EXPECT_CU(cuStreamSynchronize(stream));
    EXPECT_CU(cuMemFreeHost(memory));
    EXPECT_CU(cuStreamDestroy(stream));
    return passed("values in streams");
}
