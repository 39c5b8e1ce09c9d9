// What breaks a capture though it is no work in its streams, and events of captures that go on or are over.
#include <functional>
#include <thread>

#include "tests/unit/softgpu_driver/graph_fixture.h"

namespace softgpu_test {
namespace {

constexpr CUstreamCaptureMode k_each_mode[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                               CU_STREAM_CAPTURE_MODE_RELAXED};

class CaptureBreakTest : public GraphFixture {
protected:
    void SetUp() override {
        GraphFixture::SetUp();
        ASSERT_CU(CU(cuStreamCreate)(&m_outside, CU_STREAM_NON_BLOCKING));
        ASSERT_CU(CU(cuEventCreate)(&m_before, CU_EVENT_DEFAULT));
        ASSERT_CU(CU(cuEventCreate)(&m_captured, CU_EVENT_DEFAULT));
        ASSERT_CU(CU(cuEventRecord)(m_before, m_outside));
        ASSERT_CU(CU(cuStreamSynchronize)(m_outside));
        m_graph = create();
        add_store(m_graph, {}, 0, 1);
    }
    CUstreamCaptureStatus status() {
        CUstreamCaptureStatus value{};
        EXPECT_CU(CU(cuStreamIsCapturing)(m_stream, &value));
        return value;
    }
    void expect_end(CUresult expected, CUstream stream) {
        CUgraph graph = nullptr;
        EXPECT_EQ(CU(cuStreamEndCapture)(stream, &graph), expected);
        EXPECT_EQ(graph != nullptr, expected == CUDA_SUCCESS);
        if (graph != nullptr) {
            EXPECT_CU(CU(cuGraphDestroy)(graph));
        }
    }
    /// What a call gives while a stream is captured, with an event recorded in it. @param broken  the capture is after it
    void expect_in_capture(CUstreamCaptureMode mode, const std::function<CUresult()>& call, CUresult expected, bool broken) {
        ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_stream, mode));
        EXPECT_CU(launch_store(m_module, m_memory, 1, m_stream));
        EXPECT_CU(CU(cuEventRecord)(m_captured, m_stream));
        EXPECT_EQ(call(), expected);
        EXPECT_EQ(status(), broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE);
        expect_end(broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS, m_stream);
    }

    CUstream m_outside = nullptr;
    CUevent m_before = nullptr, m_captured = nullptr;  // of before any capture, and recorded in each
    CUgraph m_graph = nullptr;
};

// In its own thread, unless the capture is relaxed or the thread is.
TEST_F(CaptureBreakTest, QuestionsWaitsFreesAndExecutableGraphs_DB_45) {
    const std::pair<const char*, std::function<CUresult()>> calls[] = {
        {"query an event", [&] { return CU(cuEventQuery)(m_before); }},
        {"wait for an event", [&] { return CU(cuEventSynchronize)(m_before); }},
        {"query a stream", [&] { return CU(cuStreamQuery)(m_outside); }},
        {"wait for a stream", [&] { return CU(cuStreamSynchronize)(m_outside); }},
        {"wait for the default stream", [&] { return CU(cuStreamSynchronize)(nullptr); }},
        {"free in a stream outside",
         [this, memory = CUdeviceptr{0}]() mutable {
             if (memory == 0) {  // allocated before the first capture, and refused until it is freed in the last one
                 EXPECT_CU(CU(cuMemAllocAsync)(&memory, 64, m_outside));
                 return CUDA_SUCCESS;
             }
             return CU(cuMemFreeAsync)(memory, m_outside);
         }},
        {"instantiate",
         [&] {
             CUgraphExec exec = nullptr;
             const CUresult result = CU(cuGraphInstantiateWithFlags)(&exec, m_graph, 0);
             return result == CUDA_SUCCESS ? CU(cuGraphExecDestroy)(exec) : result;
         }},
        {"destroy an executable graph",
         [this, exec = CUgraphExec{nullptr}]() mutable {
             if (exec == nullptr) {
                 exec = instantiate(m_graph);
                 return CUDA_SUCCESS;
             }
             return CU(cuGraphExecDestroy)(exec);
         }},
    };
    for (const auto& [name, call] : calls) {
        SCOPED_TRACE(name);
        EXPECT_CU(call());
        for (const CUstreamCaptureMode mode : k_each_mode) {
            const bool refused = mode != CU_STREAM_CAPTURE_MODE_RELAXED;
            expect_in_capture(mode, call, refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS, refused);
        }
    }
}

