// Host copies in the bodies of conditional nodes, which are made if the body is run, and as often.
#include "graph_parts.h"

__global__ void choose(cudaGraphConditionalHandle handle, const int* value) { cudaGraphSetConditional(handle, *value); }

__global__ void count_down(int* counter, cudaGraphConditionalHandle handle) {
    *counter -= 1;
    cudaGraphSetConditional(handle, *counter > 0 ? 1 : 0);
}

static cudaGraphNode_t add_adder(cudaGraph_t graph, const cudaGraphNode_t* after, int* data, int n, int value) {
    void* arguments[] = {&data, &n, &value};
    return add_kernel(graph, after, reinterpret_cast<void*>(add), n, arguments);
}

static cudaGraph_t add_conditional(cudaGraph_t graph, const cudaGraphNode_t* after, cudaGraphConditionalHandle handle,
                                   cudaGraphConditionalNodeType type, cudaGraphNode_t* out = nullptr) {
    cudaGraphNodeParams params = {cudaGraphNodeTypeConditional};
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = 1;
    cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&node, graph, after, nullptr, after ? 1 : 0, &params));
#else
    CHECK(cudaGraphAddNode(&node, graph, after, after ? 1 : 0, &params));
#endif
    if (out) *out = node;
    return params.conditional.phGraph_out[0];
}

