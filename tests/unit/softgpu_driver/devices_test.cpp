// Tests with several devices.
#include <cstdlib>
#include <cstring>

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {
namespace {

const int set_before_main =
    setenv("SOFTGPU_DEVICES", "3", 1) + setenv("SOFTGPU_MEMORY", "256MiB", 1) + setenv("SOFTGPU_COMPUTE_CAPABILITY", "9.0", 1);

class DevicesTest : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(set_before_main, 0);
        ASSERT_CU(CU(cuInit)(0));
        for (int i = 0; i < 2; ++i) {
            ASSERT_CU(CU(cuCtxCreate_v2)(&m_context[i], 0, i));
            m_module[i] = load_kernels();
            ASSERT_CU(CU(cuMemAlloc_v2)(&m_memory[i], 4096));
            ASSERT_CU(CU(cuCtxPopCurrent_v2)(nullptr));
        }
        ASSERT_CU(CU(cuCtxPushCurrent_v2)(m_context[0]));
    }
    void TearDown() override {
        for (CUcontext context : m_context) EXPECT_CU(CU(cuCtxDestroy_v2)(context));
        CU(cuCtxSetCurrent)(nullptr);
    }
    CUcontext m_context[2] = {};
    CUmodule m_module[2] = {};
    CUdeviceptr m_memory[2] = {};
};

TEST_F(DevicesTest, AreDifferentDevices) {
    int count = 0, bus[2] = {}, major = 0;
    CUuuid uuid[2] = {};
    EXPECT_CU(CU(cuDeviceGetCount)(&count));
    EXPECT_EQ(count, 3);
    for (int i = 0; i < 2; ++i) {
        EXPECT_CU(CU(cuDeviceGetAttribute)(&bus[i], CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i));
        EXPECT_CU(CU(cuDeviceGetUuid_v2)(&uuid[i], i));
    }
    EXPECT_NE(bus[0], bus[1]);
    EXPECT_NE(std::memcmp(&uuid[0], &uuid[1], 16), 0);
    size_t total = 0;
    EXPECT_CU(CU(cuDeviceTotalMem_v2)(&total, 2));
    EXPECT_EQ(total, size_t{256} << 20);
    EXPECT_CU(CU(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 2));
    EXPECT_EQ(major, 9);
}

