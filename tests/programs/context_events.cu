// Events of whole contexts, records with flags, and how a device's own context is told to wait: by what happens afterwards.
#include "driver_calls.h"

__global__ void store(int* to, int value) { *to = value; }
__global__ void copy(int* to, const int* from) { *to = *from; }

/// A stream of the current context that goes on when it is told to.
class Gate {
public:
    Gate() : m_word(std::vector<unsigned>{0}) {
        DRIVER(cuStreamCreate(&m_held, CU_STREAM_NON_BLOCKING));
        DRIVER(cuStreamCreate(&m_opener, CU_STREAM_NON_BLOCKING));
        DRIVER(cuStreamWaitValue32(m_held, word(), 1, CU_STREAM_WAIT_VALUE_EQ));
    }
    ~Gate() {
        for (CUstream stream : {m_held, m_opener}) DRIVER(cuStreamDestroy(stream));
    }
    CUstream stream() const { return m_held; }
    void open() {
        DRIVER(cuStreamWriteValue32(m_opener, word(), 1, 0));
        DRIVER(cuStreamSynchronize(m_opener));
    }

private:
    CUdeviceptr word() { return reinterpret_cast<CUdeviceptr>(m_word.data()); }
    DeviceArray<unsigned> m_word;
    CUstream m_held = nullptr, m_opener = nullptr;
};

static CUevent new_event(unsigned flags) {
    CUevent event;
    DRIVER(cuEventCreate(&event, flags));
    return event;
}

static CUcontext current() {
    CUcontext context;
    DRIVER(cuCtxGetCurrent(&context));
    return context;
}

// Recorded of a context, an event has come when all streams have that had something to do.
static void records() {
    const auto record = find<CUcontext, CUevent>("cuCtxRecordEvent", 12050);
    DeviceArray<int> data(std::vector<int>{0});
    CUevent all = new_event(CU_EVENT_DISABLE_TIMING);
    Gate first, second;
    store<<<1, 1, 0, first.stream()>>>(data.data(), 5);
    CHECK(cudaGetLastError());
    DRIVER(record(current(), all));
    first.open();
    DRIVER(cuStreamSynchronize(first.stream()));
    REFUSED(cuEventQuery(all), CUDA_ERROR_NOT_READY);  // the other one has not
    second.open();
    DRIVER(cuEventSynchronize(all));
    DRIVER(cuStreamQuery(second.stream()));
    EXPECT_EQ(data.download()[0], 5);
    CUevent timed = new_event(CU_EVENT_DEFAULT);
    DRIVER(record(current(), timed));
    DRIVER(cuEventSynchronize(timed));
    CUcontext own = current(), other;
    CUctxCreateParams params{};
    DRIVER(cuCtxCreate(&other, &params, 0, 0));
    REFUSED(record(other, timed), CUDA_ERROR_INVALID_HANDLE);  // an event of the first
    DRIVER(cuCtxDestroy(other));
    DRIVER(cuCtxSetCurrent(own));
    for (CUevent event : {all, timed}) DRIVER(cuEventDestroy(event));
}

// What a context is given after it has been told to wait for an event comes behind it, in whichever stream. The event is of
// another context, for nothing of the first that would let it come could run.
static void waits() {
    const auto wait = find<CUcontext, CUevent>("cuCtxWaitEvent", 12050);
    const CUcontext own = current();
    DeviceArray<int> from(std::vector<int>{31}), to(std::vector<int>{0});
    CUstream stream, later;
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUcontext other;
    CUctxCreateParams params{};
    DRIVER(cuCtxCreate(&other, &params, 0, 0));  // and it is current
    {
        Gate gate;
        CUevent come = new_event(CU_EVENT_DISABLE_TIMING);
        DRIVER(cuEventRecord(come, gate.stream()));
        DRIVER(cuCtxSetCurrent(own));
        DRIVER(wait(own, come));
        DRIVER(cuStreamCreate(&later, CU_STREAM_NON_BLOCKING));
        copy<<<1, 1, 0, stream>>>(to.data(), from.data());
        CHECK(cudaGetLastError());
        DRIVER(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(from.data()), 32, 1, later));
        // The other context runs something meanwhile, so that what did not wait would have been over.
        DRIVER(cuCtxSetCurrent(other));
        CUdeviceptr memory;
        DRIVER(cuMemAlloc(&memory, 64));
        CUstream busy;
        DRIVER(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < 10; ++i) {
            DRIVER(cuMemsetD8Async(memory, 0, 64, busy));
            DRIVER(cuStreamSynchronize(busy));
        }
        DRIVER(cuCtxSetCurrent(own));
        REFUSED(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        REFUSED(cuStreamQuery(later), CUDA_ERROR_NOT_READY);
        DRIVER(cuCtxSetCurrent(other));
        gate.open();
        DRIVER(cuCtxSetCurrent(own));
        DRIVER(cuStreamSynchronize(stream));
        DRIVER(cuStreamSynchronize(later));
        DRIVER(cuEventQuery(come));
        DRIVER(cuCtxSetCurrent(other));
        DRIVER(cuEventDestroy(come));
        DRIVER(cuStreamDestroy(busy));
        DRIVER(cuMemFree(memory));
    }
    DRIVER(cuCtxSetCurrent(own));
    EXPECT(to.download()[0] == 31 || to.download()[0] == 32);
    EXPECT_EQ(from.download()[0], 32);
    REFUSED(wait(own, nullptr), CUDA_ERROR_INVALID_HANDLE);
    for (CUstream each : {stream, later}) DRIVER(cuStreamDestroy(each));
    DRIVER(cuCtxDestroy(other));
}

