// Tests of cuGetProcAddress and cuGetExportTable.
#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

void* look_up(const char* name, int version, cuuint64_t flags, CUresult expected = CUDA_SUCCESS) {
    void* function = nullptr;
    CUdriverProcAddressQueryResult status{};
    EXPECT_EQ(CU(cuGetProcAddress_v2)(name, &function, version, flags, &status), expected) << name;
    return function;
}

TEST(SymbolsTest, FindsTheVersionThatIsAskedFor) {
    EXPECT_EQ(look_up("cuMemAlloc", 3020, 0), symbol("cuMemAlloc_v2"));
    EXPECT_EQ(look_up("cuCtxGetDevice", 2000, 0), symbol("cuCtxGetDevice"));
    EXPECT_EQ(look_up("cuCtxGetDevice", 13000, 0), symbol("cuCtxGetDevice_v2"));
    EXPECT_EQ(look_up("cuDevicePrimaryCtxRelease", 7000, 0), symbol("cuDevicePrimaryCtxRelease"));
    EXPECT_EQ(look_up("cuLaunchKernel", 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), symbol("cuLaunchKernel_ptsz"));
    EXPECT_EQ(look_up("", 0, 0), nullptr);
    EXPECT_EQ(look_up("cuWGLGetDevice", 2020, 0), nullptr);
}

TEST(SymbolsTest, ServesTheTableThatLibcudartNeedsFirst) {
    // CUDART_INTERFACE: slot 2 is the primary context of a device.
    const CUuuid id{{0x6b, static_cast<char>(0xd5), static_cast<char>(0xfb), 0x6c, 0x5b, static_cast<char>(0xf4),
                     static_cast<char>(0xe7), 0x4a, static_cast<char>(0x89), static_cast<char>(0x87), static_cast<char>(0xd9),
                     0x39, 0x12, static_cast<char>(0xfd), static_cast<char>(0x9d), static_cast<char>(0xf9)}};
    const void* table = nullptr;
    ASSERT_CU(CU(cuGetExportTable)(&table, &id));
    ASSERT_CU(CU(cuInit)(0));
    auto primary = reinterpret_cast<CUresult (*)(CUcontext*, CUdevice)>(static_cast<void* const*>(table)[2]);
    CUcontext before = nullptr, retained = nullptr, after = nullptr;
    EXPECT_CU(primary(&before, 0));
    EXPECT_CU(CU(cuDevicePrimaryCtxRetain)(&retained, 0));
    EXPECT_CU(CU(cuDevicePrimaryCtxReset_v2)(0));
    EXPECT_CU(primary(&after, 0));
    EXPECT_NE(before, nullptr);
    EXPECT_EQ(before, retained);
    EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace softgpu_test
