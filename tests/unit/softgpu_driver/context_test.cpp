// Tests of contexts.
#include <thread>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

TEST(ContextTest, NeedsOne) {
    ASSERT_CU(CU(cuInit)(0));
    CUdeviceptr p = 0;
    CUdevice device = 0;
    EXPECT_EQ(CU(cuMemAlloc_v2)(&p, 64), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(CU(cuCtxGetDevice)(&device), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(CU(cuCtxPopCurrent_v2)(nullptr), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(ContextTest, StackPerThread) {
    ASSERT_CU(CU(cuInit)(0));
    CUcontext a = nullptr, b = nullptr, now = nullptr;
    ASSERT_CU(CU(cuCtxCreate_v2)(&a, 0, 0));
    ASSERT_CU(CU(cuCtxCreate_v2)(&b, 0, 0));
    EXPECT_CU(CU(cuCtxGetCurrent)(&now));
    EXPECT_EQ(now, b);
    std::thread([] {
        CUcontext other = reinterpret_cast<CUcontext>(1);
        EXPECT_CU(CU(cuCtxGetCurrent)(&other));
        EXPECT_EQ(other, nullptr);
    }).join();
    EXPECT_CU(CU(cuCtxPopCurrent_v2)(&now));
    EXPECT_EQ(now, b);
    EXPECT_CU(CU(cuCtxGetCurrent)(&now));
    EXPECT_EQ(now, a);
    EXPECT_CU(CU(cuCtxPushCurrent_v2)(b));
    EXPECT_CU(CU(cuCtxDestroy_v2)(b));  // current: popped as well
    EXPECT_CU(CU(cuCtxGetCurrent)(&now));
    EXPECT_EQ(now, a);
    EXPECT_CU(CU(cuCtxDestroy_v2)(a));
    EXPECT_EQ(CU(cuCtxDestroy_v2)(a), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(ContextTest, DestroyedElsewhereIsRecognised) {
    ASSERT_CU(CU(cuInit)(0));
    CUcontext context = nullptr;
    ASSERT_CU(CU(cuCtxCreate_v2)(&context, 0, 0));
    std::thread([context] { EXPECT_CU(CU(cuCtxDestroy_v2)(context)); }).join();
    CUdeviceptr p = 0;
    EXPECT_EQ(CU(cuMemAlloc_v2)(&p, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_CU(CU(cuCtxPopCurrent_v2)(nullptr));
}

TEST(ContextTest, PrimaryCanBeCurrentBeforeItIsRetained) {
    ASSERT_CU(CU(cuInit)(0));
    CUcontext primary = nullptr;
    ASSERT_CU(CU(cuDevicePrimaryCtxRetain)(&primary, 0));
    ASSERT_CU(CU(cuDevicePrimaryCtxRelease_v2)(0));
    unsigned int flags = 0;
    int active = 1;
    EXPECT_CU(CU(cuDevicePrimaryCtxGetState)(0, &flags, &active));
    EXPECT_EQ(active, 0);
    EXPECT_CU(CU(cuCtxSetCurrent)(primary));
    CUdeviceptr p = 0;
    EXPECT_EQ(CU(cuMemAlloc_v2)(&p, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CUcontext again = nullptr;
    EXPECT_CU(CU(cuDevicePrimaryCtxRetain)(&again, 0));
    EXPECT_EQ(again, primary);
    EXPECT_CU(CU(cuMemAlloc_v2)(&p, 64));
    EXPECT_EQ(CU(cuCtxDestroy_v2)(primary), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CU(CU(cuDevicePrimaryCtxRelease_v2)(0));
    EXPECT_CU(CU(cuCtxSetCurrent)(nullptr));
    EXPECT_EQ(CU(cuDevicePrimaryCtxRelease_v2)(0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(ContextTest, EndsWithItsMemoryAndStreams) {
    ASSERT_CU(CU(cuInit)(0));
    CUcontext first = nullptr, second = nullptr;
    ASSERT_CU(CU(cuCtxCreate_v2)(&first, 0, 0));
    size_t free_before = 0, free_after = 0, total = 0;
    EXPECT_CU(CU(cuMemGetInfo_v2)(&free_before, &total));
    CUdeviceptr p = 0;
    CUstream stream = nullptr;
    EXPECT_CU(CU(cuMemAlloc_v2)(&p, 64 << 20));
    EXPECT_CU(CU(cuStreamCreate)(&stream, 0));
    EXPECT_CU(CU(cuCtxDestroy_v2)(first));
    ASSERT_CU(CU(cuCtxCreate_v2)(&second, 0, 0));
    EXPECT_CU(CU(cuMemGetInfo_v2)(&free_after, &total));
    EXPECT_EQ(free_after, free_before);
    EXPECT_EQ(CU(cuMemsetD8_v2)(p, 0, 64), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(CU(cuCtxDestroy_v2)(second));
}

TEST(ContextTest, LimitsAreKept) {
    ASSERT_CU(CU(cuInit)(0));
    CUcontext context = nullptr;
    ASSERT_CU(CU(cuCtxCreate_v2)(&context, 0, 0));
    size_t value = 0;
    EXPECT_CU(CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 32 << 10));
    EXPECT_CU(CU(cuCtxGetLimit)(&value, CU_LIMIT_STACK_SIZE));
    EXPECT_GE(value, size_t{32} << 10);
    EXPECT_EQ(CU(cuCtxSetLimit)(static_cast<CUlimit>(1000), 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuCtxGetLimit)(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH), CUDA_ERROR_UNSUPPORTED_LIMIT);
    EXPECT_CU(CU(cuCtxSetLimit)(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 4096));
    EXPECT_CU(CU(cuCtxGetLimit)(&value, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT));
    EXPECT_EQ(value, 4096u);
    // No more of the cache than the device says there is.
    int most = 0;
    EXPECT_CU(CU(cuDeviceGetAttribute)(&most, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 0));
    EXPECT_GT(most, 0);
    EXPECT_CU(CU(cuCtxSetLimit)(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, size_t(most) + 1));
    EXPECT_CU(CU(cuCtxGetLimit)(&value, CU_LIMIT_PERSISTING_L2_CACHE_SIZE));
    EXPECT_EQ(value, size_t(most));
    int least = -1, greatest = -1;
    EXPECT_CU(CU(cuCtxGetStreamPriorityRange)(&least, &greatest));
    EXPECT_EQ(least, 0);
    EXPECT_LT(greatest, least);
    EXPECT_CU(CU(cuCtxDestroy_v2)(context));
}

TEST(ContextTest, WildHandlesAreRefused) {
    ASSERT_CU(CU(cuInit)(0));
    auto wild = reinterpret_cast<CUcontext>(0x1234567);
    EXPECT_EQ(CU(cuCtxSetCurrent)(wild), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(CU(cuCtxPushCurrent_v2)(wild), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(CU(cuCtxDestroy_v2)(wild), CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace
}  // namespace softgpu_test
