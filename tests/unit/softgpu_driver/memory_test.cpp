// Tests of memory.
#include <cstring>
#include <memory>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

class MemoryTest : public DriverTest {};

template <typename T>
T pointer_attribute(CUdeviceptr p, CUpointer_attribute which) {
    T value{};
    EXPECT_CU(CU(cuPointerGetAttribute)(&value, which, p)) << which;
    return value;
}

TEST_F(MemoryTest, AllocatesAlignedAndCounts) {
    size_t before = 0, after = 0, total = 0;
    EXPECT_CU(CU(cuMemGetInfo_v2)(&before, &total));
    EXPECT_LE(before, total);
    CUdeviceptr small = 0, large = 0;
    EXPECT_CU(CU(cuMemAlloc_v2)(&small, 1));
    EXPECT_CU(CU(cuMemAlloc_v2)(&large, 100 << 20));
    EXPECT_EQ(small % 256, 0u);
    EXPECT_EQ(large % 256, 0u);
    EXPECT_CU(CU(cuMemGetInfo_v2)(&after, &total));
    EXPECT_LE(after + (100 << 20), before);
    EXPECT_CU(CU(cuMemFree_v2)(large));
    EXPECT_CU(CU(cuMemFree_v2)(small));
    EXPECT_CU(CU(cuMemFree_v2)(0));
}

