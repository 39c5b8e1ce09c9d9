// Tests of launches.
#include <algorithm>
#include <string>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

class LaunchTest : public DriverTest {
protected:
    void SetUp() override {
        DriverTest::SetUp();
        m_module = load_kernels();
        ASSERT_CU(CU(cuMemAlloc_v2)(&m_memory, 4096));
        ASSERT_CU(CU(cuMemsetD8_v2)(m_memory, 0, 4096));
        ASSERT_CU(CU(cuCtxSynchronize)());  // streams that do not block do not wait for it
    }
    CUresult shape(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                   unsigned int bz, unsigned int shared = 0) {
        uint32_t zero = 0;
        void* params[] = {&m_memory, &zero, &zero};
        return CU(cuLaunchKernel)(function, gx, gy, gz, bx, by, bz, shared, nullptr, params, nullptr);
    }
    uint32_t word(size_t index) {
        uint32_t value = 0;
        EXPECT_CU(CU(cuMemcpyDtoH_v2)(&value, m_memory + 4 * index, 4));
        return value;
    }

    CUmodule m_module = nullptr;
    CUdeviceptr m_memory = 0;
};

TEST_F(LaunchTest, GridsAndBlocksReachEveryElement) {
    uint32_t start = 100, n = 1000;
    void* params[] = {&m_memory, &start, &n};
    EXPECT_CU(CU(cuLaunchKernel)(kernel(m_module, "fill"), 8, 1, 1, 128, 1, 1, 0, nullptr, params, nullptr));
    std::vector<uint32_t> out(1024);
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(out.data(), m_memory, 4096));
    for (uint32_t i = 0; i < 1024; ++i) ASSERT_EQ(out[i], i < n ? start + i : 0u) << i;
}

