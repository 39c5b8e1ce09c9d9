// Graphs that copy from and to host memory: it is read and written at each launch, whatever lies between them.
#include <cstring>

#include "graph_parts.h"

static cudaGraphExec_t capture_round_trip(cudaStream_t stream, int* device, const int* from, int* to, int n, int value) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(device, from, n * sizeof(int), cudaMemcpyHostToDevice, stream));
    add<<<(n + 255) / 256, 256, 0, stream>>>(device, n, value);
    CHECK(cudaMemcpyAsync(to, device, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 3u);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

// Values change between launches; pageable and page-locked, small and large.
static void captured(int n, bool pinned) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> device(n);
    Pinned locked(2 * n);
    std::vector<int> pageable(2 * n);
    int* in = pinned ? locked.data : pageable.data();
    int* out = in + n;
    cudaGraphExec_t exec = capture_round_trip(stream, device.data(), in, out, n, 7);
    for (int round = 0; round < 4; ++round) {
        for (int i = 0; i < n; ++i) in[i] = round * 1000 + i;
        std::memset(out, 0xff, n * sizeof(int));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; ++i) EXPECT_EQ(out[i], round * 1000 + i + 7);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaStreamDestroy(stream));
}

// A graph that goes on with what it copied out last time: the second launch reads what the first has written.
static void back_to_back() {
    const int n = 1000;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> device(n);
    Pinned memory(n);
    for (int i = 0; i < n; ++i) memory.data[i] = i;
    cudaGraphExec_t exec = capture_round_trip(stream, device.data(), memory.data, memory.data, n, 1);
    for (int i = 0; i < 20; ++i) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(memory.data[i], i + 20);
    // An ordinary copy behind a graph that writes its source.
    DeviceArray<int> other(n);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaMemcpyAsync(other.data(), memory.data, n * sizeof(int), cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
    auto result = other.download();
    for (int i = 0; i < n; ++i) EXPECT_EQ(result[i], i + 21);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaStreamDestroy(stream));
}

// Two executable graphs of one graph, launched in two streams.
static void two_of_one_graph() {
    const int n = 5000;
    cudaStream_t streams[2];
    cudaGraphExec_t execs[2];
    DeviceArray<int> device(n);
    Pinned in(n), out(n);
    CHECK(cudaStreamCreate(&streams[0]));
    CHECK(cudaStreamCreate(&streams[1]));
    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(device.data(), in.data, n * sizeof(int), cudaMemcpyHostToDevice, streams[0]));
    CHECK(cudaMemcpyAsync(out.data, device.data(), n * sizeof(int), cudaMemcpyDeviceToHost, streams[0]));
    cudaGraph_t graph, clone;
    CHECK(cudaStreamEndCapture(streams[0], &graph));
    CHECK(cudaGraphClone(&clone, graph));
    CHECK(cudaGraphInstantiate(&execs[0], graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphInstantiate(&execs[1], clone, 0));
    CHECK(cudaGraphDestroy(clone));
    for (int i = 0; i < n; ++i) in.data[i] = 3 * i;
    for (int round = 0; round < 10; ++round) CHECK(cudaGraphLaunch(execs[round % 2], streams[round % 2]));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; ++i) EXPECT_EQ(out.data[i], 3 * i);
    for (int i = 0; i < 2; ++i) {
        CHECK(cudaGraphExecDestroy(execs[i]));
        CHECK(cudaStreamDestroy(streams[i]));
    }
}

// Out to the host, changed there by a function, and in again, all in one graph.
static void CUDART_CB double_all(void* data) {
    for (int i = 0; i < 64; ++i) static_cast<int*>(data)[i] *= 2;
}

static void CUDART_CB triple_all(void* data) {
    for (int i = 0; i < 64; ++i) static_cast<int*>(data)[i] *= 3;
}

