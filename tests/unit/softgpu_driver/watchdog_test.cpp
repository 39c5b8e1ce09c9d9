// Tests of kernels that do not end.
#include <cstdlib>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

const int set_before_main = setenv("SOFTGPU_WATCHDOG_MS", "100", 1);

class WatchdogTest : public DriverTest {};

TEST_F(WatchdogTest, EndlessKernelsEndWithATimeOutThatStays) {
    ASSERT_EQ(set_before_main, 0);
    CUmodule module = load_kernels();
    CUfunction store = kernel(module, "store");
    CUdeviceptr flag = 0, other = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&flag, 64));
    ASSERT_CU(CU(cuMemsetD32_v2)(flag, 0, 16));
    ASSERT_CU(launch_store(module, flag + 4, 1));
    ASSERT_CU(CU(cuCtxSynchronize)());
    ASSERT_CU(launch_wait(module, flag));
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_LAUNCH_TIMEOUT);
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_LAUNCH_TIMEOUT);
    EXPECT_EQ(CU(cuMemAlloc_v2)(&other, 64), CUDA_ERROR_LAUNCH_TIMEOUT);
    uint32_t value = 1;
    void* params[] = {&flag, &value};
    EXPECT_EQ(CU(cuLaunchKernel)(store, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr), CUDA_ERROR_LAUNCH_TIMEOUT);
    CUcontext next = nullptr;
    ASSERT_CU(CU(cuCtxCreate_v2)(&next, 0, 0));
    EXPECT_CU(CU(cuMemAlloc_v2)(&other, 64));
    EXPECT_CU(launch_store(load_kernels(), other, 1));
    EXPECT_CU(CU(cuCtxSynchronize)());
    EXPECT_CU(CU(cuCtxDestroy_v2)(next));
}

}  // namespace
}  // namespace softgpu_test