TEST_F(MemoryTest, RefusesWhatCannotBe) {
    CUdeviceptr p = 0;
    EXPECT_EQ(CU(cuMemAlloc_v2)(nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemAlloc_v2)(&p, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemAlloc_v2)(&p, size_t{1} << 44), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(CU(cuMemAlloc_v2)(&p, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(p, 0u);
    ASSERT_CU(CU(cuMemAlloc_v2)(&p, 64));
    EXPECT_EQ(CU(cuMemFree_v2)(p + 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuMemFree_v2)(p));
    EXPECT_EQ(CU(cuMemFree_v2)(p), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryTest, TheWholeDeviceAndNoMore) {
    size_t free = 0, total = 0;
    EXPECT_CU(CU(cuMemGetInfo_v2)(&free, &total));
    CUdeviceptr all = 0, more = 0;
    EXPECT_CU(CU(cuMemAlloc_v2)(&all, free));
    EXPECT_EQ(CU(cuMemAlloc_v2)(&more, 4 << 20), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CU(CU(cuMemFree_v2)(all));
    EXPECT_CU(CU(cuMemAlloc_v2)(&more, 4 << 20));
    EXPECT_CU(CU(cuMemFree_v2)(more));
}

TEST_F(MemoryTest, PitchIsRoundedAndHoldsRows) {
    CUdeviceptr p = 0;
    size_t pitch = 0;
    EXPECT_CU(CU(cuMemAllocPitch_v2)(&p, &pitch, 1000, 10, 4));
    EXPECT_GE(pitch, 1000u);
    EXPECT_EQ(pitch % 256, 0u);
    EXPECT_CU(CU(cuMemsetD2D8_v2)(p, pitch, 1, 1000, 10));
    EXPECT_EQ(CU(cuMemAllocPitch_v2)(&p, &pitch, 1000, 10, 3), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuMemFree_v2)(p));
}

TEST_F(MemoryTest, PointersTellWhatTheyAre) {
    CUdeviceptr device = 0, managed = 0;
    void* host = nullptr;
    ASSERT_CU(CU(cuMemAlloc_v2)(&device, 1000));
    ASSERT_CU(CU(cuMemAllocManaged)(&managed, 1000, CU_MEM_ATTACH_GLOBAL));
    ASSERT_CU(CU(cuMemHostAlloc)(&host, 1000, 0));
    auto host_pointer = reinterpret_cast<CUdeviceptr>(host);
    EXPECT_EQ(pointer_attribute<unsigned int>(device + 10, CU_POINTER_ATTRIBUTE_MEMORY_TYPE), CU_MEMORYTYPE_DEVICE);
    EXPECT_EQ(pointer_attribute<unsigned int>(host_pointer, CU_POINTER_ATTRIBUTE_MEMORY_TYPE), CU_MEMORYTYPE_HOST);
    EXPECT_EQ(pointer_attribute<unsigned int>(managed, CU_POINTER_ATTRIBUTE_IS_MANAGED), 1u);
    EXPECT_EQ(pointer_attribute<CUcontext>(device, CU_POINTER_ATTRIBUTE_CONTEXT), context());
    EXPECT_EQ(pointer_attribute<CUdeviceptr>(device + 10, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR), device);
    EXPECT_EQ(pointer_attribute<size_t>(device + 10, CU_POINTER_ATTRIBUTE_RANGE_SIZE), 1000u);
    EXPECT_EQ(pointer_attribute<void*>(host_pointer + 4, CU_POINTER_ATTRIBUTE_HOST_POINTER),
              reinterpret_cast<void*>(host_pointer + 4));
    CUdeviceptr base = 0;
    size_t size = 0;
    EXPECT_CU(CU(cuMemGetAddressRange_v2)(&base, &size, device + 999));
    EXPECT_EQ(base, device);
    EXPECT_EQ(size, 1000u);
    unsigned int type = 99;
    int local = 0;
    EXPECT_EQ(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&local)),
              CUDA_ERROR_INVALID_VALUE);
    // Several at once succeed for unknown memory and say that it is unknown.
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    int ordinal = 0;
    void* data[] = {&type, &ordinal};
    EXPECT_CU(CU(cuPointerGetAttributes)(2, which, data, reinterpret_cast<CUdeviceptr>(&local)));
    EXPECT_EQ(type, 0u);
    EXPECT_EQ(ordinal, CU_DEVICE_INVALID);
    EXPECT_CU(CU(cuMemFree_v2)(device));
    EXPECT_CU(CU(cuMemFree_v2)(managed));
    EXPECT_CU(CU(cuMemFreeHost)(host));
}

TEST_F(MemoryTest, HostMemoryIsMappedAtItsAddress) {
    CUmodule module = load_kernels();
    uint32_t* host = nullptr;
    ASSERT_CU(CU(cuMemHostAlloc)(reinterpret_cast<void**>(&host), 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    CUdeviceptr device = 0;
    EXPECT_CU(CU(cuMemHostGetDevicePointer_v2)(&device, host, 0));
    EXPECT_EQ(device, reinterpret_cast<CUdeviceptr>(host));
    EXPECT_CU(launch_store(module, device + 8, 123));
    EXPECT_CU(CU(cuCtxSynchronize)());
    EXPECT_EQ(host[2], 123u);
    unsigned int flags = 0;
    EXPECT_CU(CU(cuMemHostGetFlags)(&flags, host));
    EXPECT_NE(flags & CU_MEMHOSTALLOC_DEVICEMAP, 0u);
    EXPECT_EQ(CU(cuMemFree_v2)(device), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuMemFreeHost)(host));
    EXPECT_EQ(CU(cuMemFreeHost)(host), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryTest, RegisteredMemoryIsUsableUntilUnregistered) {
    CUmodule module = load_kernels();
    auto memory = std::make_unique<uint32_t[]>(1024);
    ASSERT_CU(CU(cuMemHostRegister_v2)(memory.get(), 4096, 0));
    EXPECT_EQ(CU(cuMemHostRegister_v2)(memory.get() + 10, 16, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT_CU(launch_store(module, reinterpret_cast<CUdeviceptr>(memory.get() + 1), 5));
    EXPECT_CU(CU(cuCtxSynchronize)());
    EXPECT_EQ(memory[1], 5u);
    EXPECT_CU(CU(cuMemHostUnregister)(memory.get()));
    EXPECT_EQ(CU(cuMemHostUnregister)(memory.get()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_F(MemoryTest, ManagedMemoryIsSharedWithTheHost) {
    CUmodule module = load_kernels();
    CUdeviceptr managed = 0;
    ASSERT_CU(CU(cuMemAllocManaged)(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    auto* words = reinterpret_cast<uint32_t*>(managed);
    words[0] = 7;
    uint32_t value = 3;
    void* params[] = {&managed, &value};
    EXPECT_CU(CU(cuLaunchKernel)(kernel(module, "add"), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    EXPECT_CU(CU(cuCtxSynchronize)());
    EXPECT_EQ(words[0], 10u);
    int read_mostly = -1;
    EXPECT_CU(CU(cuMemAdvise_v2)(managed, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, {CU_MEM_LOCATION_TYPE_DEVICE, 0}));
    EXPECT_CU(CU(cuMemRangeGetAttribute)(&read_mostly, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, 4096));
    EXPECT_EQ(read_mostly, 1);
    EXPECT_CU(CU(cuMemPrefetchAsync_v2)(managed, 4096, {CU_MEM_LOCATION_TYPE_HOST, 0}, 0, nullptr));
    int location = 0;
    EXPECT_CU(CU(cuMemRangeGetAttribute)(&location, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, managed, 4096));
    EXPECT_EQ(location, CU_DEVICE_CPU);
    EXPECT_EQ(CU(cuMemAdvise_v2)(managed, 8192, CU_MEM_ADVISE_SET_READ_MOSTLY, {CU_MEM_LOCATION_TYPE_DEVICE, 0}),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemAllocManaged)(&managed, 64, 0), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace softgpu_test
