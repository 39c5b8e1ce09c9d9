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
    CUstreamBatchMemOpParams unaligned = write32(0, 1), unknown = write32(0, 1), nowhere = write32(0, 1);
    unaligned.writeValue.address += 2;
    unknown.operation = static_cast<CUstreamBatchMemOpType>(99);
    nowhere.writeValue.address = 64;
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
                                       {{nowhere}, 0, CUDA_ERROR_INVALID_VALUE},
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
