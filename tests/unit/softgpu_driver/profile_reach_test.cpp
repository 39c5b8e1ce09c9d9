// The row of docs/driver-behaviour.md that is about what kernels reach beside memory: DB-18.
#include "tests/unit/softgpu_driver/profiles.h"

namespace softgpu_test {
namespace {

/// What a kernel that writes before memory gives.
CUresult write_before(CUdeviceptr memory) {
    EXPECT_CU(launch_store(load_kernels(), memory - 64, 1));
    return CU(cuCtxSynchronize)();
}

CUdeviceptr mapped_at_the_beginning(size_t reserved_bytes) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = 0;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0;
    EXPECT_CU(CU(cuMemAddressReserve)(&address, reserved_bytes, 0, 0, 0));
    EXPECT_CU(CU(cuMemCreate)(&handle, 2 << 20, &properties, 0));
    EXPECT_CU(CU(cuMemMap)(address, 2 << 20, 0, handle, 0));
    CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT_CU(CU(cuMemSetAccess)(address, 2 << 20, &access, 1));
    return address;
}

TEST(ProfileReachTest, KernelsReachWhatLiesBeforeMemory) {
    const auto allocated = [] {
        CUdeviceptr memory = 0;
        EXPECT_CU(CU(cuMemAlloc_v2)(&memory, 8 << 20));
        return memory;
    };
    const size_t large = size_t{4} << 30, small = 64 << 20;
    on_profile("generous", [&] {
        EXPECT_CU(write_before(allocated()));
        EXPECT_CU(write_before(mapped_at_the_beginning(large)));
        EXPECT_EQ(write_before(mapped_at_the_beginning(small)), CUDA_ERROR_ILLEGAL_ADDRESS);
    });
    on_profile("strict", [&] { EXPECT_EQ(write_before(allocated()), CUDA_ERROR_ILLEGAL_ADDRESS); });
    on_profile("strict", [&] { EXPECT_EQ(write_before(mapped_at_the_beginning(large)), CUDA_ERROR_ILLEGAL_ADDRESS); });
    on_profile("generous", [&] { EXPECT_EQ(write_before(allocated()), CUDA_ERROR_ILLEGAL_ADDRESS); },
               {{"SOFTGPU_CHECK", "memory"}});
    // What has been freed, and with it what lay before, is gone.
    on_profile("generous", [&] {
        const CUdeviceptr memory = allocated();
        EXPECT_CU(write_before(memory));
        EXPECT_CU(CU(cuMemFree_v2)(memory));
        EXPECT_EQ(write_before(memory), CUDA_ERROR_ILLEGAL_ADDRESS);
    });
    on_profile("generous", [&] {
        const CUdeviceptr address = mapped_at_the_beginning(large);
        EXPECT_CU(write_before(address));
        EXPECT_CU(CU(cuMemUnmap)(address, 2 << 20));
        EXPECT_CU(CU(cuMemAddressFree)(address, large));
        EXPECT_EQ(write_before(address), CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

}  // namespace
}  // namespace softgpu_test
