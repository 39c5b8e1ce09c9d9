// Tests of virtual memory management.
#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

class VmmTest : public DriverTest {
protected:
    static constexpr size_t k_granule = 2 << 20;
    static CUmemAllocationProp properties() {
        CUmemAllocationProp prop{};
        prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        return prop;
    }
    static CUmemGenericAllocationHandle create(size_t bytes) {
        CUmemAllocationProp prop = properties();
        CUmemGenericAllocationHandle handle = 0;
        EXPECT_CU(CU(cuMemCreate)(&handle, bytes, &prop, 0));
        return handle;
    }
    static CUresult allow(CUdeviceptr address, size_t bytes, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
        return CU(cuMemSetAccess)(address, bytes, &access, 1);
    }
};

TEST_F(VmmTest, GranularityIsTwoMebibytes) {
    CUmemAllocationProp prop = properties();
    size_t granularity = 0;
    EXPECT_CU(CU(cuMemGetAllocationGranularity)(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EXPECT_EQ(granularity, k_granule);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(CU(cuMemCreate)(&handle, 4096, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop.location.id = 9;
    EXPECT_EQ(CU(cuMemCreate)(&handle, k_granule, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(VmmTest, ReservesWhereItIsAskedTo) {
    CUdeviceptr first = 0, second = 0, third = 0;
#if defined(WARPLINE_THREAD_SANITIZER)
    const CUdeviceptr hint = 0x1000000000;  // among the few addresses that the thread sanitizer leaves to programs
    const size_t bytes = size_t{1} << 36;
#else
    const CUdeviceptr hint = 0x300000000000;
    const size_t bytes = size_t{1} << 40;
#endif
    EXPECT_CU(CU(cuMemAddressReserve)(&first, bytes, 0, hint, 0));
    EXPECT_EQ(first, hint);
    // Taken: somewhere else.
    EXPECT_CU(CU(cuMemAddressReserve)(&second, k_granule, 0, hint, 0));
    EXPECT_NE(second, hint);
    EXPECT_EQ(second % k_granule, 0u);
    EXPECT_EQ(CU(cuMemAddressFree)(first, k_granule), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuMemAddressFree)(first, bytes));
    EXPECT_CU(CU(cuMemAddressReserve)(&third, k_granule, uint64_t{64} << 20, hint, 0));
    EXPECT_EQ(third, hint);
    EXPECT_CU(CU(cuMemAddressFree)(second, k_granule));
    EXPECT_CU(CU(cuMemAddressFree)(third, k_granule));
}

TEST_F(VmmTest, MapsUsesAndUnmaps) {
    CUmodule module = load_kernels();
    CUdeviceptr base = 0;
    ASSERT_CU(CU(cuMemAddressReserve)(&base, 8 * k_granule, 0, 0, 0));
    size_t before = 0, after = 0, total = 0;
    EXPECT_CU(CU(cuMemGetInfo_v2)(&before, &total));
    CUmemGenericAllocationHandle a = create(k_granule), b = create(2 * k_granule);
    EXPECT_CU(CU(cuMemGetInfo_v2)(&after, &total));
    EXPECT_EQ(after + 3 * k_granule, before);
    EXPECT_EQ(CU(cuMemMap)(base + 4096, k_granule, 0, a, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemMap)(base, 2 * k_granule, 0, a, 0), CUDA_ERROR_NOT_SUPPORTED);  // DB-63
    ASSERT_CU(CU(cuMemMap)(base, k_granule, 0, a, 0));
    ASSERT_CU(CU(cuMemMap)(base + k_granule, 2 * k_granule, 0, b, 0));
    EXPECT_EQ(CU(cuMemMap)(base + 2 * k_granule, k_granule, 0, a, 0), CUDA_ERROR_INVALID_VALUE);
    // Without access nothing works.
    EXPECT_EQ(CU(cuMemsetD8_v2)(base, 1, 16), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CU(allow(base, 3 * k_granule));
    // A copy and a kernel go across the seam.
    std::vector<uint8_t> host(4096, 9), out(4096);
    EXPECT_CU(CU(cuMemcpyHtoD_v2)(base + k_granule - 2048, host.data(), 4096));
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(out.data(), base + k_granule - 2048, 4096));
    EXPECT_EQ(out, host);
    EXPECT_CU(launch_store(module, base + k_granule - 4, 1));
    EXPECT_CU(launch_store(module, base + 3 * k_granule - 4, 2));
    EXPECT_CU(CU(cuCtxSynchronize)());
    EXPECT_EQ(CU(cuMemUnmap)(base, 2 * k_granule), CUDA_ERROR_INVALID_VALUE);  // would cut a mapping
    EXPECT_CU(CU(cuMemUnmap)(base, 3 * k_granule));
    EXPECT_EQ(CU(cuMemsetD8_v2)(base, 1, 16), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuMemRelease)(a));
    EXPECT_CU(CU(cuMemRelease)(b));
    EXPECT_EQ(CU(cuMemRelease)(b), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuMemGetInfo_v2)(&after, &total));
    EXPECT_EQ(after, before);
    EXPECT_CU(CU(cuMemAddressFree)(base, 8 * k_granule));
}

TEST_F(VmmTest, TheSameMemoryAtTwoAddresses) {
    CUdeviceptr base = 0;
    ASSERT_CU(CU(cuMemAddressReserve)(&base, 4 * k_granule, 0, 0, 0));
    CUmemGenericAllocationHandle memory = create(2 * k_granule);
    ASSERT_CU(CU(cuMemMap)(base, 2 * k_granule, 0, memory, 0));
    ASSERT_CU(CU(cuMemMap)(base + 3 * k_granule, k_granule, k_granule, memory, 0));
    EXPECT_CU(CU(cuMemRelease)(memory));  // lives on while it is mapped
    ASSERT_CU(allow(base, 2 * k_granule));
    ASSERT_CU(allow(base + 3 * k_granule, k_granule));
    EXPECT_CU(CU(cuMemsetD32_v2)(base + k_granule, 77, 4));
    uint32_t value = 0;
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(&value, base + 3 * k_granule + 12, 4));
    EXPECT_EQ(value, 77u);
    CUmemGenericAllocationHandle found = 0;
    EXPECT_CU(CU(cuMemRetainAllocationHandle)(&found, reinterpret_cast<void*>(base + 100)));
    CUmemAllocationProp prop{};
    EXPECT_CU(CU(cuMemGetAllocationPropertiesFromHandle)(&prop, found));
    EXPECT_EQ(prop.type, CU_MEM_ALLOCATION_TYPE_PINNED);
    EXPECT_CU(CU(cuMemRelease)(found));
    EXPECT_CU(CU(cuMemUnmap)(base, 2 * k_granule));
    EXPECT_CU(CU(cuMemUnmap)(base + 3 * k_granule, k_granule));
    EXPECT_CU(CU(cuMemAddressFree)(base, 4 * k_granule));
}

TEST_F(VmmTest, NewMemoryIsZeroEvenWhenItIsReused) {
    CUdeviceptr base = 0;
    ASSERT_CU(CU(cuMemAddressReserve)(&base, k_granule, 0, 0, 0));
    for (int round = 0; round < 2; ++round) {
        CUmemGenericAllocationHandle memory = create(k_granule);
        ASSERT_CU(CU(cuMemMap)(base, k_granule, 0, memory, 0));
        ASSERT_CU(allow(base, k_granule));
        uint32_t value = 1;
        EXPECT_CU(CU(cuMemcpyDtoH_v2)(&value, base + 4096, 4));
        EXPECT_EQ(value, 0u);
        EXPECT_CU(CU(cuMemsetD8_v2)(base, 0xff, k_granule));
        EXPECT_CU(CU(cuMemUnmap)(base, k_granule));
        EXPECT_CU(CU(cuMemRelease)(memory));
    }
    EXPECT_CU(CU(cuMemAddressFree)(base, k_granule));
}

TEST_F(VmmTest, ReadOnlyAccessStopsCopies) {
    CUdeviceptr base = 0;
    ASSERT_CU(CU(cuMemAddressReserve)(&base, k_granule, 0, 0, 0));
    CUmemGenericAllocationHandle memory = create(k_granule);
    ASSERT_CU(CU(cuMemMap)(base, k_granule, 0, memory, 0));
    ASSERT_CU(allow(base, k_granule, CU_MEM_ACCESS_FLAGS_PROT_READ));
    uint32_t value = 1;
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(&value, base, 4));
    EXPECT_EQ(CU(cuMemcpyHtoD_v2)(base, &value, 4), CUDA_ERROR_INVALID_VALUE);
    unsigned long long flags = 0;
    CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0};
    EXPECT_CU(CU(cuMemGetAccess)(&flags, &here, base));
    EXPECT_EQ(flags, static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READ));
    EXPECT_CU(CU(cuMemUnmap)(base, k_granule));
    EXPECT_CU(CU(cuMemRelease)(memory));
    EXPECT_CU(CU(cuMemAddressFree)(base, k_granule));
}

TEST_F(VmmTest, FailsWhenTheDeviceIsFull) {
    CUmemAllocationProp prop = properties();
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(CU(cuMemCreate)(&handle, uint64_t{1} << 44, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace
}  // namespace softgpu_test
