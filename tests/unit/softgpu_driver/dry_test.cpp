// Tests of dry mode.
#include <cstdlib>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

const int set_before_main = setenv("SOFTGPU_EXECUTE", "0", 1);

class DryTest : public DriverTest {};

TEST_F(DryTest, LaunchesDoNothingAndCopiesCopy) {
    ASSERT_EQ(set_before_main, 0);
    CUmodule module = load_kernels();
    CUdeviceptr p = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&p, 64));
    ASSERT_CU(CU(cuMemsetD32_v2)(p, 3, 16));
    EXPECT_CU(launch_store(module, p, 9));
    EXPECT_CU(launch_store(module, 0x10, 9));  // would fault
    uint32_t value = 0;
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(&value, p, 4));
    EXPECT_EQ(value, 3u);
    CUfunction fill = kernel(module, "fill");
    EXPECT_EQ(CU(cuLaunchKernel)(fill, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace softgpu_test
