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

static cudaEvent_t make_event(unsigned flags = cudaEventDisableTiming) {
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, flags));
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
    // Nodes of events are made in captures alone (DB-54).
    cudaEvent_t event = make_event();
    expect("record", cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal), cudaErrorIllegalState);
    expect("wait", cudaStreamWaitEvent(stream, event, cudaEventWaitExternal), cudaErrorIllegalState);
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

// The capture in which an event was recorded last is over.
static void expect_over(const char* what, cudaStream_t outside, cudaEvent_t captured) {
    expect(what, cudaStreamWaitEvent(outside, captured, 0), cudaErrorInvalidValue);
    expect(what, cudaEventQuery(captured), cudaErrorInvalidValue);
    expect(what, cudaEventSynchronize(captured), cudaErrorInvalidValue);
    for (unsigned flags : {cudaEventWaitDefault, cudaEventWaitExternal}) {
        CHECK(cudaStreamBeginCapture(outside, cudaStreamCaptureModeThreadLocal));
        expect(what, cudaStreamWaitEvent(outside, captured, flags), cudaErrorInvalidValue);
        expect_end(what, outside, k_broken);
    }
}

static void what_is_refused() {
    for (const Refusal& one : k_refusals) {
        Scene scene(one.flags);
        scene.begin();
        expect(one.name, one.act(scene), one.result);
        expect_end(one.name, scene.origin, one.end);
        EXPECT(status_of(scene.joined) == cudaStreamCaptureStatusNone);
        // What was recorded in the capture is no place in time until it is recorded again (DB-53).
        if (one.end == cudaSuccess || one.end == k_broken) expect_over(one.name, scene.outside, scene.captured);
        CHECK(cudaEventRecord(scene.captured, scene.origin));
        CHECK(cudaStreamWaitEvent(scene.outside, scene.captured, 0));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaEventQuery(scene.captured));
    }
}

#if CUDART_VERSION >= 12050
// A call that is about all streams of the context.
static CUresult of_context(const char* name, cudaEvent_t event) {
    CUcontext context;
    DRIVER((find<CUcontext*>("cuCtxGetCurrent", 4000))(&context));
    return find<CUcontext, CUevent>(name, 12050)(context, event);
}
#endif

// Drivers of CUDA 12.3 and later load modules beside any capture.
static CUresult load_module(CUmodule* module) {
    static const char k_text[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";
    return find<CUmodule*, const void*>("cuModuleLoadData", 2000)(module, k_text);
}

static const cudaStreamCaptureMode k_modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                                cudaStreamCaptureModeRelaxed};

// A graph, an executable one of it, and memory of a pool, all of before the capture. What is refused need not have left them as
// they were: they are not used again.
struct Things {
    cudaStream_t outside = make_stream();
    cudaEvent_t before = make_event(cudaEventDefault), captured = make_event(cudaEventDefault);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr, second = nullptr;
    cudaEvent_t fresh = make_event();
    void* pooled = nullptr;
    CUmodule module = nullptr;
    Things() {
        cudaGraphNode_t node;
        cudaMemsetParams fill = {};
        fill.dst = g_memory, fill.elementSize = 4, fill.width = fill.height = 1;
        CHECK(cudaGraphCreate(&graph, 0));
        CHECK(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &fill));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaMallocAsync(&pooled, 4096, outside));
        CHECK(cudaEventRecord(before, outside));
        CHECK(cudaStreamSynchronize(outside));
    }
};

struct Beside {
    const char* name;
    std::function<int(Things&, cudaStream_t)> act;  // gives what the runtime or the driver says: the same numbers
    int result;
    bool breaks, relaxed_too;
};

