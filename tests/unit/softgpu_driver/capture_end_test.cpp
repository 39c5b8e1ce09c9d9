// Captures that end because their stream, their thread or their context does, and what is refused on the way.
#include <thread>

#include "tests/unit/softgpu_driver/graph_fixture.h"

namespace softgpu_test {
namespace {

class CaptureEndTest : public GraphFixture {
protected:
    CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
        CUstream made = nullptr;
        EXPECT_CU(CU(cuStreamCreate)(&made, flags));
        return made;
    }
    CUevent event() {
        CUevent made = nullptr;
        EXPECT_CU(CU(cuEventCreate)(&made, CU_EVENT_DISABLE_TIMING));
        return made;
    }
    /// Draws `joining` into the capture of `from`, with a kernel in each.
    CUevent join(CUstream from, CUstream joining) {
        CUevent fork = event();
        EXPECT_CU(launch_store(m_module, m_memory, 1, from));
        EXPECT_CU(CU(cuEventRecord)(fork, from));
        EXPECT_CU(CU(cuStreamWaitEvent)(joining, fork, 0));
        EXPECT_CU(launch_store(m_module, m_memory + 4, 2, joining));
        return fork;
    }
    CUstreamCaptureStatus status(CUstream of) {
        CUstreamCaptureStatus value{};
        EXPECT_CU(CU(cuStreamIsCapturing)(of, &value));
        return value;
    }
    void expect_unsafe_calls(CUresult expected) {
        CUdeviceptr p = 0;
        EXPECT_EQ(CU(cuMemAlloc_v2)(&p, 64), expected);
        if (expected == CUDA_SUCCESS) {
            EXPECT_CU(CU(cuMemFree_v2)(p));
        }
    }
    /// An ordinary stream: work on it is done, and it can be captured.
    void expect_ordinary(CUstream of) {
        EXPECT_EQ(status(of), CU_STREAM_CAPTURE_STATUS_NONE);
        EXPECT_CU(launch_store(m_module, m_memory + 8, 77, of));
        EXPECT_CU(CU(cuStreamSynchronize)(of));
        EXPECT_EQ(word(2), 77u);
        ASSERT_CU(CU(cuStreamBeginCapture_v2)(of, CU_STREAM_CAPTURE_MODE_GLOBAL));
        CUgraph graph = nullptr;
        EXPECT_CU(CU(cuStreamEndCapture)(of, &graph));
        EXPECT_CU(CU(cuGraphDestroy)(graph));
        EXPECT_CU(CU(cuMemsetD32_v2)(m_memory + 8, 0, 1));
        EXPECT_CU(CU(cuCtxSynchronize)());
    }
};

constexpr CUstreamCaptureMode k_modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                           CU_STREAM_CAPTURE_MODE_RELAXED};