static void through_the_host() {
    const int n = 64;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> device(n);
    Pinned memory(n);
    CHECK(cudaMemset(device.data(), 0, n * sizeof(int)));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<1, n, 0, stream>>>(device.data(), n, 3);
    CHECK(cudaMemcpyAsync(memory.data, device.data(), n * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaLaunchHostFunc(stream, double_all, memory.data));
    CHECK(cudaMemcpyAsync(device.data(), memory.data, n * sizeof(int), cudaMemcpyHostToDevice, stream));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphNode_t nodes[8];
    size_t count = 8;
    CHECK(cudaGraphGetNodes(graph, nodes, &count));
    EXPECT_EQ(count, 4u);
    bool found = false;
    cudaGraphNode_t function = nullptr;
    for (size_t i = 0; i < count; ++i) {
        cudaGraphNodeType type;
        CHECK(cudaGraphNodeGetType(nodes[i], &type));
        if (type != cudaGraphNodeTypeHost) continue;
        function = nodes[i];
        cudaHostNodeParams params{};
        CHECK(cudaGraphHostNodeGetParams(nodes[i], &params));
        EXPECT(params.fn == double_all && params.userData == memory.data);
        found = true;
    }
    EXPECT(found);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 5; ++i) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    int expected = 0;
    for (int i = 0; i < 5; ++i) expected = (expected + 3) * 2;
    auto host = device.download();
    for (int i = 0; i < n; ++i) EXPECT_EQ(host[i], expected);
    for (int i = 0; i < n; ++i) EXPECT_EQ(memory.data[i], expected);
    // Another function has the same place between the copies, in the executable graph and after an update from the graph.
    cudaHostNodeParams other = {triple_all, memory.data};
    CHECK(cudaGraphExecHostNodeSetParams(exec, function, &other));
    for (int i = 0; i < 3; ++i) {
        CHECK(cudaGraphLaunch(exec, stream));
        expected = (expected + 3) * 3;
    }
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(memory.data[i], expected);
    EXPECT_EQ(device.download()[n - 1], expected);
    other.fn = double_all;
    CHECK(cudaGraphHostNodeSetParams(function, &other));
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, graph, &info));
    for (int i = 0; i < 3; ++i) {
        CHECK(cudaGraphLaunch(exec, stream));
        expected = (expected + 3) * 2;
    }
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(memory.data[n - 1], expected);
    EXPECT_EQ(device.download()[0], expected);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

