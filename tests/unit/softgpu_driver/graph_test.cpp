// Tests of graphs that are built by hand.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/unit/softgpu_driver/graph_fixture.h"

namespace softgpu_test {
namespace {

class GraphTest : public GraphFixture {};

TEST_F(GraphTest, NodesAndEdgesAreListed) {
    CUgraph graph = create();
    CUgraphNode a = add_store(graph, {}, 0, 1), b = add_store(graph, {a}, 1, 2), c = add_store(graph, {a}, 2, 3), d = nullptr;
    CUgraphNode both[] = {b, c};
    EXPECT_CU(CU(cuGraphAddEmptyNode)(&d, graph, both, 2));
    size_t count = 0;
    EXPECT_CU(CU(cuGraphGetNodes)(graph, nullptr, &count));
    EXPECT_EQ(count, 4u);
    CUgraphNode nodes[8] = {};
    count = 6;
    EXPECT_CU(CU(cuGraphGetNodes)(graph, nodes, &count));
    EXPECT_EQ(count, 4u);
    EXPECT_EQ(nodes[0], a);
    EXPECT_EQ(nodes[5], nullptr);
    count = 6;
    EXPECT_CU(CU(cuGraphGetRootNodes)(graph, nodes, &count));
    EXPECT_EQ(count, 1u);
    CUgraphNode from[8] = {}, to[8] = {};
    count = 8;
    EXPECT_CU(CU(cuGraphGetEdges)(graph, from, to, &count));
    EXPECT_EQ(count, 4u);
    count = 8;
    EXPECT_CU(CU(cuGraphNodeGetDependencies)(d, nodes, &count));
    EXPECT_EQ(count, 2u);
    EXPECT_CU(CU(cuGraphNodeGetDependentNodes)(a, nullptr, &count));
    EXPECT_EQ(count, 2u);
    CUgraphNodeType type{};
    EXPECT_CU(CU(cuGraphNodeGetType)(d, &type));
    EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_EMPTY);
    EXPECT_CU(CU(cuGraphRemoveDependencies)(graph, &a, &c, 1));
    EXPECT_EQ(CU(cuGraphRemoveDependencies)(graph, &a, &c, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuGraphDestroyNode)(b));
    EXPECT_EQ(CU(cuGraphNodeGetType)(b, &type), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuGraphNodeGetDependencies)(d, nullptr, &count));
    EXPECT_EQ(count, 1u);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
    EXPECT_EQ(CU(cuGraphDestroy)(graph), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuGraphNodeGetType)(d, &type), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, BadDependenciesAreRefused) {
    CUgraph graph = create(), other = create();
    CUgraphNode a = add_store(graph, {}, 0, 1), foreign = add_store(other, {}, 0, 1), node = nullptr;
    EXPECT_EQ(CU(cuGraphAddEmptyNode)(&node, graph, &foreign, 1), CUDA_ERROR_INVALID_VALUE);
    CUgraphNode twice[] = {a, a};
    EXPECT_EQ(CU(cuGraphAddEmptyNode)(&node, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
    CUgraphNode b = add_store(graph, {a}, 0, 1);
    EXPECT_EQ(CU(cuGraphAddDependencies)(graph, &a, &b, 1), CUDA_ERROR_INVALID_VALUE);  // there already
    EXPECT_CU(CU(cuGraphAddDependencies)(graph, &b, &a, 1));
    CUgraphExec exec = nullptr;
    CUDA_GRAPH_INSTANTIATE_PARAMS wanted{};
    EXPECT_EQ(CU(cuGraphInstantiateWithParams)(&exec, graph, &wanted), CUDA_ERROR_INVALID_VALUE);  // a cycle
    EXPECT_EQ(wanted.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    EXPECT_TRUE(wanted.hErrNode_out == a || wanted.hErrNode_out == b);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
    EXPECT_CU(CU(cuGraphDestroy)(other));
}

TEST_F(GraphTest, ParametersComeBackAndCanBeChanged) {
    CUgraph graph = create();
    CUgraphNode node = add_store(graph, {}, 3, 44);
    CUDA_KERNEL_NODE_PARAMS read{};
    EXPECT_CU(CU(cuGraphKernelNodeGetParams_v2)(node, &read));
    EXPECT_EQ(read.func, kernel(m_module, "store"));
    EXPECT_EQ(*static_cast<uint32_t*>(read.kernelParams[1]), 44u);
    uint32_t value = 45;
    CUdeviceptr address = m_memory + 12;
    CUDA_KERNEL_NODE_PARAMS changed = params("store", &address, &value);
    EXPECT_CU(CU(cuGraphKernelNodeSetParams_v2)(node, &changed));
    run(instantiate(graph));
    EXPECT_EQ(word(3), 45u);
    CUDA_MEMSET_NODE_PARAMS memset{m_memory, 0, 0x1122, 2, 4, 1}, memset_read{};
    CUgraphNode filler = nullptr;
    EXPECT_CU(CU(cuGraphAddMemsetNode)(&filler, graph, &node, 1, &memset, context()));
    EXPECT_CU(CU(cuGraphMemsetNodeGetParams)(filler, &memset_read));
    EXPECT_EQ(memset_read.value, 0x1122u);
    EXPECT_EQ(CU(cuGraphMemsetNodeGetParams)(node, &memset_read), CUDA_ERROR_INVALID_VALUE);
    memset.dst = 0x10;
    EXPECT_EQ(CU(cuGraphMemsetNodeSetParams)(filler, &memset), CUDA_ERROR_INVALID_VALUE);
    CUkernelNodeAttrValue attribute{};
    attribute.priority = -1;
    EXPECT_CU(CU(cuGraphKernelNodeSetAttribute)(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &attribute));
    CUgraphNode second = add_store(graph, {node}, 5, 1);
    EXPECT_CU(CU(cuGraphKernelNodeCopyAttributes)(second, node));
    attribute.priority = 0;
    EXPECT_CU(CU(cuGraphKernelNodeGetAttribute)(second, CU_LAUNCH_ATTRIBUTE_PRIORITY, &attribute));
    EXPECT_EQ(attribute.priority, -1);
    // What the source has not, its copy has not either.
    CUkernelNodeAttrValue cooperative{};
    cooperative.cooperative = 1;
    EXPECT_CU(CU(cuGraphKernelNodeSetAttribute)(second, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative));
    EXPECT_CU(CU(cuGraphKernelNodeCopyAttributes)(second, node));
    EXPECT_CU(CU(cuGraphKernelNodeGetAttribute)(second, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative));
    EXPECT_EQ(cooperative.cooperative, 0);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
}

TEST_F(GraphTest, ClonesAreIndependent) {
    CUgraph graph = create(), clone = nullptr;
    CUgraphNode a = add_store(graph, {}, 0, 1), b = add_add(graph, {a}, 0, 10), copy = nullptr, none = nullptr;
    ASSERT_CU(CU(cuGraphClone)(&clone, graph));
    ASSERT_CU(CU(cuGraphNodeFindInClone)(&copy, b, clone));
    EXPECT_NE(copy, b);
    EXPECT_EQ(CU(cuGraphNodeFindInClone)(&none, copy, clone), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuGraphDestroyNode)(copy));
    run(instantiate(clone));
    EXPECT_EQ(word(0), 1u);
    run(instantiate(graph));
    EXPECT_EQ(word(0), 11u);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
    EXPECT_CU(CU(cuGraphDestroy)(clone));
}

TEST_F(GraphTest, GenericNodesOfEveryKind) {
    CUgraph graph = create();
    CUevent event = nullptr;
    ASSERT_CU(CU(cuEventCreate)(&event, 0));
    CUgraphNode nodes[5] = {};
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_MEMSET;
    p.memset.dst = m_memory;
    p.memset.value = 6;
    p.memset.elementSize = 4;
    p.memset.width = 2;
    p.memset.height = 1;
    ASSERT_CU(CU(cuGraphAddNode_v2)(&nodes[0], graph, nullptr, nullptr, 0, &p));
    p = CUgraphNodeParams{};
    p.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    p.memcpy.copyParams.srcMemoryType = p.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p.memcpy.copyParams.srcDevice = m_memory;
    p.memcpy.copyParams.dstDevice = m_memory + 8;
    p.memcpy.copyParams.WidthInBytes = 8;
    p.memcpy.copyParams.Height = p.memcpy.copyParams.Depth = 1;
    ASSERT_CU(CU(cuGraphAddNode_v2)(&nodes[1], graph, &nodes[0], nullptr, 1, &p));
    p = CUgraphNodeParams{};
    p.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    p.eventRecord.event = event;
    ASSERT_CU(CU(cuGraphAddNode_v2)(&nodes[2], graph, &nodes[1], nullptr, 1, &p));
    bool called = false;
    p = CUgraphNodeParams{};
    p.type = CU_GRAPH_NODE_TYPE_HOST;
    p.host.fn = [](void* flag) { *static_cast<bool*>(flag) = true; };
    p.host.userData = &called;
    ASSERT_CU(CU(cuGraphAddNode_v2)(&nodes[3], graph, &nodes[2], nullptr, 1, &p));
    CUstreamBatchMemOpParams write{};
    write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    write.writeValue.address = m_memory + 32;
    write.writeValue.value = 12;
    p = CUgraphNodeParams{};
    p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    p.memOp.ctx = context();
    p.memOp.count = 1;
    p.memOp.paramArray = &write;
    ASSERT_CU(CU(cuGraphAddNode_v2)(&nodes[4], graph, &nodes[3], nullptr, 1, &p));
    run(instantiate(graph));
    EXPECT_EQ(word(3), 6u);
    EXPECT_EQ(word(8), 12u);
    EXPECT_TRUE(called);
    EXPECT_CU(CU(cuEventQuery)(event));
    p = CUgraphNodeParams{};
    p.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
    EXPECT_EQ(CU(cuGraphAddNode_v2)(&nodes[0], graph, nullptr, nullptr, 0, &p), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
}

TEST_F(GraphTest, UserObjectsLiveAsLongAsTheirGraphs) {
    static std::atomic<int> destroyed;
    destroyed = 0;
    int dummy = 0;
    CUuserObject object = nullptr;
    ASSERT_CU(CU(cuUserObjectCreate)(
        &object, &dummy, [](void*) { ++destroyed; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    CUgraph graph = create();
    ASSERT_CU(CU(cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    add_store(graph, {}, 0, 1);
    CUgraphExec exec = instantiate(graph);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
    run(exec);
    EXPECT_EQ(destroyed, 0);
    EXPECT_CU(CU(cuGraphExecDestroy)(exec));
    while (destroyed == 0) std::this_thread::yield();
    EXPECT_EQ(destroyed, 1);
}

TEST_F(GraphTest, DotFilesNameTheNodes) {
    CUgraph graph = create();
    CUgraphNode a = add_store(graph, {}, 0, 1);
    add_store(graph, {a}, 1, 1);
    std::string path = testing::TempDir() + "/softgpu_graph_test.dot";
    EXPECT_CU(CU(cuGraphDebugDotPrint)(graph, path.c_str(), CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_NE(text.str().find("digraph"), std::string::npos);
    EXPECT_NE(text.str().find("store"), std::string::npos);
    EXPECT_NE(text.str().find("->"), std::string::npos);
    std::remove(path.c_str());
    EXPECT_EQ(CU(cuGraphDebugDotPrint)(graph, "/nonexistent/x.dot", 0), CUDA_ERROR_OPERATING_SYSTEM);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
}

}  // namespace
}  // namespace softgpu_test
