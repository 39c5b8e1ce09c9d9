// Graph nodes of batches of memory operations, made by hand, by capture and by the generic call.
#include "tests/unit/softgpu_driver/graph_fixture.h"

namespace softgpu_test {
namespace {

class BatchNodeTest : public GraphFixture {
protected:
    using Items = std::vector<CUstreamBatchMemOpParams>;
    CUstreamBatchMemOpParams write32(size_t index, uint32_t value) {
        CUstreamBatchMemOpParams item{};
        item.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        item.writeValue.address = m_memory + 4 * index;
        item.writeValue.value = value;
        return item;
    }
    CUstreamBatchMemOpParams wait32(size_t index, uint32_t value) {
        CUstreamBatchMemOpParams item{};
        item.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
        item.waitValue.address = m_memory + 4 * index;
        item.waitValue.value = value;
        item.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
        return item;
    }
    CUDA_BATCH_MEM_OP_NODE_PARAMS params(Items& items) {
        return {context(), static_cast<unsigned>(items.size()), items.data(), 0};
    }
    CUgraphNode add(CUgraph graph, Items items) {
        CUDA_BATCH_MEM_OP_NODE_PARAMS p = params(items);
        CUgraphNode node = nullptr;
        EXPECT_CU(CU(cuGraphAddBatchMemOpNode)(&node, graph, nullptr, 0, &p));
        return node;  // the items have gone: the node has copies
    }
};

TEST_F(BatchNodeTest, TheyWriteWaitAndAreChanged) {
    CUgraph graph = create();
    CUgraphNode node = add(graph, {write32(0, 5), wait32(0, 5), write32(1, 6)});
    CUgraphNodeType type{};
    EXPECT_CU(CU(cuGraphNodeGetType)(node, &type));
    EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    CUDA_BATCH_MEM_OP_NODE_PARAMS got{};
    EXPECT_CU(CU(cuGraphBatchMemOpNodeGetParams)(node, &got));
    EXPECT_EQ(got.ctx, context());
    ASSERT_EQ(got.count, 3u);
    EXPECT_EQ(got.paramArray[1].operation, CU_STREAM_MEM_OP_WAIT_VALUE_32);
    EXPECT_EQ(got.paramArray[2].writeValue.value, 6u);
    CUgraphExec exec = instantiate(graph);
    run(exec);
    EXPECT_EQ(word(0), 5u);
    EXPECT_EQ(word(1), 6u);
    // An executable graph's stay as many, of the same kinds (DB-52).
    Items fewer{write32(2, 7)}, others{wait32(2, 7), write32(2, 7), write32(3, 7)};
    Items fresh{write32(2, 7), wait32(2, 7), write32(3, 7)};
    CUDA_BATCH_MEM_OP_NODE_PARAMS p{};
    for (Items* bad : {&fewer, &others}) {
        p = params(*bad);
        EXPECT_EQ(CU(cuGraphExecBatchMemOpNodeSetParams)(exec, node, &p), CUDA_ERROR_INVALID_VALUE);
    }
    CUgraph shorter = create();
    add(shorter, fewer);
    CUgraphExecUpdateResultInfo info{};
    EXPECT_EQ(CU(cuGraphExecUpdate_v2)(exec, shorter, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    p = params(fresh);
    EXPECT_CU(CU(cuGraphExecBatchMemOpNodeSetParams)(exec, node, &p));
    run(exec);
    EXPECT_EQ(word(2), 7u);
    EXPECT_CU(CU(cuGraphBatchMemOpNodeGetParams)(node, &got));
    EXPECT_EQ(got.count, 3u);  // the graph's node is as it was
    Items third{write32(3, 8), write32(4, 9)};
    p = params(third);
    EXPECT_CU(CU(cuGraphBatchMemOpNodeSetParams)(node, &p));
    run(instantiate(graph));
    EXPECT_EQ(word(3), 8u);
    EXPECT_EQ(word(4), 9u);
}

TEST_F(BatchNodeTest, BadOnesAreRefused) {
    CUgraph graph = create();
    Items good{write32(0, 1)};
    CUstreamBatchMemOpParams flush{};
    flush.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
    CUstreamBatchMemOpParams unaligned = write32(0, 1), unknown = write32(0, 1);
    unaligned.writeValue.address += 2;
    unknown.operation = static_cast<CUstreamBatchMemOpType>(99);
    struct Case {
        Items items;
        unsigned flags;
        CUresult expected;
    };
    for (Case& one : std::vector<Case>{{{}, 0, CUDA_ERROR_INVALID_VALUE},
                                       {good, 1, CUDA_ERROR_INVALID_VALUE},
                                       {Items(257, good[0]), 0, CUDA_ERROR_INVALID_VALUE},
                                       {{unaligned}, 0, CUDA_ERROR_INVALID_VALUE},
                                       {{unknown}, 0, CUDA_ERROR_INVALID_VALUE},
                                       {{flush}, 0, CUDA_ERROR_NOT_SUPPORTED}}) {
        CUDA_BATCH_MEM_OP_NODE_PARAMS p = params(one.items);
        p.flags = one.flags;
        CUgraphNode node = nullptr;
        EXPECT_EQ(CU(cuGraphAddBatchMemOpNode)(&node, graph, nullptr, 0, &p), one.expected);
    }
    size_t count = 1;
    EXPECT_CU(CU(cuGraphGetNodes)(graph, nullptr, &count));
    EXPECT_EQ(count, 0u);
}

// DB-71
TEST_F(BatchNodeTest, WhetherThereIsMemoryIsAskedAtTheLaunch) {
    CUgraph graph = create(), other = create();
    CUgraphNode node = add(graph, {write32(0, 5)});
    CUgraphExec exec = instantiate(graph);
    CUdeviceptr freed = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&freed, 64 << 20));
    ASSERT_CU(CU(cuMemFree_v2)(freed));
    for (const CUdeviceptr address : {CUdeviceptr{64}, CUdeviceptr{0}, freed}) {
        Items items{write32(0, 9)};
        items[0].writeValue.address = address;
        CUDA_BATCH_MEM_OP_NODE_PARAMS p = params(items);
        EXPECT_EQ(CU(cuStreamBatchMemOp_v2)(m_stream, 1, items.data(), 0), CUDA_ERROR_INVALID_VALUE);
        add(other, items);
        EXPECT_CU(CU(cuGraphExecBatchMemOpNodeSetParams)(exec, node, &p));
        EXPECT_EQ(CU(cuGraphLaunch)(exec, m_stream), CUDA_ERROR_INVALID_VALUE);
        EXPECT_CU(CU(cuGraphBatchMemOpNodeSetParams)(node, &p));
        CUgraph parent = create();
        CUgraphNode child = nullptr;
        EXPECT_CU(CU(cuGraphAddChildGraphNode)(&child, parent, nullptr, 0, graph));
        EXPECT_EQ(CU(cuGraphLaunch)(instantiate(parent), m_stream), CUDA_ERROR_INVALID_VALUE);
    }
    // It is none of the context's business: other work goes on, and so does the graph with memory that there is.
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    EXPECT_EQ(word(0), 0u);
    Items good{write32(0, 6)}, unaligned{write32(0, 7)};
    unaligned[0].writeValue.address += 2;
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = params(good), nowhere = params(good), odd = params(unaligned);
    nowhere.ctx = nullptr;
    CUgraphNodeParams generic{};
    generic.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    generic.memOp.count = 1;
    generic.memOp.paramArray = good.data();
    EXPECT_CU(CU(cuGraphExecBatchMemOpNodeSetParams)(exec, node, &p));
    EXPECT_EQ(CU(cuGraphExecBatchMemOpNodeSetParams)(exec, node, &nowhere), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuGraphExecNodeSetParams)(exec, node, &generic), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuGraphExecBatchMemOpNodeSetParams)(exec, node, &odd), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuGraphBatchMemOpNodeSetParams)(node, &odd), CUDA_ERROR_INVALID_VALUE);
    run(exec);
    EXPECT_EQ(word(0), 6u);
}

