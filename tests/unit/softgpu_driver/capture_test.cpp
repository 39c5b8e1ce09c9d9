// Tests of stream capture.
#include <thread>

#include "tests/unit/softgpu_driver/graph_fixture.h"

namespace softgpu_test {
namespace {

class CaptureTest : public GraphFixture {
protected:
    void SetUp() override {
        GraphFixture::SetUp();
        ASSERT_CU(CU(cuStreamCreate)(&m_second, CU_STREAM_NON_BLOCKING));
    }
    void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
        ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_stream, mode));
    }
    CUgraph end() {
        CUgraph graph = nullptr;
        EXPECT_CU(CU(cuStreamEndCapture)(m_stream, &graph));
        return graph;
    }
    void expect_end(CUresult expected) {
        CUgraph graph = reinterpret_cast<CUgraph>(1);
        EXPECT_EQ(CU(cuStreamEndCapture)(m_stream, &graph), expected);
        EXPECT_EQ(graph, nullptr);
    }
    CUstreamCaptureStatus status(CUstream stream) {
        CUstreamCaptureStatus value{};
        EXPECT_CU(CU(cuStreamIsCapturing)(stream, &value));
        return value;
    }
    CUevent event() {
        CUevent made = nullptr;
        EXPECT_CU(CU(cuEventCreate)(&made, CU_EVENT_DISABLE_TIMING));
        return made;
    }
    CUstream m_second = nullptr;
};