TEST_F(LaunchTest, ImpossibleShapesAreInvalidValues) {
    CUfunction fill = kernel(m_module, "fill");
    EXPECT_CU(shape(fill, 1, 1, 1, 1024, 1, 1));
    EXPECT_EQ(shape(fill, 0, 1, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(shape(fill, 1, 65536, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(shape(fill, 1, 1, 1, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(shape(fill, 1, 1, 1, 1025, 1, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(shape(fill, 1, 1, 1, 64, 64, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(shape(fill, 1, 1, 1, 1, 1, 65), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(shape(fill, 1, 1, 1, 1, 1, 1, 49153), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuCtxSynchronize)());
}

TEST_F(LaunchTest, KernelsOfLibrariesReportShapesAsFunctionsDo_DB_37) {
    CUlibrary library = nullptr;
    CUkernel fill = nullptr;
    ASSERT_CU(CU(cuLibraryLoadData)(&library, k_kernels_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    ASSERT_CU(CU(cuLibraryGetKernel)(&fill, library, "fill"));
    EXPECT_EQ(shape(reinterpret_cast<CUfunction>(fill), 1, 1, 1, 2048, 1, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuLibraryUnload)(library));
}

TEST_F(LaunchTest, LaunchBoundsHold_DB_38) {
    CUfunction bounded = kernel(m_module, "bounded");
    EXPECT_CU(shape(bounded, 1, 1, 1, 64, 1, 1));
    EXPECT_EQ(shape(bounded, 1, 1, 1, 65, 1, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchTest, DynamicSharedMemoryBeyondTheDefaultIsOptIn) {
    CUfunction user = kernel(m_module, "shared_user");
    EXPECT_CU(shape(user, 1, 1, 1, 1, 1, 1, 1024));
    EXPECT_EQ(word(0), 5u);
    EXPECT_EQ(shape(user, 1, 1, 1, 1, 1, 1, 50 << 10), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuFuncSetAttribute)(user, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
    EXPECT_CU(shape(user, 1, 1, 1, 1, 1, 1, 50 << 10));
    EXPECT_CU(CU(cuCtxSynchronize)());
}

TEST_F(LaunchTest, PackedParametersWork) {
    struct {
        CUdeviceptr address;
        uint32_t value;
    } packed = {m_memory + 8, 77};
    size_t size = 12;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CUfunction store = kernel(m_module, "store");
    EXPECT_CU(CU(cuLaunchKernel)(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
    EXPECT_EQ(word(2), 77u);
    size = 8;
    EXPECT_CU(CU(cuLaunchKernel)(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
    EXPECT_EQ(word(2), 0u) << "what is left out is zero (DB-36)";
    size = 0;
    EXPECT_EQ(CU(cuLaunchKernel)(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuLaunchKernel)(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchTest, ParametersAreCopiedAtTheCall) {
    CUdeviceptr flag = m_memory + 4;
    uint32_t value = 5;
    CUdeviceptr address = m_memory;
    ASSERT_CU(launch_wait(m_module, flag));
    void* params[] = {&address, &value};
    EXPECT_CU(CU(cuLaunchKernel)(kernel(m_module, "store"), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    address = 0;
    value = 6;
    CUstream other = nullptr;
    ASSERT_CU(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    EXPECT_CU(launch_store(m_module, flag, 1, other));
    EXPECT_EQ(word(0), 5u);
}

TEST_F(LaunchTest, ExtendedLaunchesAndTheirAttributes) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 32;
    config.blockDimY = config.blockDimZ = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    uint32_t start = 9, n = 32;
    void* params[] = {&m_memory, &start, &n};
    CUfunction fill = kernel(m_module, "fill");
    EXPECT_CU(CU(cuLaunchKernelEx)(&config, fill, params, nullptr));
    EXPECT_EQ(word(31), 40u);
    config.gridDimX = 1 << 20;
    EXPECT_EQ(CU(cuLaunchKernelEx)(&config, fill, params, nullptr), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    config.gridDimX = 1;
    attribute.id = static_cast<CUlaunchAttributeID>(1000);
    EXPECT_EQ(CU(cuLaunchKernelEx)(&config, fill, params, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchTest, OccupancyAgreesWithLimits) {
    CUfunction fill = kernel(m_module, "fill"), user = kernel(m_module, "shared_user");
    int blocks = 0, minimum = 0, block = 0, per_sm = 0, threads = 0, shared = 0;
    EXPECT_CU(CU(cuDeviceGetAttribute)(&per_sm, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 0));
    EXPECT_CU(CU(cuDeviceGetAttribute)(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));
    EXPECT_CU(CU(cuDeviceGetAttribute)(&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 0));
    EXPECT_CU(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, fill, 32, 0));
    EXPECT_EQ(blocks, per_sm);
    EXPECT_CU(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, fill, 1024, 0));
    EXPECT_EQ(blocks, threads / 1024);
    EXPECT_CU(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, user, 32, 40 << 10));
    EXPECT_EQ(blocks, shared / ((44 << 10) + 1024));
    EXPECT_CU(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, fill, 4096, 0));
    EXPECT_EQ(blocks, 0);
    EXPECT_CU(CU(cuOccupancyMaxPotentialBlockSize)(&minimum, &block, fill, nullptr, 0, 0));
    EXPECT_GT(block, 0);
    EXPECT_LE(block, 1024);
    EXPECT_GT(minimum, 0);
    size_t available = 0;
    EXPECT_CU(CU(cuOccupancyAvailableDynamicSMemPerBlock)(&available, user, 1, 32));
    EXPECT_GT(available, size_t{40} << 10);
    EXPECT_LE(available, size_t{48} << 10) << "more than a launch may have as the kernel is set up";
    EXPECT_CU(CU(cuFuncSetAttribute)(user, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
    EXPECT_CU(CU(cuOccupancyAvailableDynamicSMemPerBlock)(&available, user, 1, 32));
    EXPECT_EQ(available, size_t{64} << 10);
    EXPECT_EQ(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, nullptr, 32, 0), CUDA_ERROR_INVALID_HANDLE);
}

/// A kernel that has a hundred words in registers at once. @param bounds  what its code says of how it is launched
std::string kernel_of_many_registers(const std::string& bounds) {
    std::string loads, stores;
    for (int i = 0; i < 100; ++i) {
        const std::string at = "r" + std::to_string(i), place = "[a+" + std::to_string(4 * i) + "]";
        loads += "ld.volatile.global.u32 " + at + ", " + place + ";\n";
        stores += "st.volatile.global.u32 " + place + ", " + at + ";\n";
    }
    return ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry many(.param .u64 p) " + bounds +
           " {\n.reg .u64 a;\n.reg .u32 r<100>;\nld.param.u64 a, [p];\n" + loads + stores + "ret;\n}\n";
}

TEST_F(LaunchTest, RegistersLeaveRoomForTheBlocksThatTheCodeIsFor) {
    struct Case {
        const char* bounds;
        int registers, threads, blocks_of_1024;
    };
    const Case cases[] = {{"", 0, 512, 0},
                          {".maxntid 1024", 64, 1024, 1},
                          {".maxntid 256 .minnctapersm 4", 64, 256, 0},
                          {".maxntid 1024 .minnctapersm 2", 64, 1024, 1},  // which no multiprocessor takes
                          {".maxnreg 40", 40, 1024, 1}};
    for (const Case& one : cases) {
        CUmodule module = nullptr;
        ASSERT_CU(CU(cuModuleLoadData)(&module, kernel_of_many_registers(one.bounds).c_str())) << one.bounds;
        CUfunction many = kernel(module, "many");
        int registers = 0, threads = 0, blocks = -1;
        EXPECT_CU(CU(cuFuncGetAttribute)(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, many));
        EXPECT_CU(CU(cuFuncGetAttribute)(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, many));
        EXPECT_CU(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, many, 1024, 0));
        if (one.registers != 0)
            EXPECT_EQ(registers, one.registers) << one.bounds;
        else
            EXPECT_GT(registers, 100);
        EXPECT_EQ(threads, one.threads) << one.bounds;
        EXPECT_EQ(blocks, one.blocks_of_1024) << one.bounds;
        EXPECT_CU(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, many, threads, 0));
        EXPECT_GE(blocks, 1) << one.bounds;
        EXPECT_CU(CU(cuModuleUnload)(module));
    }
}

}  // namespace
}  // namespace softgpu_test
