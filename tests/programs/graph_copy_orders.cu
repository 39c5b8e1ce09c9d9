// Host copies of graphs in orders that only the graph knows: from host memory that the graph itself has written, in executable
// graphs with different host nodes, and in several streams.
#include <atomic>
#include <cstring>

#include "graph_parts.h"

static std::atomic<bool> may_begin;
static void CUDART_CB wait_to_begin(void*) {
    while (!may_begin.load()) {
    }
}

// One executable graph in two streams: its launches come one after the other, whichever stream could begin first.
static void in_two_streams() {
    const int n = 300;
    Stream one, other;
    DeviceArray<int> device(n);
    Pinned out(n);
    CHECK(cudaMemset(device.data(), 0, n * sizeof(int)));
    CHECK(cudaStreamBeginCapture(one.handle, cudaStreamCaptureModeGlobal));
    add<<<2, 256, 0, one.handle>>>(device.data(), n, 1);
    CHECK(cudaMemcpyAsync(out.data, device.data(), n * sizeof(int), cudaMemcpyDeviceToHost, one.handle));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(one.handle, &graph));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    for (int round = 1; round <= 10; ++round) {
        may_begin.store(false);
        CHECK(cudaLaunchHostFunc(one.handle, wait_to_begin, nullptr));
        CHECK(cudaGraphLaunch(exec, one.handle));
        CHECK(cudaGraphLaunch(exec, other.handle));
        may_begin.store(true);
        CHECK(cudaStreamSynchronize(one.handle));
        CHECK(cudaStreamSynchronize(other.handle));
        for (int i = 0; i < n; ++i) EXPECT_EQ(out.data[i], 2 * round);
    }
    CHECK(cudaGraphExecDestroy(exec));
}

struct Noted {
    const int* at;
    std::vector<int> seen;
};
static void CUDART_CB note(void* data) {
    auto* noted = static_cast<Noted*>(data);
    noted->seen.push_back(*noted->at);
}

// A graph gets a host node behind its copy, another one before it, and loses the first again: what was made executable before
// stays as it was, and each is right when they take turns.
static void with_other_host_nodes() {
    Stream stream;
    DeviceArray<int> device(1);
    Pinned out(1);
    CHECK(cudaMemset(device.data(), 0, sizeof(int)));
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    int one = 1, *at = device.data(), count = 1;
    void* arguments[] = {&at, &count, &one};
    cudaGraphNode_t kernel = add_kernel(graph, nullptr, reinterpret_cast<void*>(add), 1, arguments);
    cudaGraphNode_t copy = add_copy(graph, &kernel, out.data, at, sizeof(int), cudaMemcpyDeviceToHost);
    cudaGraphExec_t execs[3];
    CHECK(cudaGraphInstantiate(&execs[0], graph, 0));
    Noted behind{out.data, {}}, before{out.data, {}};
    cudaHostNodeParams note_behind{note, &behind}, note_before{note, &before};
    cudaGraphNode_t after_copy, before_kernel;
    CHECK(cudaGraphAddHostNode(&after_copy, graph, &copy, 1, &note_behind));
    CHECK(cudaGraphInstantiate(&execs[1], graph, 0));
    CHECK(cudaGraphAddHostNode(&before_kernel, graph, nullptr, 0, &note_before));
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddDependencies(graph, &before_kernel, &kernel, nullptr, 1));
#else
    CHECK(cudaGraphAddDependencies(graph, &before_kernel, &kernel, 1));
#endif
    CHECK(cudaGraphDestroyNode(after_copy));
    CHECK(cudaGraphInstantiate(&execs[2], graph, 0));
    CHECK(cudaGraphDestroy(graph));
    *out.data = 0;
    for (int launch = 0; launch < 12; ++launch) CHECK(cudaGraphLaunch(execs[launch % 3], stream.handle));
    CHECK(cudaStreamSynchronize(stream.handle));
    EXPECT_EQ(*out.data, 12);
    EXPECT_EQ(behind.seen.size(), 4u);
    EXPECT_EQ(before.seen.size(), 4u);
    for (size_t i = 0; i < behind.seen.size() && i < before.seen.size(); ++i) {
        EXPECT_EQ(behind.seen[i], static_cast<int>(3 * i + 2));
        EXPECT_EQ(before.seen[i], static_cast<int>(3 * i + 2));
    }
    for (cudaGraphExec_t exec : execs) CHECK(cudaGraphExecDestroy(exec));
}

