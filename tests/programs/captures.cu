// Stream capture at its edges: what is refused and with which error, which captures break by it, and captures that end
// because their stream or their device does.
#include <functional>
#include <thread>

#include "check.h"
#include "driver_calls.h"

static int* g_memory;  // four words

__global__ void store(int* to, int value) { *to = value; }

static cudaError_t launch(cudaStream_t stream, int index, int value) {
    store<<<1, 1, 0, stream>>>(g_memory + index, value);
    return cudaGetLastError();
}

static int word(int index) {
    int value = -1;
    CHECK(cudaMemcpy(&value, g_memory + index, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, flags));
    return stream;
}

static cudaEvent_t make_event() {
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

static void expect(const char* what, cudaError_t got, cudaError_t wanted) {
    cudaGetLastError();
    if (got == wanted) return;
    std::fprintf(stderr, "%s: expected %s, got %s\n", what, cudaGetErrorName(wanted), cudaGetErrorName(got));
    fail();
}

static cudaStreamCaptureStatus status_of(cudaStream_t stream) {
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(stream, &status));
    return status;
}

static void expect_end(const char* what, cudaStream_t stream, cudaError_t wanted) {
    cudaGraph_t graph = nullptr;
    expect(what, cudaStreamEndCapture(stream, &graph), wanted);
    EXPECT((graph != nullptr) == (wanted == cudaSuccess));
    EXPECT(status_of(stream) == cudaStreamCaptureStatusNone);
    if (graph != nullptr) CHECK(cudaGraphDestroy(graph));
}

static cudaError_t allocate() {
    void* memory = nullptr;
    cudaError_t result = cudaMalloc(&memory, 64);
    if (result == cudaSuccess) CHECK(cudaFree(memory));
    return result;
}

// Memory of an allocation in a capture, which is freed later: what frees do there is more than the mode says with some drivers
// (docs/driver-behaviour.md, DB-05).
struct Kept {
    void* memory = nullptr;
    cudaError_t allocate() { return cudaMalloc(&memory, 64); }
    ~Kept() { CHECK(cudaFree(memory)); }
};

// It works as if it had never been captured.
static void expect_ordinary(cudaStream_t stream) {
    EXPECT(status_of(stream) == cudaStreamCaptureStatusNone);
    // Nodes of events are made in captures alone.
    cudaEvent_t event = make_event();
    expect("record", cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal), cudaErrorInvalidValue);
    expect("wait", cudaStreamWaitEvent(stream, event, cudaEventWaitExternal), cudaErrorInvalidValue);
    CHECK(cudaEventDestroy(event));
    CHECK(launch(stream, 3, 77));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(word(3), 77);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    expect_end("an ordinary stream", stream, cudaSuccess);
}

// What a capture is when something is done: its stream, one that takes part, one that does not, events in and outside of it.
struct Scene {
    cudaStream_t origin, joined, outside;
    cudaEvent_t captured, other;
    cudaGraphExec_t exec = nullptr;
    explicit Scene(unsigned flags = cudaStreamNonBlocking)
        : origin(make_stream(flags)),
          joined(make_stream()),
          outside(make_stream()),
          captured(make_event()),
          other(make_event()) {
        CHECK(cudaEventRecord(other, outside));
        cudaGraph_t graph;
        cudaGraphNode_t node;
        CHECK(cudaGraphCreate(&graph, 0));
        cudaMemsetParams fill = {};
        fill.dst = g_memory, fill.elementSize = 4, fill.width = fill.height = 1;
        CHECK(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &fill));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphDestroy(graph));
    }
    ~Scene() {
        for (cudaStream_t stream : {origin, joined, outside}) CHECK(cudaStreamDestroy(stream));
        for (cudaEvent_t event : {captured, other}) CHECK(cudaEventDestroy(event));
        CHECK(cudaGraphExecDestroy(exec));
    }
    void begin() {
        CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
        CHECK(launch(origin, 0, 1));
        CHECK(cudaEventRecord(captured, origin));
        CHECK(cudaStreamWaitEvent(joined, captured, 0));
    }
};

struct Refusal {
    const char* name;
    unsigned flags;
    std::function<cudaError_t(Scene&)> act;
    cudaError_t result, end;
};