TEST_F(CaptureEndTest, DestroyingTheFirstStreamEndsTheCapture) {
    for (CUstreamCaptureMode mode : k_modes) {
        CUstream origin = stream(), other = stream();
        ASSERT_CU(CU(cuStreamBeginCapture_v2)(origin, mode));
        CUevent fork = join(origin, other), later = event();
        EXPECT_CU(CU(cuEventRecord)(later, other));
        CUgraph graph = nullptr;
        cuuint64_t id = 0;
        CUstreamCaptureStatus now{};
        EXPECT_CU(CU(cuStreamGetCaptureInfo_v2)(other, &now, &id, &graph, nullptr, nullptr));
        EXPECT_CU(CU(cuStreamDestroy_v2)(origin));
        EXPECT_EQ(word(0) + word(1), 0u);  // nothing of it was done
        expect_unsafe_calls(CUDA_SUCCESS);
        expect_ordinary(other);
        size_t count = 0;
        EXPECT_EQ(CU(cuGraphGetNodes)(graph, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
        // Events that were recorded in it stand for nothing.
        for (CUevent old : {fork, later}) {
            EXPECT_EQ(CU(cuStreamWaitEvent)(m_stream, old, 0), CUDA_ERROR_INVALID_VALUE);
            EXPECT_EQ(CU(cuEventQuery)(old), CUDA_ERROR_INVALID_VALUE);
            EXPECT_CU(CU(cuEventRecord)(old, m_stream));
            EXPECT_CU(CU(cuStreamWaitEvent)(other, old, 0));
            EXPECT_CU(CU(cuEventDestroy_v2)(old));
        }
        EXPECT_CU(CU(cuStreamDestroy_v2)(other));
    }
}

TEST_F(CaptureEndTest, AnInvalidCaptureEndsLikewise) {
    CUstream origin = stream();
    ASSERT_CU(CU(cuStreamBeginCapture_v2)(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
    expect_unsafe_calls(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_CU(CU(cuStreamDestroy_v2)(origin));
    expect_unsafe_calls(CUDA_SUCCESS);
}

TEST_F(CaptureEndTest, AGraphOfTheProgramsKeepsWhatWasCaptured) {
    CUgraph graph = create();
    CUstream origin = stream();
    ASSERT_CU(CU(cuStreamBeginCaptureToGraph)(origin, graph, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CU(launch_store(m_module, m_memory, 4, origin));
    EXPECT_CU(CU(cuStreamDestroy_v2)(origin));
    size_t count = 0;
    EXPECT_CU(CU(cuGraphGetNodes)(graph, nullptr, &count));
    EXPECT_EQ(count, 1u);
    run(instantiate(graph));
    EXPECT_EQ(word(0), 4u);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
}

TEST_F(CaptureEndTest, TheEndOfAContextEndsItsCaptures) {
    CUcontext second = nullptr;
    ASSERT_CU(CU(cuCtxCreate_v4)(&second, nullptr, 0, 0));
    CUstream origin = stream();
    ASSERT_CU(CU(cuStreamBeginCapture_v2)(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
    // A stream of another context takes part.
    CUevent fork = event();
    EXPECT_CU(CU(cuEventRecord)(fork, origin));
    EXPECT_CU(CU(cuStreamWaitEvent)(m_stream, fork, 0));
    EXPECT_EQ(status(m_stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_CU(CU(cuCtxDestroy_v2)(second));
    ASSERT_CU(CU(cuCtxSetCurrent)(context()));
    expect_unsafe_calls(CUDA_SUCCESS);
    expect_ordinary(m_stream);
}

TEST_F(CaptureEndTest, AResetEndsThoseOfThePrimaryContext) {
    for (bool own_stream : {false, true}) {
        CUcontext primary = nullptr;
        ASSERT_CU(CU(cuDevicePrimaryCtxRetain)(&primary, 0));
        ASSERT_CU(CU(cuCtxPushCurrent_v2)(primary));
        CUstream origin = own_stream ? CU_STREAM_PER_THREAD : stream();
        ASSERT_CU(CU(cuStreamBeginCapture_v2)(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
        EXPECT_CU(CU(cuDevicePrimaryCtxReset_v2)(0));
        ASSERT_CU(CU(cuCtxPopCurrent_v2)(nullptr));
        expect_unsafe_calls(CUDA_SUCCESS);
    }
}

TEST_F(CaptureEndTest, TheEndOfAThreadEndsThoseOfItsOwnStream) {
    CUcontext ours = context();
    std::thread([&] {
        EXPECT_CU(CU(cuCtxSetCurrent)(ours));
        EXPECT_CU(CU(cuStreamBeginCapture_v2)(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL));
        EXPECT_CU(launch_store(m_module, m_memory, 1, CU_STREAM_PER_THREAD));
    }).join();
    expect_unsafe_calls(CUDA_SUCCESS);
    // That of another stream goes on; whoever ends it here, ends it without a graph (DB-39).
    std::thread([&] {
        EXPECT_CU(CU(cuCtxSetCurrent)(ours));
        EXPECT_CU(CU(cuStreamBeginCapture_v2)(m_stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    }).join();
    CUgraph graph = nullptr;
    EXPECT_EQ(CU(cuStreamEndCapture)(m_stream, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    EXPECT_EQ(status(m_stream), CU_STREAM_CAPTURE_STATUS_NONE);
    expect_unsafe_calls(CUDA_SUCCESS);
}

// Who ends a capture, by its mode and by the thread.
TEST_F(CaptureEndTest, RelaxedCapturesMayBeEndedByAnyThread) {
    struct Case {
        CUstreamCaptureMode mode;
        CUresult elsewhere;
    };
    CUcontext ours = context();
    for (const Case& one : {Case{CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
                            Case{CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
                            Case{CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_SUCCESS}}) {
        ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_stream, one.mode));
        CUgraph graph = nullptr;
        std::thread([&] {
            EXPECT_CU(CU(cuCtxSetCurrent)(ours));
            EXPECT_EQ(CU(cuStreamEndCapture)(m_stream, &graph), one.elsewhere);
        }).join();
        if (one.elsewhere == CUDA_SUCCESS) {
            EXPECT_CU(CU(cuGraphDestroy)(graph));
        } else {
            EXPECT_EQ(CU(cuStreamEndCapture)(m_stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
        }
    }
}

// Unsafe calls of the capturing thread and of another one, by the capture's mode and the caller's.
TEST_F(CaptureEndTest, WhichUnsafeCallsAreForbidden) {
    struct Case {
        CUstreamCaptureMode capture, thread;
        bool here_forbidden, elsewhere_forbidden;
    };
    constexpr auto G = CU_STREAM_CAPTURE_MODE_GLOBAL, T = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                   R = CU_STREAM_CAPTURE_MODE_RELAXED;
    const Case cases[] = {{G, G, true, true},   {G, T, true, false},  {G, R, false, false},
                          {T, G, true, false},  {T, T, true, false},  {T, R, false, false},
                          {R, G, false, false}, {R, T, false, false}, {R, R, false, false}};
    CUcontext ours = context();
    for (const Case& one : cases) {
        for (bool here : {true, false}) {
            ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_stream, one.capture));
            const bool forbidden = here ? one.here_forbidden : one.elsewhere_forbidden;
            auto call = [&] {
                EXPECT_CU(CU(cuCtxSetCurrent)(ours));
                CUstreamCaptureMode mode = one.thread;
                EXPECT_CU(CU(cuThreadExchangeStreamCaptureMode)(&mode));
                EXPECT_EQ(mode, G);
                expect_unsafe_calls(forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
                EXPECT_CU(CU(cuThreadExchangeStreamCaptureMode)(&mode));
                EXPECT_EQ(mode, one.thread);
            };
            if (here) {
                call();
            } else {
                std::thread(call).join();
            }
            EXPECT_EQ(status(m_stream), forbidden ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE);
            CUgraph graph = nullptr;
            EXPECT_EQ(CU(cuStreamEndCapture)(m_stream, &graph),
                      forbidden ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
            if (graph != nullptr) {
                EXPECT_CU(CU(cuGraphDestroy)(graph));
            }
        }
    }
}

TEST_F(CaptureEndTest, WhatIsLeftOutOfTheDependenciesNeedNotBeJoined) {
    for (bool left_out : {true, false}) {
        CUstream other = stream();
        ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        join(m_stream, other);
        if (left_out) {
            EXPECT_CU(CU(cuStreamUpdateCaptureDependencies)(other, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
        }
        CUgraph graph = nullptr;
        EXPECT_EQ(CU(cuStreamEndCapture)(m_stream, &graph), left_out ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        if (graph != nullptr) {
            EXPECT_CU(CU(cuGraphDestroy)(graph));
        }
        EXPECT_CU(CU(cuStreamDestroy_v2)(other));
    }
}

TEST_F(CaptureEndTest, DependenciesAreCheckedAndAdded) {
    CUgraph foreign = create();
    CUgraphNode theirs = add_store(foreign, {}, 0, 1);
    const auto add = CU_STREAM_ADD_CAPTURE_DEPENDENCIES;
    EXPECT_EQ(CU(cuStreamUpdateCaptureDependencies)(m_stream, nullptr, 0, add), CUDA_ERROR_ILLEGAL_STATE);
    ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CU(launch_store(m_module, m_memory, 1, m_stream));
    EXPECT_EQ(CU(cuStreamUpdateCaptureDependencies)(m_stream, &theirs, 1, add), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuStreamUpdateCaptureDependencies)(m_stream, nullptr, 0, 7), CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureStatus now{};
    CUgraph graph = nullptr;
    size_t count = 0;
    EXPECT_CU(CU(cuStreamGetCaptureInfo_v2)(m_stream, &now, nullptr, &graph, nullptr, &count));
    EXPECT_EQ(count, 1u);
    CUgraphNode own = add_store(graph, {}, 1, 2);
    CUgraphEdgeData edge{};
    EXPECT_CU(CU(cuStreamUpdateCaptureDependencies_v2)(m_stream, &own, &edge, 1, add));
    const CUgraphNode* nodes = nullptr;
    const CUgraphEdgeData* edges = nullptr;
    EXPECT_CU(CU(cuStreamGetCaptureInfo_v3)(m_stream, &now, nullptr, nullptr, &nodes, &edges, &count));
    ASSERT_EQ(count, 2u);
    EXPECT_EQ(nodes[1], own);
    EXPECT_CU(CU(cuStreamGetCaptureInfo)(m_stream, &now, nullptr));
    EXPECT_EQ(now, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect_unsafe_calls(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(CU(cuStreamUpdateCaptureDependencies)(m_stream, &own, 1, add), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(CU(cuStreamEndCapture)(m_stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(CaptureEndTest, NothingIsTakenFromAGraphThatIsBeingCaptured) {
    ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_CU(launch_store(m_module, m_memory, 7, m_stream));
    CUgraph graph = nullptr;
    CUstreamCaptureStatus now{};
    const CUgraphNode* nodes = nullptr;
    size_t count = 0;
    EXPECT_CU(CU(cuStreamGetCaptureInfo_v2)(m_stream, &now, nullptr, &graph, &nodes, &count));
    ASSERT_EQ(count, 1u);
    const CUgraphNode last = nodes[0];
    EXPECT_EQ(CU(cuGraphDestroyNode)(last), CUDA_ERROR_ILLEGAL_STATE);
    EXPECT_EQ(CU(cuGraphDestroy)(graph), CUDA_ERROR_ILLEGAL_STATE);
    EXPECT_CU(launch_store(m_module, m_memory + 4, 8, m_stream));  // after the node that is still there
    EXPECT_CU(CU(cuStreamEndCapture)(m_stream, &graph));
    EXPECT_CU(CU(cuGraphDestroyNode)(last));
    EXPECT_CU(CU(cuGraphGetNodes)(graph, nullptr, &count));
    EXPECT_EQ(count, 1u);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
}

TEST_F(CaptureEndTest, CapturedEventsCannotBeTimed) {
    CUevent start = nullptr, end = nullptr;
    ASSERT_CU(CU(cuEventCreate)(&start, CU_EVENT_DEFAULT));
    ASSERT_CU(CU(cuEventCreate)(&end, CU_EVENT_DEFAULT));
    EXPECT_CU(CU(cuEventRecord)(start, m_stream));
    EXPECT_CU(CU(cuEventRecord)(end, m_stream));
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CU(CU(cuEventRecord)(end, m_stream));
    CUgraph graph = nullptr;
    EXPECT_CU(CU(cuStreamEndCapture)(m_stream, &graph));
    float milliseconds = 0;
    EXPECT_EQ(CU(cuEventElapsedTime_v2)(&milliseconds, start, end), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuEventSynchronize)(end), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(CU(cuEventRecord)(end, m_stream));
    EXPECT_CU(CU(cuEventSynchronize)(end));
    EXPECT_CU(CU(cuEventElapsedTime_v2)(&milliseconds, start, end));
}

}  // namespace
}  // namespace softgpu_test
