#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

/// Each case ruins a context of its own.
class FaultTest : public DriverTest {
protected:
    void SetUp() override {
        DriverTest::SetUp();
        m_module = load_kernels();
        ASSERT_CU(CU(cuMemAlloc_v2)(&m_memory, 64));
        ASSERT_CU(CU(cuMemsetD8_v2)(m_memory, 0, 64));
        ASSERT_CU(CU(cuCtxSynchronize)());
    }
    void expect_sticky(CUresult expected) {
        EXPECT_EQ(CU(cuCtxSynchronize)(), expected);
        EXPECT_EQ(CU(cuCtxSynchronize)(), expected);
        CUdeviceptr p = 0;
        uint32_t value = 0;
        EXPECT_EQ(CU(cuMemAlloc_v2)(&p, 64), expected);
        EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&value, m_memory, 4), expected);
        EXPECT_EQ(launch_store_status(), expected);
        EXPECT_EQ(CU(cuStreamQuery)(nullptr), expected);
    }
    CUresult launch_store_status() {
        uint32_t value = 1;
        void* params[] = {&m_memory, &value};
        return CU(cuLaunchKernel)(m_store, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr);
    }
    CUmodule m_module = nullptr;
    CUfunction m_store = nullptr;
    CUdeviceptr m_memory = 0;
};

TEST_F(FaultTest, BadAddressesAreStickyInTheirContextOnly) {
    m_store = kernel(m_module, "store");
    ASSERT_CU(launch_store(m_module, 0x10, 1));
    expect_sticky(CUDA_ERROR_ILLEGAL_ADDRESS);
    CUcontext other = nullptr;
    ASSERT_CU(CU(cuCtxCreate_v2)(&other, 0, 0));
    CUmodule module = load_kernels();
    CUdeviceptr p = 0;
    uint32_t value = 0;
    EXPECT_CU(CU(cuMemAlloc_v2)(&p, 64));
    EXPECT_CU(launch_store(module, p, 8));
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(&value, p, 4));
    EXPECT_EQ(value, 8u);
    EXPECT_CU(CU(cuCtxDestroy_v2)(other));
}

TEST_F(FaultTest, MisalignedAddresses) {
    m_store = kernel(m_module, "store");
    ASSERT_CU(launch_store(m_module, m_memory + 1, 1));
    expect_sticky(CUDA_ERROR_MISALIGNED_ADDRESS);
}

TEST_F(FaultTest, Traps) {
    m_store = kernel(m_module, "store");
    ASSERT_CU(CU(cuLaunchKernel)(kernel(m_module, "trap"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    expect_sticky(CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(FaultTest, WorkAfterAFaultIsNotDone) {
    m_store = kernel(m_module, "store");
    uint32_t* host = nullptr;
    ASSERT_CU(CU(cuMemHostAlloc)(reinterpret_cast<void**>(&host), 64, 0));
    host[0] = 0;
    bool called = false;
    CUresult told = CUDA_SUCCESS;
    ASSERT_CU(launch_wait(m_module, m_memory));
    ASSERT_CU(launch_store(m_module, 0x10, 1));
    ASSERT_CU(launch_store(m_module, reinterpret_cast<CUdeviceptr>(host), 1));
    ASSERT_CU(CU(cuLaunchHostFunc)(
        nullptr, [](void* p) { *static_cast<bool*>(p) = true; }, &called));
    ASSERT_CU(CU(cuStreamAddCallback)(
        nullptr, [](CUstream, CUresult status, void* p) { *static_cast<CUresult*>(p) = status; }, &told, 0));
    CUstream opener = nullptr;
    ASSERT_CU(CU(cuStreamCreate)(&opener, CU_STREAM_NON_BLOCKING));
    ASSERT_CU(launch_store(m_module, m_memory, 1, opener));
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(host[0], 0u);
    EXPECT_FALSE(called);
    EXPECT_EQ(told, CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FaultTest, ResetOfThePrimaryContextClears) {
    CUcontext primary = nullptr;
    ASSERT_CU(CU(cuDevicePrimaryCtxRetain)(&primary, 0));
    ASSERT_CU(CU(cuCtxPushCurrent_v2)(primary));
    CUmodule module = load_kernels();
    ASSERT_CU(launch_store(module, 0x10, 1));
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_CU(CU(cuDevicePrimaryCtxReset_v2)(0));
    EXPECT_CU(CU(cuDevicePrimaryCtxRetain)(&primary, 0));
    CUdeviceptr p = 0;
    EXPECT_CU(CU(cuMemAlloc_v2)(&p, 64));
    EXPECT_CU(CU(cuCtxSynchronize)());
    EXPECT_CU(CU(cuCtxPopCurrent_v2)(nullptr));
    EXPECT_CU(CU(cuDevicePrimaryCtxRelease_v2)(0));
}

}  // namespace
}  // namespace softgpu_test