static const cudaError_t k_broken = cudaErrorStreamCaptureInvalidated;
static const Refusal k_refusals[] = {
    {"nothing", cudaStreamNonBlocking, [](Scene&) { return cudaSuccess; }, cudaSuccess, cudaSuccess},
    {"synchronise", cudaStreamNonBlocking, [](Scene& s) { return cudaStreamSynchronize(s.origin); },
     cudaErrorStreamCaptureUnsupported, k_broken},
    {"synchronise one that joined", cudaStreamNonBlocking, [](Scene& s) { return cudaStreamSynchronize(s.joined); },
     cudaErrorStreamCaptureUnsupported, k_broken},
    {"query", cudaStreamNonBlocking, [](Scene& s) { return cudaStreamQuery(s.origin); }, cudaErrorStreamCaptureUnsupported,
     k_broken},
    {"launch when k_broken", cudaStreamNonBlocking,
     [](Scene& s) {
         cudaStreamQuery(s.origin);
         cudaGetLastError();
         EXPECT(status_of(s.origin) == cudaStreamCaptureStatusInvalidated);
         EXPECT(status_of(s.joined) == cudaStreamCaptureStatusInvalidated);
         return launch(s.joined, 1, 1);
     },
     cudaErrorStreamCaptureInvalidated, k_broken},
    {"allocate", cudaStreamNonBlocking, [](Scene&) { return allocate(); }, cudaErrorStreamCaptureUnsupported, k_broken},
    {"synchronise the device", cudaStreamNonBlocking, [](Scene&) { return cudaDeviceSynchronize(); },
     cudaErrorStreamCaptureUnsupported, k_broken},
    {"query a captured event", cudaStreamNonBlocking, [](Scene& s) { return cudaEventQuery(s.captured); },
     cudaErrorCapturedEvent, k_broken},
    {"wait for a captured event", cudaStreamNonBlocking, [](Scene& s) { return cudaEventSynchronize(s.captured); },
     cudaErrorCapturedEvent, k_broken},
    {"wait for an event from outside", cudaStreamNonBlocking,
     [](Scene& s) { return cudaStreamWaitEvent(s.origin, s.other, 0); }, cudaErrorStreamCaptureIsolation, k_broken},
    {"the same, as a node", cudaStreamNonBlocking,
     [](Scene& s) { return cudaStreamWaitEvent(s.origin, s.other, cudaEventWaitExternal); }, cudaSuccess, cudaSuccess},
    {"legacy stream, blocking capture", cudaStreamDefault, [](Scene&) { return launch(nullptr, 1, 1); },
     cudaErrorStreamCaptureImplicit, k_broken},
    {"legacy stream, other capture", cudaStreamNonBlocking, [](Scene&) { return launch(nullptr, 1, 1); }, cudaSuccess,
     cudaSuccess},
    {"synchronous copy, blocking capture", cudaStreamDefault,
     [](Scene&) {
         int value = 0;
         return cudaMemcpy(&value, g_memory, sizeof value, cudaMemcpyDeviceToHost);
     },
     cudaErrorStreamCaptureImplicit, k_broken},
    {"ask about the legacy stream", cudaStreamDefault,
     [](Scene&) {
         cudaStreamCaptureStatus status;
         return cudaStreamIsCapturing(nullptr, &status);
     },
     cudaErrorStreamCaptureImplicit, cudaSuccess},
    {"the legacy stream waits for a captured event", cudaStreamNonBlocking,
     [](Scene& s) { return cudaStreamWaitEvent(nullptr, s.captured, 0); }, cudaErrorStreamCaptureImplicit, k_broken},
    {"begin again", cudaStreamNonBlocking,
     [](Scene& s) { return cudaStreamBeginCapture(s.origin, cudaStreamCaptureModeGlobal); }, cudaErrorIllegalState,
     cudaSuccess},
    {"end it on a stream that joined", cudaStreamNonBlocking,
     [](Scene& s) {
         cudaGraph_t graph;
         return cudaStreamEndCapture(s.joined, &graph);
     },
     cudaErrorStreamCaptureUnmatched, k_broken},  // DB-39
    {"leave work unjoined", cudaStreamNonBlocking, [](Scene& s) { return launch(s.joined, 1, 1); }, cudaSuccess,
     cudaErrorStreamCaptureUnjoined},
    {"callback", cudaStreamNonBlocking,
     [](Scene& s) {
         return cudaStreamAddCallback(
             s.origin, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0);
     },
     cudaErrorStreamCaptureUnsupported, k_broken},
    {"merge two captures", cudaStreamNonBlocking,
     [](Scene& s) {
         CHECK(cudaStreamBeginCapture(s.outside, cudaStreamCaptureModeThreadLocal));
         cudaError_t result = cudaStreamWaitEvent(s.outside, s.captured, 0);
         cudaGetLastError();
         expect_end("the other capture", s.outside, cudaErrorStreamCaptureInvalidated);
         return result;
     },
     cudaErrorStreamCaptureMerge, k_broken},
    {"launch a graph", cudaStreamNonBlocking, [](Scene& s) { return cudaGraphLaunch(s.exec, s.origin); },
     cudaErrorStreamCaptureUnsupported, k_broken},  // DB-44
    {"change the dependencies of another stream", cudaStreamNonBlocking,
     [](Scene& s) {
         return cudaStreamUpdateCaptureDependencies(s.outside, nullptr, nullptr, 0, cudaStreamAddCaptureDependencies);
     },
     cudaErrorIllegalState, cudaSuccess},
};