// Nodes made by hand, with rows; other memory in the executable graph; a node that is switched off; what a node says it is.
static void by_hand() {
    const int n = 32, rows = 4;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> device(n * rows);
    std::vector<int> first(2 * n * rows, 5), second(n * rows, 9), out(n * rows, 0), other(n * rows, 0);
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaMemcpy3DParms shape = {};
    shape.srcPtr = make_cudaPitchedPtr(first.data(), 2 * n * sizeof(int), n, rows);
    shape.dstPtr = make_cudaPitchedPtr(device.data(), n * sizeof(int), n, rows);
    shape.extent = make_cudaExtent(n * sizeof(int), rows, 1);
    shape.kind = cudaMemcpyHostToDevice;
    for (int row = 0; row < rows; ++row)
        for (int i = 0; i < n; ++i) first[row * 2 * n + i] = row * 100 + i;
    cudaGraphNode_t in, back;
    CHECK(cudaGraphAddMemcpyNode(&in, graph, nullptr, 0, &shape));
    CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &in, 1, out.data(), device.data(), out.size() * sizeof(int),
                                   cudaMemcpyDeviceToHost));
    cudaMemcpy3DParms told = {};
    CHECK(cudaGraphMemcpyNodeGetParams(in, &told));
    EXPECT(told.srcPtr.ptr == first.data() && told.srcPtr.pitch == 2 * n * sizeof(int));
    EXPECT(told.dstPtr.ptr == device.data() && told.extent.height == rows);
    CHECK(cudaGraphMemcpyNodeGetParams(back, &told));
    EXPECT(told.dstPtr.ptr == out.data() && told.srcPtr.ptr == device.data());
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int row = 0; row < rows; ++row)
        for (int i = 0; i < n; ++i) EXPECT_EQ(out[row * n + i], row * 100 + i);

    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, back, other.data(), device.data(), other.size() * sizeof(int),
                                             cudaMemcpyDeviceToHost));
    std::fill(out.begin(), out.end(), -1);
    first[0] = 77;
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(other[0], 77);
    EXPECT_EQ(other[n + 1], 101);
    EXPECT_EQ(out[0], -1);

    CHECK(cudaGraphNodeSetEnabled(exec, back, 0));
    std::fill(other.begin(), other.end(), -2);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(other[0], -2);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));

    // A linear source that becomes another one, and a copy with other memory than the graph's when it is updated as a whole.
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(
        cudaGraphAddMemcpyNode1D(&in, graph, nullptr, 0, device.data(), first.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, in, device.data(), second.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    second[3] = 33;
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    auto host = device.download();
    EXPECT_EQ(host[3], 33);
    EXPECT_EQ(host[0], 9);
    CHECK(cudaGraphMemcpyNodeSetParams1D(in, device.data(), out.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, graph, &info));
    std::fill(out.begin(), out.end(), 44);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(device.download()[n - 1], 44);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

// In a child graph, and captured anew for each round.
static void child_and_recapture() {
    const int n = 256;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> device(n);
    Pinned in(n), out(n);
    cudaGraphExec_t inner = capture_round_trip(stream, device.data(), in.data, out.data, n, 2);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(device.data(), in.data, n * sizeof(int), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(out.data, device.data(), n * sizeof(int), cudaMemcpyDeviceToHost, stream));
    cudaGraph_t child, parent;
    CHECK(cudaStreamEndCapture(stream, &child));
    CHECK(cudaGraphCreate(&parent, 0));
    cudaGraphNode_t node;
    CHECK(cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, child));
    CHECK(cudaGraphDestroy(child));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, parent, 0));
    CHECK(cudaGraphDestroy(parent));
    for (int i = 0; i < n; ++i) in.data[i] = i * 5;
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(out.data[i], i * 5);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphExecDestroy(inner));
    for (int round = 0; round < 30; ++round) {
        in.data[0] = round;
        cudaGraphExec_t again = capture_round_trip(stream, device.data(), in.data, out.data, n, round);
        CHECK(cudaGraphLaunch(again, stream));
        CHECK(cudaGraphExecDestroy(again));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT_EQ(out.data[0], 2 * round);
    }
    CHECK(cudaStreamDestroy(stream));
}

// Launches with copies from and to the host do not wait.
static void many_launches() {
    const int n = 64;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> device(n);
    Pinned in(n), out(n);
    cudaGraphExec_t exec = capture_round_trip(stream, device.data(), in.data, out.data, n, 1);
    for (int i = 0; i < n; ++i) in.data[i] = i;
    for (int round = 0; round < 200; ++round) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(out.data[i], i + 1);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaStreamDestroy(stream));
}