TEST_F(CaptureTest, CallsBecomeNodesAndAreNotDone) {
    begin();
    EXPECT_EQ(status(m_stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_EQ(status(m_second), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_CU(launch_store(m_module, m_memory, 5, m_stream));
    EXPECT_CU(CU(cuMemsetD32Async)(m_memory + 4, 6, 1, m_stream));
    EXPECT_CU(CU(cuMemcpyDtoDAsync_v2)(m_memory + 8, m_memory, 8, m_stream));
    bool called = false;
    EXPECT_CU(CU(cuLaunchHostFunc)(
        m_stream, [](void* p) { *static_cast<bool*>(p) = true; }, &called));
    CUgraph graph = end();
    EXPECT_EQ(word(0), 0u);
    EXPECT_FALSE(called);
    size_t count = 0;
    EXPECT_CU(CU(cuGraphGetNodes)(graph, nullptr, &count));
    EXPECT_EQ(count, 4u);
    EXPECT_CU(CU(cuGraphGetEdges)(graph, nullptr, nullptr, &count));
    EXPECT_EQ(count, 3u);
    run(instantiate(graph));
    EXPECT_EQ(word(2), 5u);
    EXPECT_EQ(word(3), 6u);
    EXPECT_TRUE(called);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
}

TEST_F(CaptureTest, StreamsForkAndJoinOverEvents) {
    CUevent fork = event(), join = event();
    begin();
    EXPECT_CU(launch_store(m_module, m_memory, 1, m_stream));
    EXPECT_CU(CU(cuEventRecord)(fork, m_stream));
    EXPECT_CU(CU(cuStreamWaitEvent)(m_second, fork, 0));
    EXPECT_EQ(status(m_second), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_CU(launch_store(m_module, m_memory + 4, 2, m_second));
    EXPECT_CU(launch_store(m_module, m_memory + 8, 3, m_stream));
    EXPECT_CU(CU(cuEventRecord)(join, m_second));
    EXPECT_CU(CU(cuStreamWaitEvent)(m_stream, join, 0));
    EXPECT_CU(CU(cuMemcpyDtoDAsync_v2)(m_memory + 12, m_memory + 4, 8, m_stream));
    CUgraph graph = end();
    EXPECT_EQ(status(m_second), CU_STREAM_CAPTURE_STATUS_NONE);
    size_t count = 0;
    EXPECT_CU(CU(cuGraphGetEdges)(graph, nullptr, nullptr, &count));
    EXPECT_EQ(count, 4u);
    run(instantiate(graph));
    EXPECT_EQ(word(3), 2u);
    EXPECT_EQ(word(4), 3u);
    EXPECT_CU(launch_store(m_module, m_memory, 9, m_second));  // an ordinary stream again
    EXPECT_CU(CU(cuStreamSynchronize)(m_second));
    EXPECT_EQ(word(0), 9u);
}

TEST_F(CaptureTest, UnjoinedBranchesAreAnError) {
    CUevent fork = event();
    begin();
    EXPECT_CU(CU(cuEventRecord)(fork, m_stream));
    EXPECT_CU(CU(cuStreamWaitEvent)(m_second, fork, 0));
    EXPECT_CU(launch_store(m_module, m_memory, 1, m_second));
    expect_end(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    EXPECT_EQ(status(m_second), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(CaptureTest, ToEndABranchInvalidates_DB_39) {
    CUevent fork = event();
    begin();
    EXPECT_CU(CU(cuEventRecord)(fork, m_stream));
    EXPECT_CU(CU(cuStreamWaitEvent)(m_second, fork, 0));
    CUgraph graph = nullptr;
    EXPECT_EQ(CU(cuStreamEndCapture)(m_second, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    EXPECT_EQ(status(m_stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(CaptureTest, WhatCannotBeCapturedInvalidates) {
    begin();
    EXPECT_EQ(CU(cuStreamSynchronize)(m_stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(status(m_stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(launch_store(m_module, m_memory, 1, m_stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin();
    EXPECT_EQ(CU(cuStreamQuery)(m_stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_end(CUDA_ERROR_ILLEGAL_STATE);
    EXPECT_EQ(CU(cuStreamBeginCapture_v2)(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST_F(CaptureTest, UnsafeCallsDependOnTheModes) {
    CUdeviceptr p = 0;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_EQ(CU(cuMemAlloc_v2)(&p, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUmodule module = nullptr;
    EXPECT_CU(CU(cuModuleLoadData)(&module, k_kernels_ptx)) << "DB-45";
    EXPECT_CU(CU(cuGraphDestroy)(end()));
    EXPECT_CU(CU(cuModuleUnload)(module));
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_CU(CU(cuMemAlloc_v2)(&p, 64));
    EXPECT_CU(CU(cuGraphDestroy)(end()));
    // The thread may declare that it knows what it does.
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    EXPECT_CU(CU(cuThreadExchangeStreamCaptureMode)(&mode));
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_CU(CU(cuMemAlloc_v2)(&p, 64));
    EXPECT_CU(CU(cuThreadExchangeStreamCaptureMode)(&mode));
    // Another thread disturbs a global capture, not a thread-local one.
    CUcontext ours = context();
    auto allocate_elsewhere = [ours] {
        CUresult result = CUDA_SUCCESS;
        std::thread([&] {
            CU(cuCtxSetCurrent)(ours);
            CUdeviceptr q = 0;
            result = CU(cuMemAlloc_v2)(&q, 64);
        }).join();
        return result;
    };
    EXPECT_EQ(allocate_elsewhere(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    EXPECT_CU(allocate_elsewhere());
    EXPECT_CU(CU(cuGraphDestroy)(end()));
}

TEST_F(CaptureTest, TheLegacyStreamMustNotBeUsedMeanwhile) {
    CUstream blocking = nullptr;
    ASSERT_CU(CU(cuStreamCreate)(&blocking, CU_STREAM_DEFAULT));
    ASSERT_CU(CU(cuStreamBeginCapture_v2)(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_EQ(launch_store(m_module, m_memory, 1, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CUgraph graph = nullptr;
    EXPECT_EQ(CU(cuStreamEndCapture)(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);  // a non-blocking stream does not mind
    EXPECT_CU(launch_store(m_module, m_memory, 1, nullptr));
    EXPECT_CU(CU(cuGraphDestroy)(end()));
}

// An event of a capture is a place in a graph: whoever asks or waits for it breaks the capture.
TEST_F(CaptureTest, EventsOfItAreNotAskedFor) {
    for (auto* ask : {CU(cuEventQuery), CU(cuEventSynchronize)}) {
        CUevent captured = event();
        begin();
        ASSERT_CU(CU(cuEventRecord)(captured, m_stream));
        EXPECT_EQ(ask(captured), CUDA_ERROR_CAPTURED_EVENT);
        CUgraph graph = nullptr;
        EXPECT_EQ(CU(cuStreamEndCapture)(m_stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        EXPECT_EQ(graph, nullptr);
    }
}

TEST_F(CaptureTest, EventsFromOutsideAreIsolated) {
    CUevent outside = event();
    ASSERT_CU(CU(cuEventRecord)(outside, m_second));
    begin();
    EXPECT_EQ(CU(cuStreamWaitEvent)(m_stream, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin();
    EXPECT_CU(CU(cuStreamWaitEvent)(m_stream, outside, CU_EVENT_WAIT_EXTERNAL));
    EXPECT_CU(CU(cuEventRecordWithFlags)(outside, m_stream, CU_EVENT_RECORD_EXTERNAL));
    CUgraph graph = end();
    size_t count = 0;
    EXPECT_CU(CU(cuGraphGetNodes)(graph, nullptr, &count));
    EXPECT_EQ(count, 2u);
    run(instantiate(graph));
}

TEST_F(CaptureTest, TwoCapturesDoNotMerge) {
    CUevent mark = event();
    begin();
    ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_second, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CU(CU(cuEventRecord)(mark, m_second));
    EXPECT_EQ(CU(cuStreamWaitEvent)(m_stream, mark, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CUgraph graph = nullptr;
    EXPECT_EQ(CU(cuStreamEndCapture)(m_second, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(CaptureTest, InfoAndDependenciesCanBeChanged) {
    begin();
    EXPECT_CU(launch_store(m_module, m_memory, 1, m_stream));
    CUstreamCaptureStatus now{};
    cuuint64_t id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* nodes = nullptr;
    const CUgraphEdgeData* edges = nullptr;
    size_t count = 0;
    EXPECT_CU(CU(cuStreamGetCaptureInfo_v3)(m_stream, &now, &id, &graph, &nodes, &edges, &count));
    EXPECT_EQ(now, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ASSERT_EQ(count, 1u);
    EXPECT_NE(id, 0u);
    CUgraphNode first = nodes[0];
    CUgraphNode own = add_store(graph, {first}, 1, 2);  // the program adds a node of its own
    EXPECT_CU(CU(cuStreamUpdateCaptureDependencies)(m_stream, &own, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    EXPECT_CU(CU(cuMemcpyDtoDAsync_v2)(m_memory + 8, m_memory, 8, m_stream));
    CUgraph ended = end();
    EXPECT_EQ(ended, graph);
    run(instantiate(graph));
    EXPECT_EQ(word(3), 2u);
    cuuint64_t later = 0;
    begin();
    EXPECT_CU(CU(cuStreamGetCaptureInfo_v2)(m_stream, &now, &later, nullptr, nullptr, &count));
    EXPECT_NE(later, id);
    EXPECT_EQ(count, 0u);
    EXPECT_CU(CU(cuGraphDestroy)(end()));
}

TEST_F(CaptureTest, CapturesIntoAGraphThatExists) {
    CUgraph graph = create();
    CUgraphNode first = add_store(graph, {}, 0, 1);
    ASSERT_CU(CU(cuStreamBeginCaptureToGraph)(m_stream, graph, &first, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CU(CU(cuMemcpyDtoDAsync_v2)(m_memory + 4, m_memory, 4, m_stream));
    EXPECT_EQ(end(), graph);
    run(instantiate(graph));
    EXPECT_EQ(word(1), 1u);
}

TEST_F(CaptureTest, OnlyTheGraphThatWasNamedNeedNotBeAskedForAtTheEnd) {
    CUgraph graph = create();
    ASSERT_CU(CU(cuStreamBeginCaptureToGraph)(m_stream, graph, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CU(launch_store(m_module, m_memory, 4, m_stream));
    EXPECT_CU(CU(cuStreamEndCapture)(m_stream, nullptr));
    EXPECT_EQ(status(m_stream), CU_STREAM_CAPTURE_STATUS_NONE);
    run(instantiate(graph));
    EXPECT_EQ(word(0), 4u);
    begin();
    EXPECT_EQ(CU(cuStreamEndCapture)(m_stream, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuGraphDestroy)(end()));
}

TEST_F(CaptureTest, AStreamThatJoinedMayBeDestroyed) {
    for (bool waited_for : {true, false}) {
        CUstream helper = nullptr;
        ASSERT_CU(CU(cuStreamCreate)(&helper, CU_STREAM_NON_BLOCKING));
        CUevent fork = event(), join = event();
        begin();
        EXPECT_CU(launch_store(m_module, m_memory, 1, m_stream));
        EXPECT_CU(CU(cuEventRecord)(fork, m_stream));
        EXPECT_CU(CU(cuStreamWaitEvent)(helper, fork, 0));
        EXPECT_CU(CU(cuMemcpyDtoDAsync_v2)(m_memory + 4, m_memory, 4, helper));
        EXPECT_CU(CU(cuEventRecord)(join, helper));
        if (waited_for) {
            EXPECT_CU(CU(cuStreamWaitEvent)(m_stream, join, 0));
        }
        EXPECT_CU(CU(cuStreamDestroy_v2)(helper));
        EXPECT_CU(CU(cuEventDestroy_v2)(fork));
        EXPECT_CU(CU(cuEventDestroy_v2)(join));
        if (!waited_for) {
            expect_end(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
            continue;
        }
        EXPECT_CU(launch_store(m_module, m_memory + 8, 3, m_stream));
        run(instantiate(end()));
        EXPECT_EQ(word(1), 1u);
        EXPECT_EQ(word(2), 3u);
    }
}

TEST_F(CaptureTest, AskingForACapturedEventBreaksTheCapture) {
    for (const auto& ask : {CU(cuEventQuery), CU(cuEventSynchronize)}) {
        CUevent recorded = event();
        begin();
        EXPECT_CU(CU(cuEventRecord)(recorded, m_stream));
        EXPECT_EQ(ask(recorded), CUDA_ERROR_CAPTURED_EVENT);
        expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}

TEST_F(CaptureTest, LaunchesOfGraphsAreNotCaptured) {
    CUgraph inner = create();
    add_add(inner, {}, 5, 7);
    CUgraphExec exec = instantiate(inner);
    begin();
    EXPECT_EQ(CU(cuGraphLaunch)(exec, m_stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    run(exec);
    EXPECT_EQ(word(5), 7u);
}

TEST_F(CaptureTest, AllocationsAreCapturedToo) {
    begin();
    CUdeviceptr p = 0;
    EXPECT_CU(CU(cuMemAllocAsync)(&p, 256, m_stream));
    EXPECT_CU(launch_store(m_module, p, 33, m_stream));
    EXPECT_CU(CU(cuMemcpyDtoDAsync_v2)(m_memory, p, 4, m_stream));
    EXPECT_CU(CU(cuMemFreeAsync)(p, m_stream));
    CUgraphExec exec = instantiate(end());
    run(exec);
    run(exec);
    EXPECT_EQ(word(0), 33u);
}

}  // namespace
}  // namespace softgpu_test
