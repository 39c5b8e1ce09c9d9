// Tests of events between processes.
#include <unistd.h>
#include <csignal>

#include <cstring>
#include <thread>

#include "tests/unit/softgpu_driver/processes.h"

namespace softgpu_test {
namespace {

constexpr unsigned int k_shared = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;

CUstream make_stream() {
    CUstream stream = nullptr;
    EXPECT_CU(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

/// A stream that does nothing more until open() is called.
struct Gate {
    CUdeviceptr flag = 0;
    CUstream stream = make_stream(), opener = make_stream();
    Gate() {
        EXPECT_CU(CU(cuMemAlloc_v2)(&flag, 4));
        const uint32_t closed = 0;
        EXPECT_CU(CU(cuMemcpyHtoD_v2)(flag, &closed, sizeof(closed)));
        EXPECT_CU(CU(cuStreamWaitValue32_v2)(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    }
    void open() const { EXPECT_CU(CU(cuStreamWriteValue32_v2)(opener, flag, 1, 0)); }
};

CUevent export_event(Peer& peer) {
    CUevent event = nullptr;
    CUipcEventHandle handle;
    EXPECT_CU(CU(cuEventCreate)(&event, k_shared));
    EXPECT_CU(CU(cuIpcGetEventHandle)(&handle, event));
    peer.send(handle);
    return event;
}

CUevent import_event(Peer& peer) {
    CUevent event = nullptr;
    auto handle = peer.receive<CUipcEventHandle>();
    EXPECT_CU(CU(cuIpcOpenEventHandle)(&event, handle));
    return event;
}

void record_first(Peer& peer) {
    int supported = 0;
    EXPECT_CU(CU(cuDeviceGetAttribute)(&supported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 0));
    EXPECT_EQ(supported, 1);
    CUevent event = export_event(peer);
    peer.meet();  // the importer has seen it unrecorded
    Gate gate;
    EXPECT_CU(CU(cuEventRecord)(event, gate.stream));
    EXPECT_EQ(CU(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
    peer.meet();  // recorded
    peer.meet();  // the importer has work behind it
    gate.open();
    EXPECT_CU(CU(cuEventSynchronize)(event));
    EXPECT_CU(CU(cuEventQuery)(event));
    peer.meet();  // ended
    // The other direction.
    peer.meet();  // the importer has recorded
    EXPECT_EQ(CU(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
    CUstream stream = make_stream();
    EXPECT_CU(CU(cuStreamWaitEvent)(stream, event, 0));
    EXPECT_EQ(CU(cuStreamQuery)(stream), CUDA_ERROR_NOT_READY);
    peer.meet();  // the importer lets go
    EXPECT_CU(CU(cuStreamSynchronize)(stream));
    EXPECT_CU(CU(cuEventSynchronize)(event));
    EXPECT_CU(CU(cuEventDestroy_v2)(event));
}

void record_second(Peer& peer) {
    CUevent event = import_event(peer), again = nullptr;
    EXPECT_CU(CU(cuEventQuery)(event));  // as of an event that was never recorded
    EXPECT_CU(CU(cuEventSynchronize)(event));
    peer.meet();
    peer.meet();
    EXPECT_EQ(CU(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
    CUdeviceptr p = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&p, 4));
    ASSERT_CU(CU(cuMemsetD32_v2)(p, 1, 1));
    CUstream first = make_stream(), second = make_stream();
    CUmodule module = load_kernels();
    for (CUstream stream : {first, second}) EXPECT_CU(CU(cuStreamWaitEvent)(stream, event, 0));
    EXPECT_CU(launch_store(module, p, 2, first));
    EXPECT_EQ(CU(cuStreamQuery)(first), CUDA_ERROR_NOT_READY);
    peer.meet();
    EXPECT_CU(CU(cuStreamSynchronize)(first));
    EXPECT_CU(CU(cuStreamSynchronize)(second));
    peer.meet();
    EXPECT_CU(CU(cuEventQuery)(event));
    CUipcEventHandle handle;
    float milliseconds = 0;
    EXPECT_EQ(CU(cuEventElapsedTime_v2)(&milliseconds, event, event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(CU(cuIpcGetEventHandle)(&handle, event), CUDA_ERROR_INVALID_HANDLE);  // not the exporter
    Gate gate;
    EXPECT_CU(CU(cuEventRecord)(event, gate.stream));
    peer.meet();
    peer.meet();
    gate.open();
    EXPECT_CU(CU(cuEventSynchronize)(event));
    EXPECT_CU(CU(cuEventDestroy_v2)(event));
    EXPECT_EQ(CU(cuEventQuery)(again), CUDA_ERROR_INVALID_HANDLE);
}

TEST(IpcEventTest, BothSidesRecordAndWait) { run_pair(record_first, record_second); }

// A wait is for the record that was the latest when it was asked for, whatever is recorded later.
void record_twice(Peer& peer) {
    CUevent event = export_event(peer);
    Gate first, second;
    EXPECT_CU(CU(cuEventRecord)(event, first.stream));
    peer.meet();
    peer.meet();  // the importer waits for the first
    EXPECT_CU(CU(cuEventRecord)(event, second.stream));
    first.open();
    peer.meet();
    peer.meet();  // the importer has got through
    EXPECT_EQ(CU(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
    second.open();
    EXPECT_CU(CU(cuCtxSynchronize)());
    // More records than there are slots.
    for (int i = 0; i < 3000; ++i) EXPECT_CU(CU(cuEventRecord)(event, second.stream));
    EXPECT_CU(CU(cuCtxSynchronize)());
    EXPECT_CU(CU(cuEventQuery)(event));
    // And more that are not reached: the call waits for a slot.
    Gate third;
    std::thread recorder([&] {
        CUcontext context = nullptr;
        EXPECT_CU(CU(cuStreamGetCtx)(third.stream, &context));
        EXPECT_CU(CU(cuCtxSetCurrent)(context));
        for (int i = 0; i < 1500; ++i) EXPECT_CU(CU(cuEventRecord)(event, third.stream));
    });
    while (CU(cuEventQuery)(event) == CUDA_SUCCESS) std::this_thread::yield();
    third.open();
    recorder.join();
    EXPECT_CU(CU(cuEventSynchronize)(event));
}

void wait_for_the_first(Peer& peer) {
    CUevent event = import_event(peer);
    CUstream stream = make_stream();
    peer.meet();
    EXPECT_CU(CU(cuStreamWaitEvent)(stream, event, 0));
    peer.meet();
    peer.meet();
    EXPECT_CU(CU(cuStreamSynchronize)(stream));
    EXPECT_EQ(CU(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
    peer.meet();
}

TEST(IpcEventTest, LaterRecordsDoNotDisturbAWait) { run_pair(record_twice, wait_for_the_first); }

void die_before_the_end(Peer& peer) {
    CUevent ended = export_event(peer), pending = export_event(peer);
    CUstream stream = make_stream();
    EXPECT_CU(CU(cuEventRecord)(ended, stream));
    EXPECT_CU(CU(cuEventSynchronize)(ended));
    Gate gate;
    EXPECT_CU(CU(cuEventRecord)(pending, gate.stream));
    peer.meet();
    peer.meet();  // the importer waits
    raise(SIGKILL);
}

void outlive(Peer& peer) {
    CUevent ended = import_event(peer), pending = import_event(peer);
    CUstream stream = make_stream();
    peer.meet();
    EXPECT_CU(CU(cuStreamWaitEvent)(stream, pending, 0));
    EXPECT_EQ(CU(cuEventQuery)(pending), CUDA_ERROR_NOT_READY);
    EXPECT_CU(CU(cuEventSynchronize)(ended));
    peer.meet();  // from here on the context may have failed already
    EXPECT_EQ(CU(cuEventSynchronize)(pending), CUDA_ERROR_EXTERNAL_DEVICE);
    EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_EXTERNAL_DEVICE);
    EXPECT_EQ(CU(cuEventQuery)(pending), CUDA_ERROR_EXTERNAL_DEVICE);
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_EXTERNAL_DEVICE);
}

TEST(IpcEventTest, WhoWaitsForADeadProcessIsToldSo) { run_pair(die_before_the_end, outlive, Ends::first_is_killed); }

// Work of another context, and in a graph, waits for an event: that context fails, too.
void outlive_in_graphs(Peer& peer) {
    CUevent ended = import_event(peer), pending = import_event(peer);
    CUcontext events = nullptr, own = nullptr;
    EXPECT_CU(CU(cuCtxGetCurrent)(&events));
    EXPECT_CU(CU(cuCtxCreate_v4)(&own, nullptr, 0, 0));
    CUstream stream = make_stream(), other = make_stream();
    CUdeviceptr p = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&p, 4));
    peer.meet();
    const auto launch = [&](CUevent event, CUstream in) {
        CUgraph graph = nullptr;
        CUgraphNode wait = nullptr, fill = nullptr;
        CUgraphExec exec = nullptr;
        CUDA_MEMSET_NODE_PARAMS params{p, 0, 7, 4, 1, 1};
        EXPECT_CU(CU(cuGraphCreate)(&graph, 0));
        EXPECT_CU(CU(cuGraphAddEventWaitNode)(&wait, graph, nullptr, 0, event));
        EXPECT_CU(CU(cuGraphAddMemsetNode)(&fill, graph, &wait, 1, &params, own));
        EXPECT_CU(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
        EXPECT_CU(CU(cuGraphLaunch)(exec, in));
    };
    launch(ended, other);
    EXPECT_CU(CU(cuStreamSynchronize)(other));
    launch(pending, stream);
    EXPECT_EQ(CU(cuStreamQuery)(stream), CUDA_ERROR_NOT_READY);
    peer.meet();
    EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_EXTERNAL_DEVICE);
    uint32_t value = 0;
    EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&value, p, 4), CUDA_ERROR_EXTERNAL_DEVICE);
    EXPECT_CU(CU(cuCtxSetCurrent)(events));
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_EXTERNAL_DEVICE);
}

TEST(IpcEventTest, AGraphThatWaitsForADeadProcessIsToldSo) {
    run_pair(die_before_the_end, outlive_in_graphs, Ends::first_is_killed);
}

void query_the_dead(Peer& peer) {
    CUevent pending = import_event(peer), unused = import_event(peer);
    peer.meet();
    peer.meet();
    EXPECT_TRUE(peer.ended());
    CUresult result = CUDA_SUCCESS;
    do result = CU(cuEventQuery)(pending);
    while (result == CUDA_ERROR_NOT_READY);
    EXPECT_EQ(result, CUDA_ERROR_EXTERNAL_DEVICE);
    (void)unused;
}

void die_with_events(Peer& peer) {
    CUevent pending = export_event(peer);
    export_event(peer);
    Gate gate;
    EXPECT_CU(CU(cuEventRecord)(pending, gate.stream));
    peer.meet();
    peer.meet();
    raise(SIGKILL);
}

TEST(IpcEventTest, QueriesOfADeadProcessEndToo) { run_pair(die_with_events, query_the_dead, Ends::first_is_killed); }

// DB-73: NVIDIA's driver does not look who lives.
void wait_for_the_dead(Peer& peer) {
    CUevent pending = import_event(peer), unused = import_event(peer);
    CUstream stream = make_stream();
    peer.meet();
    EXPECT_CU(CU(cuStreamWaitEvent)(stream, pending, 0));
    peer.meet();
    EXPECT_TRUE(peer.ended());
    for (int i = 0; i < 100; ++i) EXPECT_EQ(CU(cuEventQuery)(pending), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(CU(cuStreamQuery)(stream), CUDA_ERROR_NOT_READY);
    EXPECT_CU(CU(cuEventQuery)(unused));  // the context is well
}

TEST(IpcEventTest, WorkOfADeadProcessIsAwaitedForEver) {
    setenv("SOFTGPU_PROFILE", "strict", 1);  // for the children
    run_pair(die_with_events, wait_for_the_dead, Ends::first_is_killed);
    unsetenv("SOFTGPU_PROFILE");
}

void give_event(Peer& peer) {
    CUevent event = export_event(peer), plain = nullptr, own = nullptr;
    CUipcEventHandle handle;
    EXPECT_CU(CU(cuIpcGetEventHandle)(&handle, event));
    EXPECT_EQ(CU(cuIpcOpenEventHandle)(&own, handle), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CU(CU(cuEventCreate)(&plain, CU_EVENT_DISABLE_TIMING));
    EXPECT_EQ(CU(cuIpcGetEventHandle)(&handle, plain), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(CU(cuIpcGetEventHandle)(&handle, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuIpcGetEventHandle)(nullptr, event), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuEventCreate)(&plain, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    peer.meet();
}

void refuse_events(Peer& peer) {
    auto handle = peer.receive<CUipcEventHandle>();
    CUevent event = nullptr, same = nullptr;
    CUipcEventHandle broken{};
    EXPECT_EQ(CU(cuIpcOpenEventHandle)(&event, broken), CUDA_ERROR_MAP_FAILED);
    for (size_t byte : {0, 8, 12, 16, 31}) {
        broken = handle;
        broken.reserved[byte] = static_cast<char>(broken.reserved[byte] ^ 0x5a);
        EXPECT_EQ(CU(cuIpcOpenEventHandle)(&event, broken),
                  byte == 0 || byte == 12 ? CUDA_ERROR_MAP_FAILED : CUDA_ERROR_INVALID_HANDLE)
            << byte;
    }
    // Opened twice: two events with one state.
    EXPECT_CU(CU(cuIpcOpenEventHandle)(&event, handle));
    EXPECT_CU(CU(cuIpcOpenEventHandle)(&same, handle));
    EXPECT_NE(event, same);
    Gate gate;
    EXPECT_CU(CU(cuEventRecord)(event, gate.stream));
    EXPECT_CU(CU(cuEventDestroy_v2)(event));
    EXPECT_EQ(CU(cuEventQuery)(same), CUDA_ERROR_NOT_READY);
    gate.open();
    EXPECT_CU(CU(cuEventSynchronize)(same));
    EXPECT_CU(CU(cuEventDestroy_v2)(same));
    peer.meet();
    EXPECT_TRUE(peer.ended());
    EXPECT_EQ(CU(cuIpcOpenEventHandle)(&same, handle), CUDA_ERROR_INVALID_HANDLE);
}

TEST(IpcEventTest, BadHandlesAreRefused) { run_pair(give_event, refuse_events); }

}  // namespace
}  // namespace softgpu_test