// From one place of the host's to another, in order with what is before and behind.
static void within_the_host() {
    const int n = 5000;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> device(n);
    Pinned first(n), second(n), third(n);
    for (int i = 0; i < n; ++i) first.data[i] = second.data[i] = third.data[i] = -1;
    CHECK(cudaMemset(device.data(), 0, n * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<(n + 255) / 256, 256, 0, stream>>>(device.data(), n, 3);
    CHECK(cudaMemcpyAsync(first.data, device.data(), n * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(second.data, first.data, n * sizeof(int), cudaMemcpyHostToHost, stream));
    CHECK(cudaMemcpy2DAsync(third.data, 100 * sizeof(int), second.data, 50 * sizeof(int), 50 * sizeof(int), 50,
                            cudaMemcpyDefault, stream));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    EXPECT_EQ(second.data[0], -1);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    for (int launch = 1; launch <= 3; ++launch) {
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT_EQ(second.data[n - 1], 3 * launch);
        EXPECT_EQ(third.data[49], 3 * launch);
        EXPECT_EQ(third.data[50], -1);
        EXPECT_EQ(third.data[100], 3 * launch);
    }
    CHECK(cudaGraphExecDestroy(exec));

    // A captured free is of a graph's memory.
    int* pooled;
    CHECK(cudaMallocAsync(&pooled, 100, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    EXPECT(cudaFreeAsync(pooled, stream) == cudaErrorInvalidValue);
    cudaGetLastError();
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) CHECK(cudaGraphDestroy(graph));
    cudaGetLastError();
    CHECK(cudaFreeAsync(pooled, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
}

// A copy within host memory is a copy to the program, whoever executes it.
static void captured_is_a_copy() {
    const int n = 100;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    Pinned from(n), to(n), other(n);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(to.data, from.data, n * sizeof(int), cudaMemcpyHostToHost, stream));
    CHECK(cudaLaunchHostFunc(stream, double_all, to.data));
    cudaGraph_t graph, clone;
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphNode_t copy, function;
    EXPECT_EQ(nodes_of_type(graph, cudaGraphNodeTypeMemcpy, &copy), 1u);
    EXPECT_EQ(nodes_of_type(graph, cudaGraphNodeTypeHost, &function), 1u);
    cudaMemcpy3DParms told = {};
    CHECK(cudaGraphMemcpyNodeGetParams(copy, &told));
    EXPECT(told.srcPtr.ptr == from.data && told.dstPtr.ptr == to.data && told.extent.width == n * sizeof(int));
    cudaHostNodeParams called{};
    EXPECT_EQ(cudaGraphHostNodeGetParams(copy, &called), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGraphMemcpyNodeGetParams(function, &told), cudaErrorInvalidValue);
    called = {double_all, from.data};
    EXPECT_EQ(cudaGraphHostNodeSetParams(copy, &called), cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(cudaGraphHostNodeGetParams(function, &called));
    EXPECT(called.fn == double_all && called.userData == to.data);
    CHECK(cudaGraphClone(&clone, graph));
    CHECK(cudaGraphDestroy(graph));
    EXPECT_EQ(nodes_of_type(clone, cudaGraphNodeTypeMemcpy, &copy), 1u);
    CHECK(cudaGraphMemcpyNodeSetParams1D(copy, to.data, other.data, n * sizeof(int), cudaMemcpyHostToHost));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, clone, 0));
    for (int i = 0; i < n; ++i) from.data[i] = 1, to.data[i] = 2, other.data[i] = 10 + i;
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) EXPECT_EQ(to.data[i], (10 + i) * (i < 64 ? 2 : 1));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(clone));
    CHECK(cudaStreamDestroy(stream));
}

// Added by hand between copies from and to the device: out, along the host with rows, in again. Then with other memory.
static void added_within_the_host() {
    const int n = 64, rows = 3;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> device(n * rows), result(n * rows);
    std::vector<int> out(n * rows), wide(2 * n * rows), other(n * rows);
    const size_t bytes = out.size() * sizeof(int);
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t first, along, back, last;
    CHECK(cudaGraphAddMemcpyNode1D(&first, graph, nullptr, 0, out.data(), device.data(), bytes, cudaMemcpyDeviceToHost));
    cudaMemcpy3DParms shape = {};
    shape.srcPtr = make_cudaPitchedPtr(out.data(), n * sizeof(int), n, rows);
    shape.dstPtr = make_cudaPitchedPtr(wide.data(), 2 * n * sizeof(int), 2 * n, rows);
    shape.extent = make_cudaExtent(n * sizeof(int), rows, 1);
    shape.kind = cudaMemcpyHostToHost;
    CHECK(cudaGraphAddMemcpyNode(&along, graph, &first, 1, &shape));
    shape.srcPtr = make_cudaPitchedPtr(wide.data(), 2 * n * sizeof(int), 2 * n, rows);
    shape.dstPtr = make_cudaPitchedPtr(other.data(), n * sizeof(int), n, rows);
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeMemcpy;
    params.memcpy.copyParams = shape;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&back, graph, &along, nullptr, 1, &params));
#else
    CHECK(cudaGraphAddNode(&back, graph, &along, 1, &params));
#endif
    CHECK(cudaGraphAddMemcpyNode1D(&last, graph, &back, 1, result.data(), other.data(), bytes, cudaMemcpyHostToDevice));
    cudaGraphNode_t found;
    EXPECT_EQ(nodes_of_type(graph, cudaGraphNodeTypeMemcpy, &found), 4u);
    cudaMemcpy3DParms told = {};
    CHECK(cudaGraphMemcpyNodeGetParams(along, &told));
    EXPECT(told.srcPtr.ptr == out.data() && told.dstPtr.ptr == wide.data() && told.dstPtr.pitch == 2 * n * sizeof(int));
    EXPECT(told.extent.width == n * sizeof(int) && told.extent.height == rows);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int launch = 1; launch <= 3; ++launch) {
        std::vector<int> in(n * rows);
        for (int i = 0; i < n * rows; ++i) in[i] = launch * 1000 + i;
        device.upload(in);
        std::fill(wide.begin(), wide.end(), -1);
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT(result.download() == in && other == in);
        for (int row = 0; row < rows; ++row) EXPECT_EQ(wide[row * 2 * n + n], -1);
    }
    // A node whose copy has rows keeps its parameters, or loses the executable graph.
    std::vector<int> fresh(n * rows, 5);
    EXPECT_EQ(cudaGraphExecMemcpyNodeSetParams1D(exec, back, other.data(), fresh.data(), bytes, cudaMemcpyHostToHost),
              cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphMemcpyNodeSetParams1D(back, other.data(), fresh.data(), bytes, cudaMemcpyHostToHost));
    CHECK(cudaGraphMemcpyNodeGetParams(back, &told));
    EXPECT(told.srcPtr.ptr == fresh.data() && told.extent.width == bytes);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(result.download() == fresh);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