// A relaxed thread may, and another thread beside a thread-local capture; beside a global one it may not.
TEST_F(CaptureBreakTest, WhoseThreadAsks_DB_45) {
    const auto relaxed_query = [&] {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        EXPECT_CU(CU(cuThreadExchangeStreamCaptureMode)(&mode));
        const CUresult result = CU(cuEventQuery)(m_before);
        EXPECT_CU(CU(cuThreadExchangeStreamCaptureMode)(&mode));
        return result;
    };
    CUcontext ours = context();
    const auto elsewhere = [&](const std::function<CUresult()>& call) {
        CUresult result = CUDA_SUCCESS;
        std::thread([&] {
            EXPECT_CU(CU(cuCtxSetCurrent)(ours));
            result = call();
        }).join();
        return result;
    };
    const auto query = [&] { return CU(cuEventQuery)(m_before); };
    const auto query_elsewhere = [&] { return elsewhere(query); };
    expect_in_capture(CU_STREAM_CAPTURE_MODE_GLOBAL, relaxed_query, CUDA_SUCCESS, false);
    expect_in_capture(
        CU_STREAM_CAPTURE_MODE_GLOBAL, [&] { return elsewhere(relaxed_query); }, CUDA_SUCCESS, false);
    expect_in_capture(CU_STREAM_CAPTURE_MODE_GLOBAL, query_elsewhere, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true);
    expect_in_capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, query_elsewhere, CUDA_SUCCESS, false);
}

TEST_F(CaptureBreakTest, WhatNoModeAllows_DB_45) {
    CUgraphExec exec = instantiate(m_graph);
    CUcontext ours = context();
    CUDA_GRAPH_INSTANTIATE_PARAMS params{};
    params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    params.hUploadStream = m_stream;
    const std::pair<const char*, std::function<CUresult()>> calls[] = {
        {"upload", [&] { return CU(cuGraphUpload)(exec, m_stream); }},
        {"instantiate with an upload",
         [&] {
             CUgraphExec made = nullptr;
             return CU(cuGraphInstantiateWithParams)(&made, m_graph, &params);
         }},
        {"record an event of the context, one with timing", [&] { return CU(cuCtxRecordEvent)(ours, m_before); }},
        {"let the context wait", [&] { return CU(cuCtxWaitEvent)(ours, m_before); }},
        {"let the context wait for the capture", [&] { return CU(cuCtxWaitEvent)(ours, m_captured); }},
    };
    for (const auto& [name, call] : calls) {
        SCOPED_TRACE(name);
        for (const CUstreamCaptureMode mode : k_each_mode) {
            expect_in_capture(mode, call, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true);
        }
    }
    expect_in_capture(
        CU_STREAM_CAPTURE_MODE_GLOBAL, [&] { return CU(cuGraphUpload)(exec, m_outside); }, CUDA_SUCCESS, false);
}

TEST_F(CaptureBreakTest, TimesOfCapturedEventsAreRefusedAlone_DB_53) {
    float milliseconds = 0;
    const auto elapsed = [&] { return CU(cuEventElapsedTime_v2)(&milliseconds, m_before, m_captured); };
    for (const CUstreamCaptureMode mode : k_each_mode) expect_in_capture(mode, elapsed, CUDA_ERROR_CAPTURED_EVENT, false);
    EXPECT_EQ(elapsed(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CaptureBreakTest, WaitingForAnEventOfACaptureThatIsOver_DB_53) {
    for (const bool succeeds : {true, false}) {
        expect_in_capture(
            CU_STREAM_CAPTURE_MODE_GLOBAL, [&] { return succeeds ? CUDA_SUCCESS : CU(cuStreamQuery)(m_stream); },
            succeeds ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, !succeeds);
        EXPECT_EQ(CU(cuStreamWaitEvent)(m_outside, m_captured, 0), CUDA_ERROR_INVALID_VALUE);
        for (const unsigned flags : {CU_EVENT_WAIT_DEFAULT, CU_EVENT_WAIT_EXTERNAL}) {
            ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_outside, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
            EXPECT_EQ(CU(cuStreamWaitEvent)(m_outside, m_captured, flags), CUDA_ERROR_INVALID_VALUE);
            expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, m_outside);
        }
        EXPECT_CU(CU(cuEventRecord)(m_captured, m_outside));
        EXPECT_CU(CU(cuEventSynchronize)(m_captured));
    }
}

TEST_F(CaptureBreakTest, EventsAreNoNodesOutsideOfCaptures_DB_54) {
    EXPECT_EQ(CU(cuEventRecordWithFlags)(m_before, m_stream, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_ILLEGAL_STATE);
    EXPECT_EQ(CU(cuStreamWaitEvent)(m_stream, m_before, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_ILLEGAL_STATE);
}

TEST_F(CaptureBreakTest, TheWrongThreadEndsIt_DB_39) {
    CUcontext ours = context();
    for (const CUstreamCaptureMode mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
        ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_stream, mode));
        std::thread([&] {
            EXPECT_CU(CU(cuCtxSetCurrent)(ours));
            expect_end(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, m_stream);
        }).join();
        EXPECT_EQ(status(), CU_STREAM_CAPTURE_STATUS_NONE);
        expect_end(CUDA_ERROR_ILLEGAL_STATE, m_stream);
        EXPECT_CU(CU(cuEventSynchronize)(m_before));  // it forbids nothing any more
    }
}

}  // namespace
}  // namespace softgpu_test
