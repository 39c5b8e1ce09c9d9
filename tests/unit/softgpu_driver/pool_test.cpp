// Tests of pools of memory.
#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

class PoolTest : public DriverTest {
protected:
    void SetUp() override {
        DriverTest::SetUp();
        ASSERT_CU(CU(cuStreamCreate)(&m_stream, CU_STREAM_NON_BLOCKING));
        CUmemPoolProps properties{};
        properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        ASSERT_CU(CU(cuMemPoolCreate)(&m_pool, &properties));
    }
    uint64_t attribute(CUmemPool_attribute which) {
        cuuint64_t value = 0;
        EXPECT_CU(CU(cuMemPoolGetAttribute)(m_pool, which, &value));
        return value;
    }
    CUstream m_stream = nullptr;
    CUmemoryPool m_pool = nullptr;
};

TEST_F(PoolTest, MemoryIsUsableInStreamOrder) {
    CUmodule module = load_kernels();
    CUdeviceptr p = 0;
    ASSERT_CU(CU(cuMemAllocAsync)(&p, 1000, m_stream));
    EXPECT_CU(launch_store(module, p + 4, 31, m_stream));
    uint32_t value = 0;
    EXPECT_CU(CU(cuMemcpyDtoHAsync_v2)(&value, p + 4, 4, m_stream));
    EXPECT_CU(CU(cuMemFreeAsync)(p, m_stream));
    EXPECT_EQ(CU(cuMemFreeAsync)(p, m_stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    EXPECT_EQ(value, 31u);
    EXPECT_EQ(CU(cuMemsetD8_v2)(p, 0, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PoolTest, CountsAndKeepsWhatItIsTold) {
    cuuint64_t keep = 64 << 20;
    EXPECT_CU(CU(cuMemPoolSetAttribute)(m_pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    CUdeviceptr p = 0;
    ASSERT_CU(CU(cuMemAllocFromPoolAsync)(&p, 10 << 20, m_pool, m_stream));
    EXPECT_EQ(attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), uint64_t{10} << 20);
    EXPECT_GE(attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), uint64_t{10} << 20);
    EXPECT_CU(CU(cuMemFreeAsync)(p, m_stream));
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    EXPECT_EQ(attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
    EXPECT_EQ(attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH), uint64_t{10} << 20);
    EXPECT_GE(attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), uint64_t{10} << 20);
    CUdeviceptr again = 0;
    ASSERT_CU(CU(cuMemAllocFromPoolAsync)(&again, 10 << 20, m_pool, m_stream));
    EXPECT_EQ(again, p);
    EXPECT_CU(CU(cuMemFreeAsync)(again, m_stream));
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    EXPECT_CU(CU(cuMemPoolTrimTo)(m_pool, 0));
    EXPECT_EQ(attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
    cuuint64_t reset = 0, wrong = 1;
    EXPECT_CU(CU(cuMemPoolSetAttribute)(m_pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &reset));
    EXPECT_EQ(CU(cuMemPoolSetAttribute)(m_pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &wrong), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0u);
}

TEST_F(PoolTest, DefaultPoolIsCurrentUntilReplaced) {
    CUmemoryPool standard = nullptr, now = nullptr;
    EXPECT_CU(CU(cuDeviceGetDefaultMemPool)(&standard, 0));
    EXPECT_CU(CU(cuDeviceGetMemPool)(&now, 0));
    EXPECT_EQ(now, standard);
    EXPECT_EQ(CU(cuMemPoolDestroy)(standard), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuDeviceSetMemPool)(0, m_pool));
    CUdeviceptr p = 0;
    EXPECT_CU(CU(cuMemAllocAsync)(&p, 100, m_stream));
    CUmemoryPool of = nullptr;
    EXPECT_CU(CU(cuPointerGetAttribute)(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    EXPECT_EQ(of, m_pool);
    EXPECT_CU(CU(cuMemFree_v2)(p));  // also allowed: waits for everything
    EXPECT_CU(CU(cuMemPoolDestroy)(m_pool));
    EXPECT_CU(CU(cuDeviceGetMemPool)(&now, 0));
    EXPECT_EQ(now, standard);
    EXPECT_EQ(CU(cuMemPoolTrimTo)(m_pool, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PoolTest, AllocationsOutliveTheirPoolsHandle) {
    CUdeviceptr p = 0;
    ASSERT_CU(CU(cuMemAllocFromPoolAsync)(&p, 1000, m_pool, m_stream));
    EXPECT_CU(CU(cuMemPoolDestroy)(m_pool));
    EXPECT_CU(CU(cuMemsetD8Async)(p, 1, 1000, m_stream));
    EXPECT_CU(CU(cuMemFreeAsync)(p, m_stream));
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
}

class ManagedPoolTest : public PoolTest {
protected:
    static CUmemPoolProps properties_at(CUmemLocation place) {
        CUmemPoolProps properties{};
        properties.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
        properties.location = place;
        return properties;
    }
    static constexpr CUmemLocation k_device{CU_MEM_LOCATION_TYPE_DEVICE, 0}, k_host{CU_MEM_LOCATION_TYPE_HOST, 0},
        k_nowhere{CU_MEM_LOCATION_TYPE_NONE, 0};
};

TEST_F(ManagedPoolTest, HostAndDeviceUseItsMemory) {
    CUmodule module = load_kernels();
    const CUmemPoolProps properties = properties_at(k_device);
    ASSERT_CU(CU(cuMemPoolCreate)(&m_pool, &properties));
    CUdeviceptr p = 0;
    ASSERT_CU(CU(cuMemAllocFromPoolAsync)(&p, 1000, m_pool, m_stream));
    auto* host = reinterpret_cast<volatile uint32_t*>(p);
    host[0] = 5;
    EXPECT_CU(launch_store(module, p + 4, 31, m_stream));
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    EXPECT_EQ(host[0], 5u);
    EXPECT_EQ(host[1], 31u);
    unsigned managed = 0;
    CUmemoryPool pool = nullptr;
    EXPECT_CU(CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
    EXPECT_CU(CU(cuPointerGetAttribute)(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    EXPECT_EQ(managed, 1u);
    EXPECT_EQ(pool, m_pool);
    int preferred = -5;
    EXPECT_CU(CU(cuMemRangeGetAttribute)(&preferred, sizeof preferred, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, 1000));
    EXPECT_EQ(preferred, 0);
    EXPECT_EQ(attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1000u);
    EXPECT_CU(CU(cuMemFreeAsync)(p, m_stream));
    EXPECT_EQ(CU(cuMemFreeAsync)(p, m_stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    EXPECT_EQ(attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
    EXPECT_EQ(attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1000u);
    ASSERT_CU(CU(cuMemAllocFromPoolAsync)(&p, 64, m_pool, m_stream));
    EXPECT_CU(CU(cuMemPoolDestroy)(m_pool));
    *reinterpret_cast<volatile uint32_t*>(p) = 1;  // outlives it
    EXPECT_CU(CU(cuMemFree_v2)(p));
}

TEST_F(ManagedPoolTest, EachPlaceHasADefaultAndACurrentOne) {
    constexpr auto k_managed = CU_MEM_ALLOCATION_TYPE_MANAGED;
    CUmemoryPool of_device = nullptr, of_host = nullptr, of_nowhere = nullptr, now = nullptr, made = nullptr;
    CUmemLocation device = k_device, host = k_host, nowhere = k_nowhere;
    EXPECT_CU(CU(cuMemGetDefaultMemPool)(&of_device, &device, k_managed));
    EXPECT_CU(CU(cuMemGetDefaultMemPool)(&of_host, &host, k_managed));
    EXPECT_CU(CU(cuMemGetDefaultMemPool)(&of_nowhere, &nowhere, k_managed));
    EXPECT_TRUE(of_device != of_host && of_host != of_nowhere && of_device != of_nowhere);
    EXPECT_EQ(CU(cuMemPoolDestroy)(of_host), CUDA_ERROR_INVALID_VALUE);
    const CUmemPoolProps properties = properties_at(k_host);
    ASSERT_CU(CU(cuMemPoolCreate)(&made, &properties));
    EXPECT_CU(CU(cuMemGetMemPool)(&now, &host, k_managed));
    EXPECT_EQ(now, of_host);
    EXPECT_CU(CU(cuMemSetMemPool)(&host, k_managed, made));
    EXPECT_EQ(CU(cuMemSetMemPool)(&device, k_managed, made), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemSetMemPool)(&host, k_managed, m_pool), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuDeviceSetMemPool)(0, of_device), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuMemGetMemPool)(&now, &host, k_managed));
    EXPECT_EQ(now, made);
    EXPECT_CU(CU(cuMemPoolDestroy)(made));
    EXPECT_CU(CU(cuMemGetMemPool)(&now, &host, k_managed));
    EXPECT_EQ(now, of_host);

    CUmemPoolProps bounded = properties_at(k_device), shared = bounded, absent = bounded;
    bounded.maxSize = 1 << 20;
    shared.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    absent.location.id = 1000;
    EXPECT_EQ(CU(cuMemPoolCreate)(&made, &bounded), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemPoolCreate)(&made, &shared), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemPoolCreate)(&made, &absent), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(PoolTest, WorkOnMemoryThatIsGoneIsAnErrorAndNoCrash) {
    CUmodule module = load_kernels();
    CUdeviceptr gate = 0, p = 0;
    CUstream other = nullptr, opener = nullptr;
    ASSERT_CU(CU(cuMemAlloc_v2)(&gate, 64));
    ASSERT_CU(CU(cuMemsetD8_v2)(gate, 0, 64));
    ASSERT_CU(CU(cuCtxSynchronize)());  // streams that do not block do not wait for it
    ASSERT_CU(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    ASSERT_CU(CU(cuStreamCreate)(&opener, CU_STREAM_NON_BLOCKING));
    ASSERT_CU(CU(cuCtxSynchronize)());
    ASSERT_CU(CU(cuMemAllocFromPoolAsync)(&p, 10 << 20, m_pool, m_stream));
    ASSERT_CU(launch_wait(module, gate, other));
    ASSERT_CU(CU(cuMemsetD8Async)(p, 1, 10 << 20, other));
    ASSERT_CU(CU(cuMemFreeAsync)(p, m_stream));  // not ordered after the other stream: a mistake
    ASSERT_CU(CU(cuStreamSynchronize)(m_stream));
    ASSERT_CU(CU(cuMemPoolTrimTo)(m_pool, 0));
    ASSERT_CU(launch_store(module, gate, 1, opener));
    EXPECT_EQ(CU(cuStreamSynchronize)(other), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace softgpu_test