// What an executable graph's copy may become: with rows, what it is; without, the same with other memory.
static void kept_rows() {
    const int n = 64, rows = 3;
    DeviceArray<int> a(n * rows), b(2 * n * rows), c(n * rows);
    std::vector<int> in(n * rows), wide(2 * n * rows), other(n * rows);
    struct Way {
        cudaMemcpyKind kind;
        void *from, *to, *elsewhere;
    } ways[] = {{cudaMemcpyDeviceToDevice, a.data(), b.data(), c.data()},
                {cudaMemcpyHostToDevice, in.data(), b.data(), other.data()},
                {cudaMemcpyDeviceToHost, a.data(), wide.data(), c.data()},
                {cudaMemcpyHostToHost, in.data(), wide.data(), other.data()}};
    for (const Way& way : ways) {
        for (const int height : {1, rows}) {
            cudaMemcpy3DParms shape = {};
            shape.srcPtr = make_cudaPitchedPtr(way.from, n * sizeof(int), n, rows);
            shape.dstPtr = make_cudaPitchedPtr(way.to, 2 * n * sizeof(int), 2 * n, rows);
            shape.extent = make_cudaExtent(n * sizeof(int), height, 1);
            shape.kind = way.kind;
            cudaMemcpy3DParms in_rows = shape, narrow = shape, moved = shape;
            in_rows.extent.height = rows, narrow.extent.height = 1;
            moved.srcPtr.ptr = way.elsewhere;
            cudaGraph_t graph, next;
            cudaGraphNode_t node, of_next;
            cudaGraphExec_t exec;
            CHECK(cudaGraphCreate(&graph, 0));
            CHECK(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &shape));
            CHECK(cudaGraphInstantiate(&exec, graph, 0));
            const bool flat = height == 1;
            CHECK(cudaGraphExecMemcpyNodeSetParams(exec, node, &shape));
            EXPECT_EQ(cudaGraphExecMemcpyNodeSetParams(exec, node, &in_rows), flat ? cudaErrorInvalidValue : cudaSuccess);
            EXPECT_EQ(cudaGraphExecMemcpyNodeSetParams(exec, node, &narrow), flat ? cudaSuccess : cudaErrorInvalidValue);
            EXPECT_EQ(cudaGraphExecMemcpyNodeSetParams(exec, node, &moved), flat ? cudaSuccess : cudaErrorInvalidValue);
            CHECK(cudaGraphExecDestroy(exec));
            for (const cudaMemcpy3DParms* wanted : {&shape, &in_rows, &narrow, &moved}) {
                const bool fails = wanted == &shape ? false : flat ? wanted == &in_rows : wanted != &in_rows;
                // A gpu-server gives a copy other memory of its own in the other graph, and knows no rows within host memory
                // (DB-52).
                const bool on_host = way.kind == cudaMemcpyHostToHost;
                if (way.kind != cudaMemcpyDeviceToDevice && (on_host ? fails : !flat && !fails)) continue;
                cudaGraphExecUpdateResultInfo info{};
                CHECK(cudaGraphInstantiate(&exec, graph, 0));
                CHECK(cudaGraphCreate(&next, 0));
                CHECK(cudaGraphAddMemcpyNode(&of_next, next, nullptr, 0, wanted));
                EXPECT_EQ(cudaGraphExecUpdate(exec, next, &info), fails ? cudaErrorGraphExecUpdateFailure : cudaSuccess);
                CHECK(cudaGraphExecDestroy(exec));
                CHECK(cudaGraphDestroy(next));
            }
            CHECK(cudaGraphDestroy(graph));
            cudaGetLastError();
        }
    }
}