static void what_is_refused() {
    for (const Refusal& one : k_refusals) {
        Scene scene(one.flags);
        scene.begin();
        expect(one.name, one.act(scene), one.result);
        expect_end(one.name, scene.origin, one.end);
        EXPECT(status_of(scene.joined) == cudaStreamCaptureStatusNone);
        // What was recorded in the capture is a place in time again when it has been recorded again. How it is refused until
        // then is an open question (docs/driver-behaviour.md, DB-53).
        CHECK(cudaEventRecord(scene.captured, scene.origin));
        CHECK(cudaStreamWaitEvent(scene.outside, scene.captured, 0));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaEventQuery(scene.captured));
    }
}

// Calls that may wait, by the capture's mode and by the calling thread's, in the capturing thread and in another one.
static void modes() {
    const cudaStreamCaptureMode G = cudaStreamCaptureModeGlobal, T = cudaStreamCaptureModeThreadLocal,
                                R = cudaStreamCaptureModeRelaxed;
    struct Case {
        cudaStreamCaptureMode capture, thread;
        bool here, elsewhere;
    };
    const Case cases[] = {{G, G, true, true},   {G, T, true, false},  {G, R, false, false},
                          {T, G, true, false},  {T, T, true, false},  {T, R, false, false},
                          {R, G, false, false}, {R, T, false, false}, {R, R, false, false}};
    cudaStream_t stream = make_stream();
    for (const Case& one : cases) {
        for (bool here : {true, false}) {
            const bool forbidden = here ? one.here : one.elsewhere;
            Kept kept;
            auto call = [&] {
                cudaStreamCaptureMode mode = one.thread;
                CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
                EXPECT(mode == G);
                expect("allocate", kept.allocate(), forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
                CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
                EXPECT(mode == one.thread);
            };
            CHECK(cudaStreamBeginCapture(stream, one.capture));
            if (here) {
                call();
            } else {
                std::thread(call).join();
            }
            expect_end("modes", stream, forbidden ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
        }
        // Who may end it.
        CHECK(cudaStreamBeginCapture(stream, one.capture));
        const cudaError_t end = one.capture == R ? cudaSuccess : cudaErrorStreamCaptureWrongThread;
        std::thread([&] {
            cudaGraph_t graph = nullptr;
            expect("end elsewhere", cudaStreamEndCapture(stream, &graph), end);
        }).join();
        // Whoever may not end it breaks it.
        if (end != cudaSuccess) {
            cudaGraph_t graph = nullptr;
            EXPECT(cudaStreamEndCapture(stream, &graph) != cudaSuccess && graph == nullptr);
            cudaGetLastError();
            EXPECT(status_of(stream) == cudaStreamCaptureStatusNone);
        }
    }
    CHECK(cudaStreamDestroy(stream));
}

// The stream that began the capture goes away.
static void destroyed() {
    for (auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
        for (bool into : {false, true}) {
            cudaStream_t origin = make_stream(), joined = make_stream();
            cudaEvent_t event = make_event();
            cudaGraph_t graph;
            CHECK(cudaGraphCreate(&graph, 0));
            CHECK(cudaMemset(g_memory, 0, 4 * sizeof(int)));
            CHECK(into ? cudaStreamBeginCaptureToGraph(origin, graph, nullptr, nullptr, 0, mode)
                       : cudaStreamBeginCapture(origin, mode));
            CHECK(launch(origin, 0, 5));
            CHECK(cudaEventRecord(event, origin));
            CHECK(cudaStreamWaitEvent(joined, event, 0));
            CHECK(launch(joined, 1, 6));
            CHECK(cudaStreamDestroy(origin));
            expect("allocate", allocate(), cudaSuccess);
            EXPECT_EQ(word(0), 0);
            expect_ordinary(joined);
            // A graph of the program's has what was captured until then.
            size_t count = 0;
            CHECK(cudaGraphGetNodes(graph, nullptr, &count));
            EXPECT_EQ(count, into ? size_t{2} : size_t{0});
            cudaGraphExec_t exec;
            CHECK(cudaGraphInstantiate(&exec, graph, 0));
            CHECK(cudaGraphLaunch(exec, joined));
            CHECK(cudaStreamSynchronize(joined));
            EXPECT_EQ(word(0), into ? 5 : 0);
            EXPECT_EQ(word(1), into ? 6 : 0);
            CHECK(cudaGraphExecDestroy(exec));
            CHECK(cudaGraphDestroy(graph));
            CHECK(cudaEventDestroy(event));
            CHECK(cudaStreamDestroy(joined));
        }
    }
}

// The thread whose own stream is captured ends, or the device is reset.
static void ended_otherwise() {
    std::thread([] {
        CHECK(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeGlobal));
        CHECK(launch(cudaStreamPerThread, 0, 9));
    }).join();
    expect("allocate after the thread", allocate(), cudaSuccess);
    cudaStream_t stream = make_stream();
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(launch(stream, 0, 9));
    CHECK(cudaDeviceReset());
    expect("allocate after the reset", allocate(), cudaSuccess);
    CHECK(cudaMalloc(&g_memory, 4 * sizeof(int)));
    stream = make_stream();
    expect_ordinary(stream);
}

// What the program is told of a capture, and its dependencies changed by hand.
static void information() {
    cudaStream_t stream = make_stream(), other = make_stream();
    cudaEvent_t event = make_event();
    CHECK(cudaMemset(g_memory, 0, 4 * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(launch(stream, 0, 1));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(other, event, 0));
    CHECK(launch(other, 1, 2));
    cudaStreamCaptureStatus status;
    unsigned long long id = 0, same = 0;
    cudaGraph_t graph = nullptr;
    const cudaGraphNode_t* nodes = nullptr;
    const cudaGraphEdgeData* edges = nullptr;
    size_t count = 0;
    CHECK(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count));
    EXPECT(status == cudaStreamCaptureStatusActive && graph != nullptr && count == 1);
    cudaGraphNode_t first = nodes[0];
    CHECK(cudaStreamGetCaptureInfo(other, &status, &same));
    EXPECT(same == id);
    // A node of the program's takes the place of what the stream did.
    cudaGraphNode_t own;
    cudaMemsetParams fill = {};
    fill.dst = g_memory + 2, fill.elementSize = 4, fill.width = fill.height = 1, fill.value = 3;
    CHECK(cudaGraphAddMemsetNode(&own, graph, &first, 1, &fill));
    CHECK(cudaStreamUpdateCaptureDependencies(stream, &own, nullptr, 1, cudaStreamSetCaptureDependencies));
    CHECK(launch(stream, 3, 4));
    // What the other stream did is left out of its dependencies: it need not be joined.
    CHECK(cudaStreamUpdateCaptureDependencies(other, nullptr, nullptr, 0, cudaStreamSetCaptureDependencies));
    expect("a graph that is being captured cannot be destroyed", cudaGraphDestroy(graph), cudaErrorIllegalState);
    cudaGraph_t ended = nullptr;
    CHECK(cudaStreamEndCapture(stream, &ended));
    EXPECT(ended == graph);
    CHECK(cudaGraphGetNodes(graph, nullptr, &count));
    EXPECT_EQ(count, size_t{4});
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(word(i), i + 1);
    CHECK(cudaStreamGetCaptureInfo(stream, &status, &same));
    EXPECT(status == cudaStreamCaptureStatusNone);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

#if CUDART_VERSION >= 12030
// What the next node of a stream comes after, by a port: who asks without room for that is told that it would be lost.
static void expect_data_of_edges(cudaStream_t stream, int port) {
    const auto without = find<CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**, size_t*>(
        "cuStreamGetCaptureInfo", 11030);
    CUstreamCaptureStatus of_driver;
    const CUgraphNode* none = nullptr;
    size_t count = 0;
    REFUSED(without(stream, &of_driver, nullptr, nullptr, &none, &count), CUDA_ERROR_LOSSY_QUERY);
    DRIVER(without(stream, &of_driver, nullptr, nullptr, nullptr, &count));
    EXPECT_EQ(count, size_t{1});
    cudaStreamCaptureStatus status;
    const cudaGraphNode_t* nodes = nullptr;
    const cudaGraphEdgeData* edges = nullptr;
    const auto ask = [&](const cudaGraphNode_t** to, const cudaGraphEdgeData** data) {
        return cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, to, data, &count);
    };
    expect("nodes alone", ask(&nodes, nullptr), cudaErrorLossyQuery);
    expect("edges alone", ask(nullptr, &edges), cudaErrorInvalidValue);
    CHECK(ask(&nodes, &edges));
    EXPECT(count == 1 && nodes[0] != nullptr && edges[0].from_port == port);
    EXPECT(edges[0].type == cudaGraphDependencyTypeProgrammatic);
}

// An event that a launch records is a place in the capture, as one that is recorded behind it.
static void recorded_by_launches() {
    for (auto kind : {cudaLaunchAttributeProgrammaticEvent, cudaLaunchAttributeLaunchCompletionEvent}) {
        cudaStream_t stream = make_stream(), other = make_stream();
        cudaEvent_t event = make_event();
        CHECK(cudaMemset(g_memory, 0, 4 * sizeof(int)));
        CHECK(cudaDeviceSynchronize());
        cudaLaunchAttribute attribute = {};
        attribute.id = kind;
        if (kind == cudaLaunchAttributeProgrammaticEvent) {
            attribute.val.programmaticEvent.event = event;
        } else {
            attribute.val.launchCompletionEvent.event = event;
        }
        cudaLaunchConfig_t config = {};
        config.gridDim = config.blockDim = dim3(1);
        config.stream = stream;
        config.attrs = &attribute;
        config.numAttrs = 1;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        CHECK(cudaLaunchKernelEx(&config, store, g_memory, 1));
        CHECK(cudaStreamWaitEvent(other, event, 0));
        EXPECT(status_of(other) == cudaStreamCaptureStatusActive);
        expect_data_of_edges(other, kind == cudaLaunchAttributeProgrammaticEvent ? 1 : 2);
        CHECK(launch(other, 1, 2));
        CHECK(cudaEventRecord(event, other));
        CHECK(cudaStreamWaitEvent(stream, event, 0));
        CHECK(launch(stream, 2, 3));
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CHECK(cudaStreamEndCapture(stream, &graph));
        EXPECT_EQ(word(0), 0);
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < 3; ++i) EXPECT_EQ(word(i), i + 1);
        // Outside of a capture the event is one of the stream's again.
        CHECK(cudaLaunchKernelEx(&config, store, g_memory + 3, 4));
        CHECK(cudaStreamWaitEvent(other, event, 0));
        CHECK(cudaEventSynchronize(event));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT_EQ(word(3), 4);
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaEventDestroy(event));
        for (cudaStream_t each : {stream, other}) CHECK(cudaStreamDestroy(each));
    }
}
#endif

int main() {
    CHECK(cudaMalloc(&g_memory, 4 * sizeof(int)));
    what_is_refused();
    modes();
    destroyed();
    information();
#if CUDART_VERSION >= 12030
    recorded_by_launches();
#endif
    ended_otherwise();
    return passed("captures");
}
