// Tests of cuInit and of what may come before it.
#include <cstring>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

TEST(InitTest, VersionIsTheNewestThatIsKnown) {
    int version = 0;
    EXPECT_CU(CU(cuDriverGetVersion)(&version));
    EXPECT_EQ(version, 13050) << "unless SOFTGPU_DRIVER_VERSION says otherwise";
    EXPECT_EQ(CU(cuDriverGetVersion)(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST(InitTest, InitialisesAnyNumberOfTimes) {
    EXPECT_EQ(CU(cuInit)(1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuInit)(0));
    EXPECT_CU(CU(cuInit)(0));
}

TEST(InitTest, ErrorsHaveNames) {
    const char* text = nullptr;
    EXPECT_CU(CU(cuGetErrorName)(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    EXPECT_CU(CU(cuGetErrorString)(CUDA_ERROR_OUT_OF_MEMORY, &text));
    EXPECT_STREQ(text, "out of memory");
    EXPECT_EQ(CU(cuGetErrorName)(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
}

class DeviceTest : public testing::Test {
protected:
    void SetUp() override { ASSERT_CU(CU(cuInit)(0)); }
    static int attribute(CUdevice_attribute which) {
        int value = -1;
        EXPECT_CU(CU(cuDeviceGetAttribute)(&value, which, 0));
        return value;
    }
};

TEST_F(DeviceTest, OneDeviceByDefault) {
    int count = 0;
    CUdevice device = -1;
    EXPECT_CU(CU(cuDeviceGetCount)(&count));
    EXPECT_EQ(count, 1);
    EXPECT_CU(CU(cuDeviceGet)(&device, 0));
    EXPECT_EQ(CU(cuDeviceGet)(&device, 1), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(CU(cuDeviceGet)(&device, -1), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DeviceTest, NameIsCutToTheBuffer) {
    char name[64], cut[5];
    EXPECT_CU(CU(cuDeviceGetName)(name, sizeof(name), 0));
    EXPECT_STREQ(name, "Warpline software GPU");
    EXPECT_CU(CU(cuDeviceGetName)(cut, sizeof(cut), 0));
    EXPECT_STREQ(cut, "Warp");
    EXPECT_EQ(CU(cuDeviceGetName)(name, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, AttributesFitTogether) {
    EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 8);
    EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), 9);
    EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
    EXPECT_GE(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 20);
    EXPECT_GE(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
              attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
    EXPECT_GE(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
              attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
    EXPECT_GE(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
              attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
    int value = 0;
    EXPECT_EQ(CU(cuDeviceGetAttribute)(&value, static_cast<CUdevice_attribute>(0), 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuDeviceGetAttribute)(&value, static_cast<CUdevice_attribute>(100000), 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 7), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DeviceTest, IsFoundByItsBusId) {
    char text[32];
    CUdevice device = -1;
    ASSERT_CU(CU(cuDeviceGetPCIBusId)(text, sizeof(text), 0));
    EXPECT_CU(CU(cuDeviceGetByPCIBusId)(&device, text));
    EXPECT_EQ(device, 0);
    EXPECT_EQ(CU(cuDeviceGetByPCIBusId)(&device, "0000:7f:00.0"), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(CU(cuDeviceGetByPCIBusId)(&device, "nonsense"), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, UuidStays) {
    CUuuid first{}, second{};
    EXPECT_CU(CU(cuDeviceGetUuid_v2)(&first, 0));
    EXPECT_CU(CU(cuDeviceGetUuid)(&second, 0));
    EXPECT_EQ(std::memcmp(&first, &second, sizeof(first)), 0);
}

}  // namespace
}  // namespace softgpu_test
