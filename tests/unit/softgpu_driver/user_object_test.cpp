// References to user objects: the program's own, of graphs, of executable graphs and of launches under way.
#include <atomic>
#include <thread>

#include "tests/unit/softgpu_driver/graph_fixture.h"

namespace softgpu_test {
namespace {

class UserObjectTest : public GraphFixture {
protected:
    struct Object {
        std::atomic<int> destroyed{0};
        CUuserObject handle = nullptr;
    };
    void make(Object& object, unsigned references = 1) {
        ASSERT_CU(CU(cuUserObjectCreate)(
            &object.handle, &object, [](void* p) { ++static_cast<Object*>(p)->destroyed; }, references,
            CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    }
    void expect_destroyed(Object& object) {
        while (object.destroyed == 0) std::this_thread::yield();
        EXPECT_EQ(object.destroyed, 1);
        EXPECT_EQ(CU(cuUserObjectRetain)(object.handle, 1), CUDA_ERROR_INVALID_VALUE);
    }
    /// A graph that holds one reference, given up by the program.
    CUgraph graph_of(Object& object) {
        CUgraph graph = create();
        EXPECT_CU(CU(cuGraphRetainUserObject)(graph, object.handle, 1, CU_GRAPH_USER_OBJECT_MOVE));
        return graph;
    }
    /// Work that runs until open() is called.
    struct Gate {
        CUdeviceptr flag = 0;
        CUstream opener = nullptr;
        explicit Gate(CUstream stream) {
            EXPECT_CU(CU(cuMemAlloc_v2)(&flag, 4));
            EXPECT_CU(CU(cuMemsetD32_v2)(flag, 0, 1));
            EXPECT_CU(CU(cuCtxSynchronize)());  // the stream does not wait for the default one
            EXPECT_CU(CU(cuStreamCreate)(&opener, CU_STREAM_NON_BLOCKING));
            EXPECT_CU(CU(cuStreamWaitValue32_v2)(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
        }
        void open() const { EXPECT_CU(CU(cuStreamWriteValue32_v2)(opener, flag, 1, 0)); }
    };
};

TEST_F(UserObjectTest, ArgumentsAreChecked) {
    Object object;
    const auto destroy = [](void*) {};
    struct Case {
        CUhostFn function;
        unsigned references, flags;
    };
    for (const Case& bad :
         {Case{nullptr, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC}, Case{destroy, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC},
          Case{destroy, 0x80000000u, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC}, Case{destroy, 1, 0}, Case{destroy, 1, 3}}) {
        EXPECT_EQ(CU(cuUserObjectCreate)(&object.handle, &object, bad.function, bad.references, bad.flags),
                  CUDA_ERROR_INVALID_VALUE);
    }
    make(object);
    CUgraph graph = create();
    EXPECT_EQ(CU(cuUserObjectRetain)(object.handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuUserObjectRelease)(object.handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuUserObjectRelease)(object.handle, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuGraphRetainUserObject)(graph, object.handle, 1, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuGraphRetainUserObject)(graph, object.handle, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuGraphReleaseUserObject)(graph, object.handle, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(object.destroyed, 0);
    // DB-43: the graph has none, but there is one.
    EXPECT_CU(CU(cuGraphReleaseUserObject)(graph, object.handle, 1));
    expect_destroyed(object);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
}

TEST_F(UserObjectTest, TheProgramsReferencesAreCounted) {
    Object object;
    make(object, 2);
    EXPECT_CU(CU(cuUserObjectRetain)(object.handle, 3));
    EXPECT_CU(CU(cuUserObjectRelease)(object.handle, 4));
    EXPECT_EQ(object.destroyed, 0);
    EXPECT_CU(CU(cuUserObjectRelease)(object.handle, 1));
    expect_destroyed(object);
}

TEST_F(UserObjectTest, GraphsHaveReferencesOfTheirOwn) {
    Object object;
    make(object);
    CUgraph graph = create(), clone = nullptr;
    EXPECT_CU(CU(cuGraphRetainUserObject)(graph, object.handle, 2, 0));
    EXPECT_CU(CU(cuUserObjectRelease)(object.handle, 1));
    EXPECT_CU(CU(cuGraphReleaseUserObject)(graph, object.handle, 1));
    EXPECT_CU(CU(cuGraphClone)(&clone, graph));
    EXPECT_CU(CU(cuGraphDestroy)(graph));
    EXPECT_EQ(object.destroyed, 0);
    EXPECT_CU(CU(cuGraphReleaseUserObject)(clone, object.handle, 1));
    expect_destroyed(object);
    EXPECT_CU(CU(cuGraphDestroy)(clone));
}

TEST_F(UserObjectTest, ALaunchUnderWayKeepsWhatItsGraphHad) {
    Object object;
    make(object);
    CUgraph graph = graph_of(object);
    add_store(graph, {}, 0, 5);
    CUgraphExec exec = instantiate(graph);
    EXPECT_CU(CU(cuGraphDestroy)(graph));
    Gate gate(m_stream);
    EXPECT_CU(CU(cuGraphLaunch)(exec, m_stream));
    EXPECT_CU(CU(cuGraphLaunch)(exec, m_stream));
    EXPECT_CU(CU(cuGraphExecDestroy)(exec));
    EXPECT_EQ(object.destroyed, 0);
    gate.open();
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    EXPECT_EQ(word(0), 5u);
    expect_destroyed(object);
}

TEST_F(UserObjectTest, AnUpdateExchangesThem) {
    Object old, fresh;
    make(old);
    make(fresh);
    CUgraph first = graph_of(old), second = graph_of(fresh);
    for (CUgraph graph : {first, second}) add_store(graph, {}, 0, 1);
    CUgraphExec exec = instantiate(first);
    EXPECT_CU(CU(cuGraphDestroy)(first));
    Gate gate(m_stream);
    EXPECT_CU(CU(cuGraphLaunch)(exec, m_stream));
    CUgraphExecUpdateResultInfo info{};
    EXPECT_CU(CU(cuGraphExecUpdate_v2)(exec, second, &info));
    EXPECT_CU(CU(cuGraphDestroy)(second));
    EXPECT_EQ(old.destroyed, 0);
    gate.open();
    expect_destroyed(old);
    EXPECT_EQ(fresh.destroyed, 0);
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    EXPECT_CU(CU(cuGraphExecDestroy)(exec));
    expect_destroyed(fresh);
}

TEST_F(UserObjectTest, ChildGraphsKeepTheirs) {
    Object object;
    make(object);
    CUgraph child = graph_of(object), parent = create();
    add_store(child, {}, 0, 1);
    CUgraphNode node = nullptr;
    EXPECT_CU(CU(cuGraphAddChildGraphNode)(&node, parent, nullptr, 0, child));
    EXPECT_CU(CU(cuGraphDestroy)(child));
    CUgraphExec exec = instantiate(parent);
    EXPECT_CU(CU(cuGraphDestroyNode)(node));
    EXPECT_CU(CU(cuGraphDestroy)(parent));
    Gate gate(m_stream);
    EXPECT_CU(CU(cuGraphLaunch)(exec, m_stream));
    EXPECT_CU(CU(cuGraphExecDestroy)(exec));
    EXPECT_EQ(object.destroyed, 0);
    gate.open();
    EXPECT_CU(CU(cuStreamSynchronize)(m_stream));
    expect_destroyed(object);
}

TEST_F(UserObjectTest, AnEventOfTheCaptureDoesNotKeepThem) {
    Object object;
    make(object);
    CUevent event = nullptr;
    ASSERT_CU(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    ASSERT_CU(CU(cuStreamBeginCapture_v2)(m_stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CU(launch_store(m_module, m_memory, 1, m_stream));
    EXPECT_CU(CU(cuEventRecord)(event, m_stream));
    CUgraph graph = nullptr;
    EXPECT_CU(CU(cuStreamEndCapture)(m_stream, &graph));
    EXPECT_CU(CU(cuGraphRetainUserObject)(graph, object.handle, 1, CU_GRAPH_USER_OBJECT_MOVE));
    EXPECT_CU(CU(cuGraphDestroy)(graph));
    expect_destroyed(object);
    EXPECT_CU(CU(cuEventDestroy_v2)(event));
}

}  // namespace
}  // namespace softgpu_test
