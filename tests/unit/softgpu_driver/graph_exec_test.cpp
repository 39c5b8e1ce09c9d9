// Tests of executable graphs.
#include <atomic>
#include <thread>

#include "tests/unit/softgpu_driver/graph_fixture.h"

namespace softgpu_test {
namespace {

class GraphExecTest : public GraphFixture {};

TEST_F(GraphExecTest, DependenciesOrderTheWork) {
    CUgraph graph = create();
    CUgraphNode first = add_store(graph, {}, 0, 1);
    std::vector<CUgraphNode> middle;
    for (int i = 0; i < 10; ++i) middle.push_back(add_add(graph, {first}, 0, 1));
    CUdeviceptr from = m_memory;
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from;
    copy.dstDevice = m_memory + 4;
    copy.WidthInBytes = 4;
    copy.Height = copy.Depth = 1;
    CUgraphNode last = nullptr;
    ASSERT_CU(CU(cuGraphAddMemcpyNode)(&last, graph, middle.data(), middle.size(), &copy, context()));
    CUgraphExec exec = instantiate(graph);
    EXPECT_CU(CU(cuGraphDestroy)(graph));  // the executable has its own copy
    for (int round = 0; round < 20; ++round) {
        EXPECT_CU(CU(cuMemsetD32Async)(m_memory + 4, 0, 1, m_stream));
        run(exec);
        ASSERT_EQ(word(1), 11u);
    }
    EXPECT_CU(CU(cuGraphExecDestroy)(exec));
    EXPECT_EQ(CU(cuGraphLaunch)(exec, m_stream), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphExecTest, LaunchesFollowEachOtherAndTheStream) {
    CUgraph graph = create();
    add_add(graph, {}, 0, 1);
    CUgraphExec exec = instantiate(graph);
    CUstream other = nullptr;
    ASSERT_CU(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 100; ++i) {
        EXPECT_CU(CU(cuGraphLaunch)(exec, i % 2 == 0 ? m_stream : other));
    }
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    EXPECT_CU(CU(cuStreamSynchronize)(other));
    EXPECT_EQ(word(0), 100u);
    EXPECT_CU(launch_store(m_module, m_memory, 7, m_stream));
    EXPECT_CU(CU(cuGraphLaunch)(exec, m_stream));
    EXPECT_CU(launch_store(m_module, m_memory + 4, 1, m_stream));
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    EXPECT_EQ(word(0), 8u);
}

TEST_F(GraphExecTest, NodeParametersCanBeReplaced) {
    CUgraph graph = create();
    CUgraphNode node = add_store(graph, {}, 0, 1);
    CUgraphExec exec = instantiate(graph);
    uint32_t value = 99;
    CUdeviceptr address = m_memory;
    CUDA_KERNEL_NODE_PARAMS p = params("store", &address, &value);
    EXPECT_CU(CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &p));
    run(exec);
    EXPECT_EQ(word(0), 99u);
    run(instantiate(graph));
    EXPECT_EQ(word(0), 1u);  // the graph is as it was
    EXPECT_EQ(CU(cuGraphExecKernelNodeSetParams_v2)(exec, nullptr, &p), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMSET_NODE_PARAMS memset{m_memory, 0, 0, 4, 1, 1};
    EXPECT_EQ(CU(cuGraphExecMemsetNodeSetParams)(exec, node, &memset, context()), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuGraphNodeSetEnabled)(exec, node, 0));
    unsigned int enabled = 1;
    EXPECT_CU(CU(cuGraphNodeGetEnabled)(exec, node, &enabled));
    EXPECT_EQ(enabled, 0u);
    run(exec);
    EXPECT_EQ(word(0), 1u);
}

TEST_F(GraphExecTest, UpdatesTakeGraphsOfTheSameShapeOnly) {
    CUgraph graph = create(), same = create(), longer = create(), different = create();
    CUgraphNode a = add_store(graph, {}, 0, 1);
    add_add(graph, {a}, 0, 1);
    CUgraphNode b = add_store(same, {}, 0, 50);
    add_add(same, {b}, 0, 5);
    add_store(longer, {}, 0, 1);
    CUgraphNode c = add_store(different, {}, 0, 1), d = nullptr;
    ASSERT_CU(CU(cuGraphAddEmptyNode)(&d, different, &c, 1));
    CUgraphExec exec = instantiate(graph);
    CUgraphExecUpdateResultInfo info{};
    EXPECT_CU(CU(cuGraphExecUpdate_v2)(exec, same, &info));
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    run(exec);
    EXPECT_EQ(word(0), 55u);
    EXPECT_EQ(CU(cuGraphExecUpdate_v2)(exec, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    EXPECT_EQ(CU(cuGraphExecUpdate_v2)(exec, different, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    EXPECT_EQ(info.errorNode, d);
    run(exec);
    EXPECT_EQ(word(0), 55u);
}

// "The dependencies are paired based on edge order", and exit nodes in theirs (CUDA Driver API, cuGraphExecUpdate).
TEST_F(GraphExecTest, AnUpdatePairsNodesFromTheLastOnesAlongTheEdges) {
    CUgraph graph = create(), other = create(), crossed = create();
    CUgraphNode first = add_store(graph, {}, 0, 1), second = add_store(graph, {}, 1, 2);
    add_add(graph, {first}, 0, 10);
    add_add(graph, {second}, 1, 20);
    CUgraphNode made_first = add_store(other, {}, 1, 3), made_second = add_store(other, {}, 0, 4);
    add_add(other, {made_second}, 0, 30);
    add_add(other, {made_first}, 1, 40);
    CUgraphExec exec = instantiate(graph);
    CUgraphExecUpdateResultInfo info{};
    ASSERT_CU(CU(cuGraphExecUpdate_v2)(exec, other, &info));
    run(exec);
    EXPECT_EQ(word(0), 34u);
    EXPECT_EQ(word(1), 43u);
    // A node of the graph itself stands for the one that it was paired with, whichever was made first.
    uint32_t value = 100;
    CUdeviceptr address = m_memory;
    CUDA_KERNEL_NODE_PARAMS p = params("store", &address, &value);
    ASSERT_CU(CU(cuGraphExecKernelNodeSetParams_v2)(exec, first, &p));
    run(exec);
    EXPECT_EQ(word(0), 130u);
    EXPECT_EQ(word(1), 43u);

    CUgraphNode a = add_store(crossed, {}, 0, 1), b = add_store(crossed, {}, 1, 2);
    CUgraphNode both = add_add(crossed, {a, b}, 0, 10);
    add_add(crossed, {both}, 1, 20);
    EXPECT_EQ(CU(cuGraphExecUpdate_v2)(exec, crossed, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
}

// DB-52.
TEST_F(GraphExecTest, CopiesWithRowsKeepTheirParameters) {
    const auto copy_of = [this](size_t rows, size_t source) {
        CUDA_MEMCPY3D copy{};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = m_memory + source;
        copy.dstDevice = m_memory + 1024;
        copy.srcPitch = copy.dstPitch = 8;
        copy.WidthInBytes = 4;
        copy.Height = rows;
        copy.Depth = 1;
        return copy;
    };
    for (size_t rows : {1, 2}) {
        const CUresult fails = rows == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        CUDA_MEMCPY3D now = copy_of(rows, 0), moved = copy_of(1, 64), in_rows = copy_of(2, 64);
        CUgraph graph = create(), same = create(), other = create();
        CUgraphNode node = nullptr, made = nullptr;
        ASSERT_CU(CU(cuGraphAddMemcpyNode)(&node, graph, nullptr, 0, &now, context()));
        ASSERT_CU(CU(cuGraphAddMemcpyNode)(&made, same, nullptr, 0, &now, context()));
        ASSERT_CU(CU(cuGraphAddMemcpyNode)(&made, other, nullptr, 0, &moved, context()));
        CUgraphExec exec = instantiate(graph);
        EXPECT_CU(CU(cuGraphExecMemcpyNodeSetParams)(exec, node, &now, context()));
        EXPECT_EQ(CU(cuGraphExecMemcpyNodeSetParams)(exec, node, &moved, context()), fails);
        EXPECT_EQ(CU(cuGraphExecMemcpyNodeSetParams)(exec, node, &in_rows, context()), CUDA_ERROR_INVALID_VALUE);
        CUgraphExecUpdateResultInfo info{};
        EXPECT_CU(CU(cuGraphExecUpdate_v2)(exec, same, &info));
        const CUresult updated = CU(cuGraphExecUpdate_v2)(exec, other, &info);
        EXPECT_EQ(updated, rows == 1 ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    }
}

TEST_F(GraphExecTest, ChildGraphsRunInTheirPlace) {
    CUgraph child = create(), graph = create(), inner = nullptr;
    CUgraphNode x = add_add(child, {}, 0, 2);
    add_add(child, {x}, 0, 3);
    CUgraphNode before = add_store(graph, {}, 0, 100), node = nullptr;
    ASSERT_CU(CU(cuGraphAddChildGraphNode)(&node, graph, &before, 1, child));
    CUgraphNode after = add_add(graph, {node}, 0, 1000);
    (void)after;
    EXPECT_CU(CU(cuGraphDestroy)(child));  // the node has a copy
    EXPECT_CU(CU(cuGraphChildGraphNodeGetGraph)(node, &inner));
    EXPECT_EQ(CU(cuGraphDestroy)(inner), CUDA_ERROR_INVALID_VALUE);
    run(instantiate(graph));
    EXPECT_EQ(word(0), 1105u);
}

TEST_F(GraphExecTest, MemoryNodesKeepTheirAddress) {
    CUgraph graph = create();
    CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
    alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    alloc.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    alloc.bytesize = 1000;
    CUgraphNode make = nullptr, drop = nullptr, copied = nullptr;
    ASSERT_CU(CU(cuGraphAddMemAllocNode)(&make, graph, nullptr, 0, &alloc));
    ASSERT_NE(alloc.dptr, 0u);
    uint32_t value = 5;
    CUDA_KERNEL_NODE_PARAMS p = params("store", &alloc.dptr, &value);
    CUgraphNode use = nullptr;
    ASSERT_CU(CU(cuGraphAddKernelNode_v2)(&use, graph, &make, 1, &p));
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = alloc.dptr;
    copy.dstDevice = m_memory;
    copy.WidthInBytes = 4;
    copy.Height = copy.Depth = 1;
    ASSERT_CU(CU(cuGraphAddMemcpyNode)(&copied, graph, &use, 1, &copy, context()));
    ASSERT_CU(CU(cuGraphAddMemFreeNode)(&drop, graph, &copied, 1, alloc.dptr));
    CUgraphExec exec = instantiate(graph);
    run(exec);
    run(exec);
    EXPECT_EQ(word(0), 5u);
    cuuint64_t used = 1, high = 0;
    EXPECT_CU(CU(cuDeviceGetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    EXPECT_CU(CU(cuDeviceGetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &high));
    // DB-51: the graph has it from its first launch on, until it is trimmed.
    EXPECT_EQ(used, 1000u);
    EXPECT_EQ(high, 1000u);
    EXPECT_CU(CU(cuDeviceGraphMemTrim)(0));
    EXPECT_CU(CU(cuDeviceGetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    EXPECT_EQ(used, 0u);
    run(exec);
    EXPECT_CU(CU(cuDeviceGetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    EXPECT_EQ(used, 1000u);
    CUgraph clone = nullptr;
    EXPECT_EQ(CU(cuGraphClone)(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(CU(cuGraphDestroyNode)(make), CUDA_ERROR_NOT_SUPPORTED);
    CUgraphNode beside = nullptr;
    EXPECT_CU(CU(cuGraphAddEmptyNode)(&beside, graph, nullptr, 0));
    EXPECT_EQ(CU(cuGraphDestroyNode)(beside), CUDA_ERROR_NOT_SUPPORTED) << "its graph has memory";
}

TEST_F(GraphExecTest, MemoryThatIsNotFreedStopsTheNextLaunch) {
    CUgraph graph = create();
    CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
    alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    alloc.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    alloc.bytesize = 64;
    CUgraphNode make = nullptr;
    ASSERT_CU(CU(cuGraphAddMemAllocNode)(&make, graph, nullptr, 0, &alloc));
    CUgraphExec exec = instantiate(graph);
    CUgraphExec second = nullptr;
    EXPECT_EQ(CU(cuGraphInstantiateWithFlags)(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED) << "one at a time (cuda.h)";
    run(exec);
    EXPECT_EQ(CU(cuGraphLaunch)(exec, m_stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuMemFreeAsync)(alloc.dptr, m_stream));
    run(exec);
    EXPECT_CU(CU(cuMemFree_v2)(alloc.dptr));
    EXPECT_CU(CU(cuGraphExecDestroy)(exec));
    CUgraphExec forgiving = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    run(forgiving);
    run(forgiving);
}

TEST_F(GraphExecTest, ConditionalBodiesRunByTheirValue) {
    struct Case {
        uint32_t value;
        uint32_t expected;
    };
    for (Case c : {Case{0, 2}, Case{1, 1}}) {
        CUgraph graph = create();
        CUgraphConditionalHandle handle = 0;
        ASSERT_CU(CU(cuGraphConditionalHandleCreate)(&handle, graph, context(), c.value, CU_GRAPH_COND_ASSIGN_DEFAULT));
        CUgraphNodeParams p{};
        p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
        p.conditional.handle = handle;
        p.conditional.type = CU_GRAPH_COND_TYPE_IF;
        p.conditional.size = 2;
        p.conditional.ctx = context();
        CUgraphNode node = nullptr;
        ASSERT_CU(CU(cuGraphAddNode_v2)(&node, graph, nullptr, nullptr, 0, &p));
        ASSERT_NE(p.conditional.phGraph_out, nullptr);
        add_store(p.conditional.phGraph_out[0], {}, 0, 1);
        add_store(p.conditional.phGraph_out[1], {}, 0, 2);
        CUgraphExec exec = instantiate(graph);
        run(exec);
        EXPECT_EQ(word(0), c.expected);
        run(exec);  // the default again
        EXPECT_EQ(word(0), c.expected);
        EXPECT_CU(CU(cuGraphDestroy)(graph));
    }
}

TEST_F(GraphExecTest, SwitchesTakeOneBodyOrNone) {
    for (uint32_t value : {0u, 1u, 2u, 7u}) {
        CUgraph graph = create();
        CUgraphConditionalHandle handle = 0;
        ASSERT_CU(CU(cuGraphConditionalHandleCreate)(&handle, graph, context(), value, CU_GRAPH_COND_ASSIGN_DEFAULT));
        CUgraphNodeParams p{};
        p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
        p.conditional.handle = handle;
        p.conditional.type = CU_GRAPH_COND_TYPE_SWITCH;
        p.conditional.size = 3;
        p.conditional.ctx = context();
        CUgraphNode first = add_store(graph, {}, 0, 100), node = nullptr;
        ASSERT_CU(CU(cuGraphAddNode_v2)(&node, graph, &first, nullptr, 1, &p));
        for (uint32_t i = 0; i < 3; ++i) add_store(p.conditional.phGraph_out[i], {}, 0, i);
        run(instantiate(graph));
        EXPECT_EQ(word(0), value < 3 ? value : 100u);
    }
}

TEST_F(GraphExecTest, LoopsRunUntilTheirKernelsSayOtherwise) {
    // countdown(address, handle): --*address, and the loop goes on while it is not 0.
    const char* ptx = R"(
.version 8.0
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry countdown(.param .u64 address, .param .u64 handle)
{
    .reg .b64 %a, %h;
    .reg .b32 %v;
    ld.param.u64 %a, [address];
    ld.param.u64 %h, [handle];
    ld.global.u32 %v, [%a];
    sub.u32 %v, %v, 1;
    st.global.u32 [%a], %v;
    {
        .param .b64 p0;
        .param .b32 p1;
        st.param.b64 [p0], %h;
        st.param.b32 [p1], %v;
        call cudaGraphSetConditional, (p0, p1);
    }
    ret;
}
)";
    CUmodule module = nullptr;
    ASSERT_CU(CU(cuModuleLoadData)(&module, ptx));
    CUgraph graph = create();
    CUgraphConditionalHandle handle = 0;
    ASSERT_CU(CU(cuGraphConditionalHandleCreate)(&handle, graph, context(), 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNode first = add_store(graph, {}, 0, 20), loop = nullptr, node = nullptr;
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = handle;
    p.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    p.conditional.size = 1;
    p.conditional.ctx = context();
    ASSERT_CU(CU(cuGraphAddNode_v2)(&loop, graph, &first, nullptr, 1, &p));
    CUgraph body = p.conditional.phGraph_out[0];
    CUgraphNode counted = add_add(body, {}, 1, 1);
    CUdeviceptr address = m_memory;
    void* pointers[] = {&address, &handle};
    CUDA_KERNEL_NODE_PARAMS kernel_params{};
    kernel_params.func = kernel(module, "countdown");
    kernel_params.gridDimX = kernel_params.gridDimY = kernel_params.gridDimZ = 1;
    kernel_params.blockDimX = kernel_params.blockDimY = kernel_params.blockDimZ = 1;
    kernel_params.kernelParams = pointers;
    ASSERT_CU(CU(cuGraphAddKernelNode_v2)(&node, body, &counted, 1, &kernel_params));
    CUgraphExec exec = instantiate(graph);
    run(exec);
    EXPECT_EQ(word(0), 0u);
    EXPECT_EQ(word(1), 20u);
    run(exec);
    EXPECT_EQ(word(1), 40u);
}

TEST_F(GraphExecTest, EventsInGraphsOrderOtherStreams) {
    CUevent event = nullptr;
    ASSERT_CU(CU(cuEventCreate)(&event, 0));
    CUgraph graph = create();
    CUdeviceptr gate = m_memory;
    CUDA_KERNEL_NODE_PARAMS p = params("wait_for", &gate, nullptr);
    CUgraphNode waits = nullptr, record = nullptr;
    ASSERT_CU(CU(cuGraphAddKernelNode_v2)(&waits, graph, nullptr, 0, &p));
    ASSERT_CU(CU(cuGraphAddEventRecordNode)(&record, graph, &waits, 1, event));
    CUgraphExec exec = instantiate(graph);
    ASSERT_CU(CU(cuGraphLaunch)(exec, m_stream));
    CUstream other = nullptr, opener = nullptr;
    ASSERT_CU(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    ASSERT_CU(CU(cuStreamCreate)(&opener, CU_STREAM_NON_BLOCKING));
    EXPECT_CU(CU(cuStreamWaitEvent)(other, event, 0));
    EXPECT_CU(launch_store(m_module, m_memory + 4, 3, other));
    EXPECT_EQ(CU(cuStreamQuery)(other), CUDA_ERROR_NOT_READY);
    EXPECT_CU(launch_store(m_module, m_memory, 1, opener));
    EXPECT_CU(CU(cuStreamSynchronize)(other));
    EXPECT_EQ(word(1), 3u);
}

TEST_F(GraphExecTest, BranchesDoNotWaitForEachOther) {
    CUgraph graph = create();
    std::atomic<int> met{0};
    auto meet = [](void* p) {
        auto* count = static_cast<std::atomic<int>*>(p);
        ++*count;
        while (*count < 2) std::this_thread::yield();
    };
    CUDA_HOST_NODE_PARAMS host{meet, &met};
    CUgraphNode a = nullptr, b = nullptr;
    ASSERT_CU(CU(cuGraphAddHostNode)(&a, graph, nullptr, 0, &host));
    ASSERT_CU(CU(cuGraphAddHostNode)(&b, graph, nullptr, 0, &host));
    run(instantiate(graph));
    EXPECT_EQ(met, 2);
}

TEST_F(GraphExecTest, UnknownFlagsAndDeviceLaunchAreRefused) {
    CUgraph graph = create();
    add_store(graph, {}, 0, 1);
    CUgraphExec exec = nullptr;
    EXPECT_EQ(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0x1000), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuGraphInstantiateWithFlags)(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
              CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(CU(cuGraphInstantiateWithFlags)(&exec, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace softgpu_test