/// Of an event that nobody has recorded there is no time.
static bool is_recorded(CUevent event) {
    float milliseconds = 0;
    const CUresult result = cuEventElapsedTime(&milliseconds, event, event);
    EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_HANDLE);
    return result == CUDA_SUCCESS;
}

// A record that a capture is told to keep outside is a node of the graph; one by default is the capture's own.
static void flags() {
    CUstream stream;
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUevent inner = new_event(CU_EVENT_DEFAULT), outer = new_event(CU_EVENT_DEFAULT), plain = new_event(CU_EVENT_DEFAULT);
    DRIVER(cuEventRecordWithFlags(plain, stream, CU_EVENT_RECORD_DEFAULT));
    DRIVER(cuStreamSynchronize(stream));
    EXPECT(is_recorded(plain));
    REFUSED(cuEventRecordWithFlags(plain, stream, 77), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    DRIVER(cuEventRecordWithFlags(inner, stream, CU_EVENT_RECORD_DEFAULT));
    DRIVER(cuEventRecordWithFlags(outer, stream, CU_EVENT_RECORD_EXTERNAL));
    CUgraph graph;
    DRIVER(cuStreamEndCapture(stream, &graph));
    CUgraphNode nodes[2] = {};
    size_t count = 2;
    DRIVER(cuGraphGetNodes(graph, nodes, &count));
    EXPECT_EQ(count, 1u);
    CUgraphNodeType type;
    CUevent found = nullptr;
    DRIVER(cuGraphNodeGetType(nodes[0], &type));
    EXPECT(type == CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    DRIVER(cuGraphEventRecordNodeGetEvent(nodes[0], &found));
    EXPECT(found == outer && !is_recorded(outer));
    CUgraphExec exec;
    DRIVER(cuGraphInstantiate(&exec, graph, 0));
    DRIVER(cuGraphLaunch(exec, stream));
    DRIVER(cuStreamSynchronize(stream));
    EXPECT(is_recorded(outer));
    DRIVER(cuGraphExecDestroy(exec));
    DRIVER(cuGraphDestroy(graph));
    for (CUevent event : {inner, outer, plain}) DRIVER(cuEventDestroy(event));
    DRIVER(cuStreamDestroy(stream));
}

// How the device's own context waits is told before and while there is one, and by itself again.
static void primary_context() {
    unsigned flags = 77;
    int active = -1;
    DRIVER(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(active, 0);
    DRIVER(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
    DRIVER(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT(active == 0 && (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
    CUcontext context;
    DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
    DRIVER(cuCtxSetCurrent(context));
    DRIVER(cuCtxGetFlags(&flags));
    EXPECT((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
    DRIVER(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_SPIN));
    DRIVER(cuCtxGetFlags(&flags));
    EXPECT((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_SPIN);
    REFUSED(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD | CU_CTX_SCHED_SPIN), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuDevicePrimaryCtxRelease(0));
    DRIVER(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(active, 0);
    DRIVER(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_AUTO));
}

int main() {
    DRIVER(cuInit(0));
    primary_context();
    CHECK(cudaFree(nullptr));
    // A first launch may have to wait for all that runs: none comes behind a gate.
    DeviceArray<int> words(std::vector<int>{0, 0});
    store<<<1, 1>>>(words.data(), 1);
    copy<<<1, 1>>>(words.data() + 1, words.data());
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(words.download()[1], 1);
    records();
    waits();
    flags();
    return passed("events of contexts");
}