static float g_milliseconds;
static const Beside k_beside[] = {
    {"query an event", [](Things& t, cudaStream_t) { return static_cast<int>(cudaEventQuery(t.before)); }, 900, true, false},
    {"wait for an event", [](Things& t, cudaStream_t) { return static_cast<int>(cudaEventSynchronize(t.before)); }, 900, true,
     false},
    {"wait for a stream", [](Things& t, cudaStream_t) { return static_cast<int>(cudaStreamSynchronize(t.outside)); }, 900, true,
     false},
    {"free in a stream outside", [](Things& t, cudaStream_t) { return static_cast<int>(cudaFreeAsync(t.pooled, t.outside)); },
     900, true, false},
    {"destroy an executable graph", [](Things& t, cudaStream_t) { return static_cast<int>(cudaGraphExecDestroy(t.exec)); }, 900,
     true, false},
    {"instantiate a graph",
     [](Things& t, cudaStream_t) { return static_cast<int>(cudaGraphInstantiate(&t.second, t.graph, 0)); }, 900, true, false},
    {"upload a graph into it", [](Things& t, cudaStream_t s) { return static_cast<int>(cudaGraphUpload(t.exec, s)); }, 900,
     true, true},
    {"launch a graph into it", [](Things& t, cudaStream_t s) { return static_cast<int>(cudaGraphLaunch(t.exec, s)); }, 900,
     true, true},
    {"the time of a captured event",
     [](Things& t, cudaStream_t) { return static_cast<int>(cudaEventElapsedTime(&g_milliseconds, t.before, t.captured)); }, 907,
     false, true},
    {"launch a graph elsewhere", [](Things& t, cudaStream_t) { return static_cast<int>(cudaGraphLaunch(t.exec, t.outside)); },
     0, false, true},
    {"destroy a graph", [](Things& t, cudaStream_t) { return static_cast<int>(cudaGraphDestroy(t.graph)); }, 0, false, true},
    {"destroy an event", [](Things& t, cudaStream_t) { return static_cast<int>(cudaEventDestroy(t.fresh)); }, 0, false, true},
    {"make a stream", [](Things& t, cudaStream_t) { return static_cast<int>(cudaStreamCreate(&t.outside)); }, 0, false, true},
#if CUDART_VERSION >= 12030
    {"load a module", [](Things& t, cudaStream_t) { return static_cast<int>(load_module(&t.module)); }, 0, false, true},
    {"unload a module",
     [](Things& t, cudaStream_t) {
         DRIVER(load_module(&t.module));
         return static_cast<int>(find<CUmodule>("cuModuleUnload", 2000)(t.module));
     },
     900, true, false},
#endif
#if CUDART_VERSION >= 12050
    {"record an event of the context, one with timing",
     [](Things& t, cudaStream_t) { return static_cast<int>(of_context("cuCtxRecordEvent", t.before)); }, 900, true, true},
    {"let the context wait for the capture",
     [](Things& t, cudaStream_t) { return static_cast<int>(of_context("cuCtxWaitEvent", t.captured)); }, 900, true, true},
#endif
};

// Calls of the capturing thread that are about something else: some break the capture, unless it is relaxed (DB-45).
static void beside() {
    cudaStream_t stream = make_stream();
    for (const Beside& one : k_beside) {
        for (cudaStreamCaptureMode mode : k_modes) {
            Things things;
            const bool may = mode == cudaStreamCaptureModeRelaxed && !one.relaxed_too;
            CHECK(cudaStreamBeginCapture(stream, mode));
            CHECK(launch(stream, 0, 1));
            CHECK(cudaEventRecord(things.captured, stream));
            expect(one.name, static_cast<cudaError_t>(one.act(things, stream)), static_cast<cudaError_t>(may ? 0 : one.result));
            expect_end(one.name, stream, one.breaks && !may ? k_broken : cudaSuccess);
            expect("the time", cudaEventElapsedTime(&g_milliseconds, things.before, things.captured), cudaErrorInvalidValue);
        }
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamDestroy(stream));
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
    cudaEvent_t before = make_event();
    CHECK(cudaEventRecord(before, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (const Case& one : cases) {
        for (int way = 0; way < 4; ++way) {
            const bool here = (way & 1) != 0, asks = (way & 2) != 0;
            const bool forbidden = here ? one.here : one.elsewhere;
            Kept kept;
            auto call = [&] {
                cudaStreamCaptureMode mode = one.thread;
                CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
                EXPECT(mode == G);
                expect("modes", asks ? cudaEventQuery(before) : kept.allocate(),
                       forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
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
            EXPECT((graph != nullptr) == (end == cudaSuccess));
            if (graph != nullptr) CHECK(cudaGraphDestroy(graph));
        }).join();
        // Who may not end it has ended it all the same, without a graph (DB-39).
        EXPECT(status_of(stream) == cudaStreamCaptureStatusNone);
        expect_end("end once more", stream, cudaErrorIllegalState);
        CHECK(cudaEventQuery(before));
    }
    CHECK(cudaStreamDestroy(stream));
}

// The stream that began the capture goes away.
static void destroyed() {
    for (cudaStreamCaptureMode mode : k_modes) {
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
            EXPECT_EQ(word(1), 0);
            // One that was captured into goes with the stream, with NVIDIA's driver (docs/driver-behaviour.md).
            if (!into) CHECK(cudaGraphDestroy(graph));
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

// Whether a wait for the device is refused beside a relaxed capture is the driver's affair (DB-04). What comes then is not: the
// capture goes on, or is broken for all calls, and for none behind its end.
static void waited_for_as_a_whole() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    store<<<1, 1>>>(g_memory, 1);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    store<<<1, 1, 0, stream>>>(g_memory, 2);
    const bool refused = cudaDeviceSynchronize() != cudaSuccess;
    if (refused) expect("the wait", cudaGetLastError(), cudaErrorStreamCaptureUnsupported);
    EXPECT(status_of(stream) == (refused ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive));
    store<<<1, 1, 0, stream>>>(g_memory, 3);
    expect("a launch", cudaGetLastError(), refused ? k_broken : cudaSuccess);
    expect_end("the end", stream, refused ? k_broken : cudaSuccess);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamDestroy(stream));
}

int main() {
    CHECK(cudaMalloc(&g_memory, 4 * sizeof(int)));
    what_is_refused();
    beside();
    modes();
    destroyed();
    waited_for_as_a_whole();
    information();
#if CUDART_VERSION >= 12030
    recorded_by_launches();
#endif
    ended_otherwise();
    return passed("captures");
}