// To the host and from there again, with nothing in between: all of it, a part, the newer of two; in a child graph as well.
static void written_and_read(bool pinned, bool in_child) {
    const int n = 1000, first = 100, part = 300;
    Stream stream;
    DeviceArray<int> from(n), all(n), some(part), newer(n);
    Pinned locked(n);
    std::vector<int> pageable(n);
    int* host = pinned ? locked.data : pageable.data();
    const size_t bytes = n * sizeof(int);
    std::vector<int> numbers(n);
    for (int i = 0; i < n; ++i) numbers[i] = i;
    CHECK(cudaMemcpy(from.data(), numbers.data(), bytes, cudaMemcpyHostToDevice));
    std::memset(host, 0xff, bytes);

    cudaGraph_t graph, parent;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t out = add_copy(graph, nullptr, host, from.data(), bytes, cudaMemcpyDeviceToHost);
    cudaGraphNode_t in = add_copy(graph, &out, all.data(), host, bytes, cudaMemcpyHostToDevice);
    cudaGraphNode_t in_part = add_copy(graph, &in, some.data(), host + first, part * sizeof(int), cudaMemcpyHostToDevice);
    int *at = from.data(), count = n, one = 1;
    void* arguments[] = {&at, &count, &one};
    cudaKernelNodeParams params{};
    params.func = reinterpret_cast<void*>(add);
    params.gridDim = dim3(4);
    params.blockDim = dim3(256);
    params.kernelParams = arguments;
    cudaGraphNode_t kernel;
    CHECK(cudaGraphAddKernelNode(&kernel, graph, &in_part, 1, &params));
    cudaGraphNode_t out_again = add_copy(graph, &kernel, host, from.data(), bytes, cudaMemcpyDeviceToHost);
    cudaGraphNode_t in_again = add_copy(graph, &out_again, newer.data(), host, bytes, cudaMemcpyHostToDevice);
    cudaGraphExec_t exec;
    if (in_child) {
        CHECK(cudaGraphCreate(&parent, 0));
        cudaGraphNode_t child;
        CHECK(cudaGraphAddChildGraphNode(&child, parent, nullptr, 0, graph));
        CHECK(cudaGraphInstantiate(&exec, parent, 0));
        CHECK(cudaGraphDestroy(parent));
    } else {
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        // The program finds its nodes as it made them.
        cudaMemcpy3DParms told{};
        CHECK(cudaGraphMemcpyNodeGetParams(in_part, &told));
        EXPECT(told.srcPtr.ptr == host + first && told.kind == cudaMemcpyHostToDevice);
    }
    for (int round = 0; round < 5; ++round) {
        CHECK(cudaGraphLaunch(exec, stream.handle));
        if (round == 2) continue;  // and twice without a wait
        CHECK(cudaStreamSynchronize(stream.handle));
        const auto old = all.download(), middle = some.download(), last = newer.download();
        for (int i = 0; i < n; ++i) {
            EXPECT_EQ(old[i], i + round);
            EXPECT_EQ(last[i], i + round + 1);
            EXPECT_EQ(host[i], i + round + 1);
        }
        for (int i = 0; i < part; ++i) EXPECT_EQ(middle[i], first + i + round);
    }
    if (!in_child) {
        // It becomes another copy of the same kind, but not one in another direction.
        DeviceArray<int> elsewhere(n);
        EXPECT_EQ(cudaGraphExecMemcpyNodeSetParams1D(exec, in_again, host, newer.data(), bytes, cudaMemcpyDeviceToHost),
                  cudaErrorInvalidValue);
        EXPECT_EQ(
            cudaGraphExecMemcpyNodeSetParams1D(exec, in_again, elsewhere.data(), newer.data(), bytes, cudaMemcpyDeviceToDevice),
            cudaErrorInvalidValue);
        CHECK(cudaGraphLaunch(exec, stream.handle));
        CHECK(cudaStreamSynchronize(stream.handle));
        const auto last = newer.download();
        for (int i = 0; i < n; ++i) EXPECT_EQ(last[i], i + 6);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

// What lies in host memory is the program's, but for what the graph itself has written there before it reads: a part in one
// piece, then every other column of a square, of which a newer piece is written again. As nodes, in a child graph, captured.
enum class Form { nodes, child, captured };
static void written_in_part(Form form, bool pinned) {
    const int side = 32, n = side * side, first = 100, part = 333;
    const size_t bytes = n * sizeof(int);
    Stream stream;
    DeviceArray<int> piece(part), columns(side * side / 2), again(side), whole(n), square(n);
    Pinned locked(n);
    std::vector<int> pageable(n);
    int* host = pinned ? locked.data : pageable.data();

    // Behind one another: what is laid over what.
    const auto one_column = [&](int column, DeviceArray<int>& from, int at) {
        cudaMemcpy3DParms copy{};
        copy.srcPtr = make_cudaPitchedPtr(from.data() + at, sizeof(int), 1, side);
        copy.dstPtr = make_cudaPitchedPtr(host + column, side * sizeof(int), side, side);
        copy.extent = make_cudaExtent(sizeof(int), side, 1);
        copy.kind = cudaMemcpyDeviceToHost;
        return copy;
    };
    // Layers of four rows of eight numbers, of rows of 32: what is read has gaps, too.
    cudaMemcpy3DParms with_gaps{};
    with_gaps.srcPtr = make_cudaPitchedPtr(host + 4, side * sizeof(int), side, 8);
    with_gaps.dstPtr = make_cudaPitchedPtr(square.data(), 8 * sizeof(int), 8, 4);
    with_gaps.extent = make_cudaExtent(8 * sizeof(int), 4, 4);
    with_gaps.kind = cudaMemcpyHostToDevice;

    cudaGraph_t graph, parent;
    cudaGraphExec_t exec;
    if (form == Form::captured) {
        CHECK(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeRelaxed));
        CHECK(cudaMemcpyAsync(host + first, piece.data(), part * sizeof(int), cudaMemcpyDeviceToHost, stream.handle));
        for (int column = 0; column < side; column += 2) {
            const auto copy = one_column(column, columns, column / 2 * side);
            CHECK(cudaMemcpy3DAsync(&copy, stream.handle));
        }
        CHECK(cudaMemcpyAsync(host + 5 * side, again.data(), side * sizeof(int), cudaMemcpyDeviceToHost, stream.handle));
        CHECK(cudaMemcpyAsync(whole.data(), host, bytes, cudaMemcpyHostToDevice, stream.handle));
        CHECK(cudaMemcpy3DAsync(&with_gaps, stream.handle));
        CHECK(cudaStreamEndCapture(stream.handle, &graph));
    } else {
        CHECK(cudaGraphCreate(&graph, 0));
        cudaGraphNode_t last = add_copy(graph, nullptr, host + first, piece.data(), part * sizeof(int), cudaMemcpyDeviceToHost);
        for (int column = 0; column < side; column += 2) {
            const auto copy = one_column(column, columns, column / 2 * side);
            CHECK(cudaGraphAddMemcpyNode(&last, graph, &last, 1, &copy));
        }
        last = add_copy(graph, &last, host + 5 * side, again.data(), side * sizeof(int), cudaMemcpyDeviceToHost);
        add_copy(graph, &last, whole.data(), host, bytes, cudaMemcpyHostToDevice);
        CHECK(cudaGraphAddMemcpyNode(&last, graph, &last, 1, &with_gaps));
    }
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(cudaGraphCreate(&parent, 0));
    if (form == Form::child) {
        cudaGraphNode_t child;
        CHECK(cudaGraphAddChildGraphNode(&child, parent, nullptr, 0, graph));
    }
    CHECK(cudaGraphInstantiate(&exec, form == Form::child ? parent : graph, 0));
    size_t nodes_after = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes_after));
    EXPECT_EQ(nodes_after, nodes);
    // The same once more, as an update.
    cudaGraphExecUpdateResultInfo info{};
    CHECK(cudaGraphExecUpdate(exec, form == Form::child ? parent : graph, &info));
    CHECK(cudaGraphDestroy(parent));
    CHECK(cudaGraphDestroy(graph));

    for (int round = 0; round < 4; ++round) {
        std::vector<int> expected(n), of_piece(part, 1000 + round), of_columns(n / 2), of_again(side, 2000 + round);
        for (int i = 0; i < n / 2; ++i) of_columns[i] = 3000 + round + i;
        for (int i = 0; i < n; ++i) expected[i] = host[i] = -i - round;
        piece.upload(of_piece);
        columns.upload(of_columns);
        again.upload(of_again);
        for (int i = 0; i < part; ++i) expected[first + i] = of_piece[i];
        for (int i = 0; i < n; ++i) {
            if (i % side % 2 == 0) expected[i] = of_columns[i % side / 2 * side + i / side];
        }
        for (int i = 0; i < side; ++i) expected[5 * side + i] = of_again[i];
        for (int launch = 0; launch <= round % 2; ++launch) CHECK(cudaGraphLaunch(exec, stream.handle));
        CHECK(cudaStreamSynchronize(stream.handle));
        const auto read = whole.download(), read_with_gaps = square.download();
        for (int i = 0; i < n; ++i) {
            EXPECT_EQ(read[i], expected[i]);
            EXPECT_EQ(host[i], expected[i]);
        }
        for (int i = 0; i < 128; ++i) {
            const int row = i / 8, in_memory = (row / 4 * 8 + row % 4) * side + 4 + i % 8;
            EXPECT_EQ(read_with_gaps[i], expected[in_memory]);
        }
    }
    CHECK(cudaGraphExecDestroy(exec));
}

int main() {
    in_two_streams();
    with_other_host_nodes();
    for (bool pinned : {false, true}) {
        for (bool in_child : {false, true}) written_and_read(pinned, in_child);
    }
    for (Form form : {Form::nodes, Form::child, Form::captured}) {
        for (bool pinned : {false, true}) written_in_part(form, pinned);
    }
    std::printf("orders of host copies in graphs: verified\n");
    return 0;
}