// Copies without rows get other memory of the host's, in the executable graph alone, and with an update as a whole.
static void changed_within_the_host() {
    const int n = 200;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> device(n), result(n);
    std::vector<int> in(n, 3), out(n), other(n), fresh(n, 5), last(n, 7);
    const size_t bytes = n * sizeof(int);
    device.upload(in);
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t first, along, up;
    CHECK(cudaGraphAddMemcpyNode1D(&first, graph, nullptr, 0, out.data(), device.data(), bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphAddMemcpyNode1D(&along, graph, &first, 1, other.data(), out.data(), bytes, cudaMemcpyHostToHost));
    CHECK(cudaGraphAddMemcpyNode1D(&up, graph, &along, 1, result.data(), other.data(), bytes, cudaMemcpyHostToDevice));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    const auto expect = [&](const std::vector<int>& wanted) {
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT(result.download() == wanted && other == wanted);
    };
    expect(in);
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, along, other.data(), fresh.data(), bytes, cudaMemcpyHostToHost));
    // They go from where they went to where they went.
    EXPECT_EQ(cudaGraphExecMemcpyNodeSetParams1D(exec, along, device.data(), fresh.data(), bytes, cudaMemcpyHostToDevice),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaGraphExecMemcpyNodeSetParams1D(exec, up, other.data(), fresh.data(), bytes, cudaMemcpyHostToHost),
              cudaErrorInvalidValue);
    cudaGetLastError();
    expect(fresh);
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphMemcpyNodeSetParams1D(along, other.data(), last.data(), bytes, cudaMemcpyHostToHost));
    CHECK(cudaGraphExecUpdate(exec, graph, &info));
    expect(last);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

// Memory that kernels use at another address: a copy in a graph finds what they have written, and they what it has.
static void registered_within_the_host() {
    const int n = 500;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    std::vector<int> from(n, 1), to(n, 0);
    CHECK(cudaHostRegister(from.data(), n * sizeof(int), cudaHostRegisterMapped));
    CHECK(cudaHostRegister(to.data(), n * sizeof(int), cudaHostRegisterMapped));
    int *from_here, *to_here;
    CHECK(cudaHostGetDevicePointer(&from_here, from.data(), 0));
    CHECK(cudaHostGetDevicePointer(&to_here, to.data(), 0));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<(n + 255) / 256, 256, 0, stream>>>(from_here, n, 4);
    CHECK(cudaMemcpyAsync(to.data(), from.data(), n * sizeof(int), cudaMemcpyHostToHost, stream));
    add<<<(n + 255) / 256, 256, 0, stream>>>(to_here, n, 30);
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int launch = 1; launch <= 3; ++launch) {
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; ++i) EXPECT_EQ(from[i], 1 + 4 * launch);
        for (int i = 0; i < n; ++i) EXPECT_EQ(to[i], 31 + 4 * launch);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaHostUnregister(from.data()));
    CHECK(cudaHostUnregister(to.data()));
    CHECK(cudaStreamDestroy(stream));
}

int main(int argc, char** argv) {
    if (argc > 1) {
        many_launches();
        return passed("graph launches");
    }
    captured(64, true);
    captured(64, false);
    captured(700000, true);
    captured(300000, false);
    back_to_back();
    two_of_one_graph();
    through_the_host();
    by_hand();
    child_and_recapture();
    within_the_host();
    captured_is_a_copy();
    added_within_the_host();
    kept_rows();
    changed_within_the_host();
    registered_within_the_host();
    return passed("graph copies");
}