TEST_F(BatchNodeTest, CapturedAndGenericOnes) {
    ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    Items items{write32(0, 3), write32(1, 4)};
    EXPECT_CU(CU(cuStreamBatchMemOp_v2)(m_stream, 2, items.data(), 0));
    EXPECT_CU(CU(cuStreamWriteValue32_v2)(m_stream, m_memory + 8, 5, 0));
    EXPECT_CU(CU(cuStreamWaitValue32_v2)(m_stream, m_memory + 8, 5, CU_STREAM_WAIT_VALUE_GEQ));
    CUgraph graph = nullptr;
    EXPECT_CU(CU(cuStreamEndCapture)(m_stream, &graph));
    EXPECT_EQ(word(0), 0u);
    CUgraphNode nodes[3] = {}, added = nullptr;
    size_t count = 3;
    EXPECT_CU(CU(cuGraphGetNodes)(graph, nodes, &count));
    ASSERT_EQ(count, 3u);
    CUDA_BATCH_MEM_OP_NODE_PARAMS got{};
    EXPECT_CU(CU(cuGraphBatchMemOpNodeGetParams)(nodes[0], &got));
    EXPECT_EQ(got.count, 2u);
    Items more{write32(3, 6)};
    CUgraphNodeParams generic{};
    generic.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    generic.memOp.ctx = context();
    generic.memOp.count = 1;
    generic.memOp.paramArray = more.data();
    EXPECT_CU(CU(cuGraphAddNode_v2)(&added, graph, &nodes[2], nullptr, 1, &generic));
    CUgraphExec exec = instantiate(graph);
    run(exec);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(word(i), 3 + i);
    more = {write32(3, 60)};
    generic.memOp.paramArray = more.data();
    EXPECT_CU(CU(cuGraphExecNodeSetParams)(exec, added, &generic));
    EXPECT_EQ(CU(cuGraphNodeSetEnabled)(exec, added, 0), CUDA_ERROR_INVALID_VALUE);  // kernels, copies and fills only
    run(exec);
    EXPECT_EQ(word(3), 60u);
}

}  // namespace
}  // namespace softgpu_test
