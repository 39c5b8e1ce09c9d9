// What tests of graphs share.
#pragma once

#include "tests/unit/softgpu_driver/library.h"

namespace softgpu_test {

/// Kernels, 4096 bytes of zeros and a stream.
class GraphFixture : public DriverTest {
protected:
    void SetUp() override {
        DriverTest::SetUp();
        m_module = load_kernels();
        ASSERT_CU(CU(cuMemAlloc_v2)(&m_memory, 4096));
        ASSERT_CU(CU(cuMemsetD8_v2)(m_memory, 0, 4096));
        ASSERT_CU(CU(cuStreamCreate)(&m_stream, CU_STREAM_NON_BLOCKING));
        ASSERT_CU(CU(cuCtxSynchronize)());
    }
    uint32_t word(size_t index) {
        uint32_t value = 0;
        EXPECT_CU(CU(cuMemcpyDtoH_v2)(&value, m_memory + 4 * index, 4));
        return value;
    }
    CUgraph create() {
        CUgraph graph = nullptr;
        EXPECT_CU(CU(cuGraphCreate)(&graph, 0));
        return graph;
    }
    /// store(memory + 4 * index, value)
    CUgraphNode add_store(CUgraph graph, const std::vector<CUgraphNode>& after, size_t index, uint32_t value) {
        return add_kernel(graph, after, "store", index, value);
    }
    CUgraphNode add_add(CUgraph graph, const std::vector<CUgraphNode>& after, size_t index, uint32_t value) {
        return add_kernel(graph, after, "add", index, value);
    }
    CUDA_KERNEL_NODE_PARAMS params(const char* name, CUdeviceptr* address, uint32_t* value) {
        m_pointers[0] = address;
        m_pointers[1] = value;
        CUDA_KERNEL_NODE_PARAMS p{};
        p.func = kernel(m_module, name);
        p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
        p.kernelParams = m_pointers;
        return p;
    }
    CUgraphNode add_kernel(CUgraph graph, const std::vector<CUgraphNode>& after, const char* name, size_t index,
                           uint32_t value) {
        CUdeviceptr address = m_memory + 4 * index;
        CUDA_KERNEL_NODE_PARAMS p = params(name, &address, &value);
        CUgraphNode node = nullptr;
        EXPECT_CU(CU(cuGraphAddKernelNode_v2)(&node, graph, after.data(), after.size(), &p));
        return node;
    }
    CUgraphExec instantiate(CUgraph graph, unsigned long long flags = 0) {
        CUgraphExec exec = nullptr;
        EXPECT_CU(CU(cuGraphInstantiateWithFlags)(&exec, graph, flags));
        return exec;
    }
    void run(CUgraphExec exec) {
        EXPECT_CU(CU(cuGraphLaunch)(exec, m_stream));
        EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    }

    CUmodule m_module = nullptr;
    CUdeviceptr m_memory = 0;
    CUstream m_stream = nullptr;
    void* m_pointers[2] = {};
};

}  // namespace softgpu_test
