// Tests with many threads and many launches.
#include <thread>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

class ThreadsTest : public DriverTest {};

TEST_F(ThreadsTest, EightThreadsDoEverythingAtOnce) {
    CUmodule module = load_kernels();
    CUfunction add = kernel(module, "add");
    CUdeviceptr sum = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&sum, 4));
    ASSERT_CU(CU(cuMemsetD32_v2)(sum, 0, 1));
    CUcontext ours = context();
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([=] {
            ASSERT_CU(CU(cuCtxSetCurrent)(ours));
            CUstream stream = nullptr;
            CUevent event = nullptr;
            ASSERT_CU(CU(cuStreamCreate)(&stream, t % 2 == 0 ? 0U : static_cast<unsigned int>(CU_STREAM_NON_BLOCKING)));
            ASSERT_CU(CU(cuEventCreate)(&event, 0));
            for (int i = 0; i < 50; ++i) {
                CUdeviceptr p = 0, q = 0;
                ASSERT_CU(CU(cuMemAlloc_v2)(&p, 4096));
                ASSERT_CU(CU(cuMemAllocAsync)(&q, 4096, stream));
                uint32_t value = 1, n = 1024;
                CUdeviceptr counter = sum;
                void* add_params[] = {&counter, &value};
                void* fill_params[] = {&p, &value, &n};
                ASSERT_CU(CU(cuLaunchKernel)(add, 1, 1, 1, 1, 1, 1, 0, stream, add_params, nullptr));
                ASSERT_CU(CU(cuLaunchKernel)(kernel(module, "fill"), 4, 1, 1, 256, 1, 1, 0, stream, fill_params, nullptr));
                ASSERT_CU(CU(cuMemcpyDtoDAsync_v2)(q, p, 4096, stream));
                std::vector<uint32_t> out(1024);
                ASSERT_CU(CU(cuMemcpyDtoHAsync_v2)(out.data(), q, 4096, stream));
                ASSERT_CU(CU(cuEventRecord)(event, stream));
                ASSERT_CU(CU(cuEventSynchronize)(event));
                ASSERT_EQ(out[1023], 1024u);
                ASSERT_CU(CU(cuMemFreeAsync)(q, stream));
                ASSERT_CU(CU(cuMemFree_v2)(p));
            }
            ASSERT_CU(CU(cuEventDestroy_v2)(event));
            ASSERT_CU(CU(cuStreamDestroy_v2)(stream));
            ASSERT_CU(CU(cuCtxSetCurrent)(nullptr));
        });
    }
    for (std::thread& thread : threads) thread.join();
    uint32_t total = 0;
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(&total, sum, 4));
    EXPECT_EQ(total, 400u);
}

TEST_F(ThreadsTest, TwentyThousandLaunchesOneSynchronisation) {
    CUmodule module = load_kernels();
    CUdeviceptr sum = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&sum, 4));
    ASSERT_CU(CU(cuMemsetD32_v2)(sum, 0, 1));
    uint32_t value = 1;
    void* params[] = {&sum, &value};
    CUfunction add = kernel(module, "add");
    for (int i = 0; i < 20000; ++i) {
        ASSERT_CU(CU(cuLaunchKernel)(add, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    }
    EXPECT_CU(CU(cuCtxSynchronize)());
    uint32_t total = 0;
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(&total, sum, 4));
    EXPECT_EQ(total, 20000u);
}

}  // namespace
}  // namespace softgpu_test
