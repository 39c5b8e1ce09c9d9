// Tests of kernels that fail.
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

TEST_F(FaultTest, StackOverflows) {
    CUmodule module = nullptr;
    ASSERT_CU(CU(cuModuleLoadData)(&module, R"(
.version 8.0
.target sm_75
.address_size 64
.func deep(.param .b32 n)
{
    .reg .b32 %n;
    .local .align 4 .b8 frame[256];
    ld.param.b32 %n, [n];
    st.local.b32 [frame], %n;
    {
        .param .b32 a;
        st.param.b32 [a], %n;
        call deep, (a);
    }
    ret;
}
.visible .entry recurse()
{
    {
        .param .b32 a;
        st.param.b32 [a], 1;
        call deep, (a);
    }
    ret;
}
)"));
    m_store = kernel(m_module, "store");
    ASSERT_CU(CU(cuLaunchKernel)(kernel(module, "recurse"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    expect_sticky(CUDA_ERROR_HARDWARE_STACK_ERROR);
}

TEST_F(FaultTest, Assertions) {
    CUmodule module = nullptr;
    ASSERT_CU(CU(cuModuleLoadData)(&module, R"(
.version 8.0
.target sm_75
.address_size 64
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 g, .param .b64 c);
.global .align 1 .b8 text[6] = {115, 116, 97, 116, 101, 0};
.visible .entry fails()
{
    .reg .b64 %a;
    mov.u64 %a, text;
    {
        .param .b64 m, f, g, c;
        .param .b32 l;
        st.param.b64 [m], %a;
        st.param.b64 [f], %a;
        st.param.b32 [l], 12;
        st.param.b64 [g], %a;
        st.param.b64 [c], 1;
        call __assertfail, (m, f, l, g, c);
    }
    ret;
}
)"));
    m_store = kernel(m_module, "store");
    testing::internal::CaptureStderr();
    ASSERT_CU(CU(cuLaunchKernel)(kernel(module, "fails"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ASSERT);
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("state:12: state: block: [0,0,0], thread: [0,0,0] Assertion `state` failed."), std::string::npos)
        << said;
    expect_sticky(CUDA_ERROR_ASSERT);
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