TEST_F(DevicesTest, CopiesGoBetweenThem) {
    std::vector<uint8_t> host(4096, 7), out(4096);
    EXPECT_CU(CU(cuMemcpyHtoD_v2)(m_memory[0], host.data(), 4096));
    EXPECT_CU(CU(cuMemcpyPeer)(m_memory[1], m_context[1], m_memory[0], m_context[0], 4096));
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(out.data(), m_memory[1], 4096));
    EXPECT_EQ(out, host);
    EXPECT_CU(CU(cuMemcpyPeer)(m_memory[1], nullptr, m_memory[0], m_context[0], 4096));  // null: the current one
    EXPECT_EQ(CU(cuMemcpyPeer)(m_memory[1], reinterpret_cast<CUcontext>(0x10), m_memory[0], m_context[0], 4096),
              CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(DevicesTest, KernelsReachPeersOnlyWhenAllowed) {
    int can = 0;
    EXPECT_CU(CU(cuDeviceCanAccessPeer)(&can, 0, 1));
    EXPECT_EQ(can, 1);
    EXPECT_CU(CU(cuCtxEnablePeerAccess)(m_context[1], 0));
    EXPECT_EQ(CU(cuCtxEnablePeerAccess)(m_context[1], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    EXPECT_CU(launch_store(m_module[0], m_memory[1], 55));
    EXPECT_CU(CU(cuCtxSynchronize)());
    uint32_t value = 0;
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(&value, m_memory[1], 4));
    EXPECT_EQ(value, 55u);
    EXPECT_CU(CU(cuCtxDisablePeerAccess)(m_context[1]));
    EXPECT_EQ(CU(cuCtxDisablePeerAccess)(m_context[1]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    EXPECT_CU(launch_store(m_module[0], m_memory[1], 66));
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(DevicesTest, ManagedMemoryBelongsToAll) {
    CUdeviceptr managed = 0;
    ASSERT_CU(CU(cuMemAllocManaged)(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    EXPECT_CU(launch_store(m_module[0], managed, 1));
    EXPECT_CU(CU(cuCtxSynchronize)());
    ASSERT_CU(CU(cuCtxPushCurrent_v2)(m_context[1]));
    EXPECT_CU(launch_store(m_module[1], managed + 4, 2));
    EXPECT_CU(CU(cuCtxSynchronize)());
    ASSERT_CU(CU(cuCtxPopCurrent_v2)(nullptr));
    auto* words = reinterpret_cast<uint32_t*>(managed);
    EXPECT_EQ(words[0] + words[1], 3u);
}

TEST_F(DevicesTest, FaultsAndMemoryAreEachDevicesOwn) {
    size_t free_before = 0, free_after = 0, total = 0;
    ASSERT_CU(CU(cuCtxPushCurrent_v2)(m_context[1]));
    EXPECT_CU(CU(cuMemGetInfo_v2)(&free_before, &total));
    ASSERT_CU(CU(cuCtxPopCurrent_v2)(nullptr));
    CUdeviceptr large = 0;
    EXPECT_CU(CU(cuMemAlloc_v2)(&large, size_t{100} << 20));
    EXPECT_CU(launch_store(m_module[0], 0x10, 1));
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
    ASSERT_CU(CU(cuCtxPushCurrent_v2)(m_context[1]));
    EXPECT_CU(CU(cuMemGetInfo_v2)(&free_after, &total));
    EXPECT_EQ(free_after, free_before);
    EXPECT_CU(launch_store(m_module[1], m_memory[1], 77));
    EXPECT_CU(CU(cuCtxSynchronize)());
    uint32_t value = 0;
    EXPECT_CU(CU(cuMemcpyDtoH_v2)(&value, m_memory[1], 4));
    EXPECT_EQ(value, 77u);
    ASSERT_CU(CU(cuCtxPopCurrent_v2)(nullptr));
}

TEST_F(DevicesTest, ContextsWithoutMemoryLeftSaySo) {
    CUdeviceptr p = 0;
    EXPECT_EQ(CU(cuMemAlloc_v2)(&p, size_t{300} << 20), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CU(CU(cuMemAlloc_v2)(&p, size_t{100} << 20));
    EXPECT_CU(CU(cuMemFree_v2)(p));
}

TEST_F(DevicesTest, ClusterLaunchesAreCheckedWhereThereAreClusters) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {2, 1, 1};
    CUlaunchConfig config{3, 1, 1, 32, 1, 1, 0, nullptr, &attribute, 1};
    uint32_t zero = 0;
    void* params[] = {&m_memory[0], &zero, &zero};
    CUfunction fill = kernel(m_module[0], "fill");
    EXPECT_EQ(CU(cuLaunchKernelEx)(&config, fill, params, nullptr), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    attribute.value.clusterDim = {3, 1, 1};
    EXPECT_EQ(CU(cuLaunchKernelEx)(&config, fill, params, nullptr), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    attribute.value.clusterDim = {16, 1, 1};
    config.gridDimX = 16;
    EXPECT_EQ(CU(cuLaunchKernelEx)(&config, fill, params, nullptr), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    int clusters = 0;
    EXPECT_EQ(CU(cuOccupancyMaxPotentialClusterSize)(&clusters, fill, &config), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    attribute.value.clusterDim = {4, 1, 1};
    EXPECT_CU(CU(cuOccupancyMaxPotentialClusterSize)(&clusters, fill, &config));
    EXPECT_EQ(clusters, 8);
}

TEST_F(DevicesTest, ClustersAreOfPowersOfTwo) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    CUlaunchConfig config{48, 1, 1, 32, 1, 1, 0, nullptr, &attribute, 1};
    CUfunction fill = kernel(m_module[0], "fill");
    uint32_t zero = 0;
    void* params[] = {&m_memory[0], &zero, &zero};
    for (const bool allowed : {false, true}) {
        EXPECT_CU(CU(cuFuncSetAttribute)(fill, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, allowed ? 1 : 0));
        for (unsigned blocks = 1; blocks <= 24; ++blocks) {
            attribute.value.clusterDim = {blocks, 1, 1};
            const bool is_size = blocks == 1 || blocks == 2 || blocks == 4 || blocks == 8 || (allowed && blocks == 16);
            const CUresult wanted = is_size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
            int told = 0;
            EXPECT_EQ(CU(cuOccupancyMaxActiveClusters)(&told, fill, &config), wanted) << blocks;
            EXPECT_EQ(CU(cuOccupancyMaxPotentialClusterSize)(&told, fill, &config), wanted) << blocks;
            config.gridDimX = 2 * blocks;
            EXPECT_EQ(CU(cuLaunchKernelEx)(&config, fill, params, nullptr), wanted) << blocks;
        }
    }
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUDA_KERNEL_NODE_PARAMS launch{fill, 48, 1, 1, 32, 1, 1, 0, params, nullptr, nullptr, nullptr};
    ASSERT_CU(CU(cuGraphCreate)(&graph, 0));
    ASSERT_CU(CU(cuGraphAddKernelNode_v2)(&node, graph, nullptr, 0, &launch));
    attribute.value.clusterDim = {16, 1, 1};
    EXPECT_CU(CU(cuGraphKernelNodeSetAttribute)(node, attribute.id, &attribute.value));
    attribute.value.clusterDim = {3, 1, 1};
    EXPECT_EQ(CU(cuGraphKernelNodeSetAttribute)(node, attribute.id, &attribute.value), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
}

// DB-60: text is counted as it is, as machine code is.
TEST_F(DevicesTest, SharedVariablesOfTextTakeTheirBytes) {
    const char* text =
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k() {\n.shared .align 1 .b8 s[4];\n.reg .b64 %a;\n"
        ".reg .b32 %w;\nmov.u64 %a, s;\nmov.u32 %w, 1;\nst.shared.u8 [%a], %w;\nret;\n}\n";
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    int bytes = 0;
    ASSERT_CU(CU(cuModuleLoadData)(&module, text));
    ASSERT_CU(CU(cuModuleGetFunction)(&function, module, "k"));
    EXPECT_CU(CU(cuFuncGetAttribute)(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function));
    EXPECT_EQ(bytes, 4);
    EXPECT_CU(CU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, (48 << 10) - 4, nullptr, nullptr, nullptr));
    EXPECT_EQ(CU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, (48 << 10) - 3, nullptr, nullptr, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuCtxSynchronize)());
}

}  // namespace
}  // namespace softgpu_test