// A body copies to page-locked memory if it is run, and leaves it alone if it is not; added as a node, or captured.
enum class Made { as_node, captured, captured_with_rows };
static void in_a_branch(Made made) {
    Stream stream;
    DeviceArray<int> value(2), branch(1);
    Pinned out(16);
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle handle;
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 0, 0));
    int* branch_at = branch.data();
    void* chosen[] = {&handle, &branch_at};
    cudaGraphNode_t decide = add_kernel(graph, nullptr, reinterpret_cast<void*>(choose), 1, chosen);
    cudaGraph_t body = add_conditional(graph, &decide, handle, cudaGraphCondTypeIf);
    const bool rows = made == Made::captured_with_rows;
    if (made != Made::as_node) {
        CHECK(cudaStreamBeginCaptureToGraph(stream.handle, body, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
        if (rows) {
            CHECK(cudaMemcpy2DAsync(out.data + 3, 5 * sizeof(int), value.data(), sizeof(int), sizeof(int), 2,
                                    cudaMemcpyDeviceToHost, stream.handle));
        } else {
            CHECK(cudaMemcpyAsync(out.data + 3, value.data(), sizeof(int), cudaMemcpyDeviceToHost, stream.handle));
        }
        CHECK(cudaStreamEndCapture(stream.handle, nullptr));
    } else {
        add_copy(body, nullptr, out.data + 3, value.data(), sizeof(int), cudaMemcpyDeviceToHost);
    }
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 6; ++round) {
        const int taken = round % 2, number[2] = {100 + round, 200 + round};
        for (int i = 0; i < 16; ++i) out.data[i] = -round;
        CHECK(cudaMemcpy(branch.data(), &taken, sizeof taken, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(value.data(), number, sizeof number, cudaMemcpyHostToDevice));
        CHECK(cudaGraphLaunch(exec, stream.handle));
        CHECK(cudaStreamSynchronize(stream.handle));
        for (int i = 0; i < 16; ++i) {
            const int row = i == 3 ? 0 : i == 8 && rows ? 1 : -1;
            EXPECT_EQ(out.data[i], taken && row >= 0 ? number[row] : -round);
        }
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

// A loop whose body tells the host how far it is; the last turn's number stays.
static void in_a_loop() {
    Stream stream;
    DeviceArray<int> counter(1);
    Pinned left(1);
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle handle;
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    cudaGraph_t body = add_conditional(graph, nullptr, handle, cudaGraphCondTypeWhile);
    int* at = counter.data();
    void* arguments[] = {&at, &handle};
    add_copy(body, nullptr, left.data, counter.data(), sizeof(int), cudaMemcpyDeviceToHost);
    cudaGraphNode_t nodes[2];
    size_t count = 2;
    CHECK(cudaGraphGetNodes(body, nodes, &count));
    EXPECT_EQ(count, 1u);
    add_kernel(body, &nodes[0], reinterpret_cast<void*>(count_down), 1, arguments);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int turns : {5, 1, 9}) {
        *left.data = -1;
        CHECK(cudaMemcpy(counter.data(), &turns, sizeof turns, cudaMemcpyHostToDevice));
        CHECK(cudaGraphLaunch(exec, stream.handle));
        CHECK(cudaStreamSynchronize(stream.handle));
        EXPECT_EQ(*left.data, 1);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

// A graph with a body that is run or not, as a number on the device says, or once for each turn that is left.
struct Conditional {
    explicit Conditional(cudaGraphConditionalNodeType type) : number(1), type(type) {
        CHECK(cudaGraphCreate(&graph, 0));
        CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    }
    /// @param after  null: the first node
    void begin_body(const cudaGraphNode_t* after = nullptr) {
        int* at = number.data();
        void* chosen[] = {&handle, &at};
        const cudaGraphNode_t decide = add_kernel(graph, after, reinterpret_cast<void*>(choose), 1, chosen);
        body = add_conditional(graph, &decide, handle, type, &node);
    }
    /// Of a loop: behind the last node of its body.
    void end_turn(const cudaGraphNode_t& last) {
        int* at = number.data();
        void* arguments[] = {&at, &handle};
        add_kernel(body, &last, reinterpret_cast<void*>(count_down), 1, arguments);
    }
    void instantiate() { CHECK(cudaGraphInstantiate(&exec, graph, 0)); }
    void run(Stream& stream, int value) {
        number.upload({value});
        stream.run(exec);
    }
    ~Conditional() {
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }
    DeviceArray<int> number;
    cudaGraphConditionalNodeType type;
    cudaGraph_t graph = nullptr, body = nullptr;
    cudaGraphNode_t node = nullptr;
    cudaGraphConditionalHandle handle{};
    cudaGraphExec_t exec = nullptr;
};

// Each turn goes on with what the one before has left in host memory.
static void through_the_host() {
    const int n = 100;
    const size_t bytes = n * sizeof(int);
    Stream stream;
    DeviceArray<int> device(n);
    Pinned memory(n);
    Conditional loop(cudaGraphCondTypeWhile);
    loop.begin_body();
    cudaGraphNode_t last = add_copy(loop.body, nullptr, device.data(), memory.data, bytes, cudaMemcpyHostToDevice);
    last = add_adder(loop.body, &last, device.data(), n, 3);
    last = add_copy(loop.body, &last, memory.data, device.data(), bytes, cudaMemcpyDeviceToHost);
    loop.end_turn(last);
    loop.instantiate();
    for (int turns : {4, 1, 7}) {
        for (int i = 0; i < n; ++i) memory.data[i] = i;
        loop.run(stream, turns);
        for (int i = 0; i < n; ++i) EXPECT_EQ(memory.data[i], i + 3 * turns);
    }
}

struct Seen {
    const int* data;
    int value = 0;
};
static void CUDART_CB look(void* data) {
    auto* seen = static_cast<Seen*>(data);
    seen->value = seen->data[1];
}

// A child graph in a body, whose copies are made with it and leave host memory alone without it. Behind it a function, and a
// copy, that find what is there then.
static void in_a_child() {
    const int n = 64;
    const size_t bytes = n * sizeof(int);
    Stream stream;
    DeviceArray<int> device(n), result(n);
    Pinned in(n), out(n + 2);
    Seen seen{out.data};
    cudaGraph_t child;
    CHECK(cudaGraphCreate(&child, 0));
    cudaGraphNode_t last = add_copy(child, nullptr, device.data(), in.data, bytes, cudaMemcpyHostToDevice);
    last = add_adder(child, &last, device.data(), n, 5);
    add_copy(child, &last, out.data + 1, device.data(), bytes, cudaMemcpyDeviceToHost);
    Conditional branch(cudaGraphCondTypeIf);
    branch.begin_body();
    cudaGraphNode_t node;
    CHECK(cudaGraphAddChildGraphNode(&node, branch.body, nullptr, 0, child));
    CHECK(cudaGraphDestroy(child));
    cudaHostNodeParams params{look, &seen};
    cudaGraphNode_t function;
    CHECK(cudaGraphAddHostNode(&function, branch.graph, &branch.node, 1, &params));
    add_copy(branch.graph, &branch.node, result.data(), out.data, bytes, cudaMemcpyHostToDevice);
    branch.instantiate();
    for (int round = 0; round < 6; ++round) {
        const bool taken = round % 2 != 0;
        for (int i = 0; i < n; ++i) in.data[i] = 100 * round + i;
        for (int i = 0; i < n + 2; ++i) out.data[i] = -i - round;
        branch.run(stream, taken);
        const auto found = result.download();
        for (int i = 0; i < n + 2; ++i) {
            const int expected = taken && i >= 1 && i <= n ? 100 * round + i - 1 + 5 : -i - round;
            EXPECT_EQ(out.data[i], expected);
            if (i < n) EXPECT_EQ(found[i], expected);
        }
        EXPECT_EQ(seen.value, taken ? 100 * round + 5 : -1 - round);
    }
}

// In the child graph of a loop: out to host memory, and in again from there.
static void out_and_in_in_a_child() {
    const int n = 64;
    const size_t bytes = n * sizeof(int);
    Stream stream;
    DeviceArray<int> from(n), to(n);
    Pinned memory(n);
    cudaGraph_t child;
    CHECK(cudaGraphCreate(&child, 0));
    cudaGraphNode_t last = add_adder(child, nullptr, from.data(), n, 1);
    last = add_copy(child, &last, memory.data, from.data(), bytes, cudaMemcpyDeviceToHost);
    add_copy(child, &last, to.data(), memory.data + 4, bytes / 2, cudaMemcpyHostToDevice);
    Conditional loop(cudaGraphCondTypeWhile);
    loop.begin_body();
    cudaGraphNode_t node;
    CHECK(cudaGraphAddChildGraphNode(&node, loop.body, nullptr, 0, child));
    CHECK(cudaGraphDestroy(child));
    loop.end_turn(node);
    loop.instantiate();
    CHECK(cudaMemset(from.data(), 0, bytes));
    int expected = 0;
    for (int turns : {3, 1, 5}) {
        loop.run(stream, turns);
        expected += turns;
        const auto found = to.download();
        for (int i = 0; i < n / 2; ++i) EXPECT_EQ(found[i], expected);
        for (int i = 0; i < n; ++i) EXPECT_EQ(memory.data[i], expected);
    }
}

// The same host memory before a conditional node, in its body, and behind it.
static void around_a_body() {
    const int n = 64;
    const size_t bytes = n * sizeof(int);
    Stream stream;
    DeviceArray<int> before(n), inside(n), result(n);
    Pinned memory(n);
    Conditional branch(cudaGraphCondTypeIf);
    const cudaGraphNode_t out = add_copy(branch.graph, nullptr, memory.data, before.data(), bytes, cudaMemcpyDeviceToHost);
    branch.begin_body(&out);
    add_copy(branch.body, nullptr, memory.data + 8, inside.data(), 16 * sizeof(int), cudaMemcpyDeviceToHost);
    add_copy(branch.graph, &branch.node, result.data(), memory.data, bytes, cudaMemcpyHostToDevice);
    branch.instantiate();
    for (int round = 0; round < 4; ++round) {
        const bool taken = round % 2 != 0;
        before.upload(std::vector<int>(n, 10 + round));
        inside.upload(std::vector<int>(n, 90 + round));
        for (int i = 0; i < n; ++i) memory.data[i] = -1;
        branch.run(stream, taken);
        const auto found = result.download();
        for (int i = 0; i < n; ++i) {
            const int expected = (taken && i >= 8 && i < 24 ? 90 : 10) + round;
            EXPECT_EQ(memory.data[i], expected);
            EXPECT_EQ(found[i], expected);
        }
    }
}

// Within page-locked memory.
static void within_the_host(bool captured) {
    const int n = 64;
    const size_t bytes = n * sizeof(int);
    Stream stream;
    Pinned from(n), to(n);
    Conditional branch(cudaGraphCondTypeIf);
    branch.begin_body();
    if (captured) {
        CHECK(cudaStreamBeginCaptureToGraph(stream.handle, branch.body, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
        CHECK(cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyHostToHost, stream.handle));
        CHECK(cudaStreamEndCapture(stream.handle, nullptr));
    } else {
        add_copy(branch.body, nullptr, to.data, from.data, bytes, cudaMemcpyHostToHost);
    }
    branch.instantiate();
    for (int round = 0; round < 4; ++round) {
        const bool taken = round % 2 != 0;
        for (int i = 0; i < n; ++i) from.data[i] = round + i, to.data[i] = -1;
        branch.run(stream, taken);
        for (int i = 0; i < n; ++i) EXPECT_EQ(to.data[i], taken ? round + i : -1);
    }
}

int main() {
    for (Made made : {Made::as_node, Made::captured, Made::captured_with_rows}) in_a_branch(made);
    in_a_loop();
    through_the_host();
    in_a_child();
    out_and_in_in_a_child();
    around_a_body();
    for (bool captured : {false, true}) within_the_host(captured);
    return passed("copies in conditional bodies");
}
