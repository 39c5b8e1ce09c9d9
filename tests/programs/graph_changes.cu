// Executable graphs whose copies from and to host memory change: one at a time, after an update as a whole, in a child graph,
// or switched off; and copies that are in a graph twice.
#include <functional>

#include "check.h"

__global__ void add(int* data, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += value;
}

static constexpr int k_count = 300;
static constexpr size_t k_bytes = k_count * sizeof(int);

struct Pinned {
    Pinned() { CHECK(cudaMallocHost(&data, k_bytes)); }
    ~Pinned() { CHECK(cudaFreeHost(data)); }
    void fill(int value) {
        for (int i = 0; i < k_count; ++i) data[i] = value + i;
    }
    void expect(int value) const {
        for (int i = 0; i < k_count; ++i) EXPECT_EQ(data[i], value + i);
    }
    int* data = nullptr;
};

struct Stream {
    Stream() { CHECK(cudaStreamCreate(&handle)); }
    ~Stream() { CHECK(cudaStreamDestroy(handle)); }
    void run(cudaGraphExec_t exec) {
        CHECK(cudaGraphLaunch(exec, handle));
        CHECK(cudaStreamSynchronize(handle));
    }
    cudaStream_t handle = nullptr;
};

static cudaGraphNode_t add_copy(cudaGraph_t graph, std::vector<cudaGraphNode_t> after, void* to, const void* from,
                                cudaMemcpyKind kind, size_t bytes = k_bytes) {
    cudaGraphNode_t node;
    CHECK(cudaGraphAddMemcpyNode1D(&node, graph, after.data(), after.size(), to, from, bytes, kind));
    return node;
}

static cudaGraphNode_t add_kernel(cudaGraph_t graph, std::vector<cudaGraphNode_t> after, int* data, int value) {
    int count = k_count;
    void* arguments[] = {&data, &count, &value};
    cudaKernelNodeParams params{};
    params.func = reinterpret_cast<void*>(add);
    params.gridDim = dim3(2);
    params.blockDim = dim3(256);
    params.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &params));
    return node;
}

static cudaGraphNode_t add_function(cudaGraph_t graph, std::vector<cudaGraphNode_t> after, cudaHostFn_t function, void* data) {
    const cudaHostNodeParams params{function, data};
    cudaGraphNode_t node;
    CHECK(cudaGraphAddHostNode(&node, graph, after.data(), after.size(), &params));
    return node;
}

static cudaGraphExec_t instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void update(cudaGraphExec_t exec, cudaGraph_t graph) {
    cudaGraphExecUpdateResultInfo info{};
    CHECK(cudaGraphExecUpdate(exec, graph, &info));
}

struct Sum {
    const int* data;
    int total = 0;
};
static void CUDART_CB sum_up(void* data) {
    auto* sum = static_cast<Sum*>(data);
    sum->total += sum->data[0];
}
static void CUDART_CB subtract(void* data) {
    auto* sum = static_cast<Sum*>(data);
    sum->total -= sum->data[0];
}

// Two branches of one shape: which node of the graph that it was updated from stands for which of its own is told by the order
// in which both were made. Then its own nodes become other copies, record other events, call other functions.
static void after_an_update(bool same_order) {
    Stream stream;
    DeviceArray<int> one(k_count), other(k_count);
    Pinned in[4], out[6];
    Sum sum{out[1].data}, sum_of_second{out[3].data}, later{out[4].data};
    cudaEvent_t first_event, second_event;
    CHECK(cudaEventCreate(&first_event));
    CHECK(cudaEventCreate(&second_event));
    struct Made {
        cudaGraph_t graph;
        cudaGraphNode_t in[2], out[2], function, record;
    };
    const auto make = [&](int which, Sum& of, bool in_order) {
        Made made;
        CHECK(cudaGraphCreate(&made.graph, 0));
        int* device[2] = {one.data(), other.data()};
        for (int i : {in_order ? 0 : 1, in_order ? 1 : 0})
            made.in[i] = add_copy(made.graph, {}, device[i], in[2 * which + i].data, cudaMemcpyHostToDevice);
        cudaGraphNode_t kernels[2];
        for (int i = 0; i < 2; ++i) kernels[i] = add_kernel(made.graph, {made.in[i]}, device[i], 1000 * (i + 1));
        for (int i = 0; i < 2; ++i)
            made.out[i] = add_copy(made.graph, {kernels[i]}, out[2 * which + i].data, device[i], cudaMemcpyDeviceToHost);
        made.function = add_function(made.graph, {made.out[1]}, sum_up, &of);
        CHECK(cudaGraphAddEventRecordNode(&made.record, made.graph, &made.out[0], 1, first_event));
        return made;
    };
    const Made original = make(0, sum, true), second = make(1, sum_of_second, same_order);
    cudaGraphExec_t exec = instantiate(original.graph);
    for (int i = 0; i < 4; ++i) in[i].fill(i * 10000);
    stream.run(exec);
    out[0].expect(1000);
    out[1].expect(12000);
    EXPECT_EQ(sum.total, 12000);
    update(exec, second.graph);
    stream.run(exec);
    out[2].expect(21000);
    out[3].expect(32000);
    EXPECT_EQ(sum_of_second.total, 32000);
    EXPECT_EQ(sum.total, 12000);

    // The first branch copies elsewhere, the second one from elsewhere, and what is called and recorded is something else.
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, original.out[0], out[5].data, one.data(), k_bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, original.in[1], other.data(), in[0].data, k_bytes, cudaMemcpyHostToDevice));
    const cudaHostNodeParams params{sum_up, &later};
    CHECK(cudaGraphExecHostNodeSetParams(exec, original.function, &params));
    CHECK(cudaGraphExecEventRecordNodeSetEvent(exec, original.record, second_event));
    out[2].fill(-1);
    out[3].fill(-1);
    CHECK(cudaGraphLaunch(exec, stream.handle));
    CHECK(cudaEventSynchronize(second_event));
    out[5].expect(21000);  // the event tells of it
    CHECK(cudaStreamSynchronize(stream.handle));
    out[2].expect(-1);
    out[3].expect(2000);
    EXPECT_EQ(sum_of_second.total, 32000);
    // And once more from a graph, and a change of what that has brought.
    update(exec, original.graph);
    CHECK(
        cudaGraphExecMemcpyNodeSetParams1D(exec, original.out[1], out[4].data, other.data(), k_bytes, cudaMemcpyDeviceToHost));
    const cudaHostNodeParams with_less{subtract, &later};
    CHECK(cudaGraphExecHostNodeSetParams(exec, original.function, &with_less));
    out[1].fill(-5);
    later.total = 0;
    stream.run(exec);
    out[0].expect(1000);
    out[1].expect(-5);
    out[4].expect(12000);
    EXPECT_EQ(later.total, -12000);  // of what the copy before it has brought in this launch
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(original.graph));
    CHECK(cudaGraphDestroy(second.graph));
    CHECK(cudaEventDestroy(first_event));
    CHECK(cudaEventDestroy(second_event));
}

// Out to host memory and in again from there: where each reads and writes changes in the executable graph.
static void ping_pong() {
    Stream stream;
    DeviceArray<int> from(k_count), to(k_count), copy(k_count);
    Pinned memory[3];
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    const auto kernel = add_kernel(graph, {}, from.data(), 1);
    const auto out = add_copy(graph, {kernel}, memory[0].data, from.data(), cudaMemcpyDeviceToHost);
    const auto in = add_copy(graph, {out}, to.data(), memory[0].data, cudaMemcpyHostToDevice);
    const auto in_too = add_copy(graph, {out}, copy.data(), memory[0].data + 7, cudaMemcpyHostToDevice, k_bytes - 28);
    cudaGraphExec_t exec = instantiate(graph);
    CHECK(cudaMemset(from.data(), 0, k_bytes));
    const auto expect = [&](int read, int read_too) {
        const auto seen = to.download(), seen_too = copy.download();
        for (int i = 0; i < k_count; ++i) EXPECT_EQ(seen[i], read);
        for (int i = 0; i < k_count - 7; ++i) EXPECT_EQ(seen_too[i], read_too);
    };
    const auto set_all = [](Pinned& pinned, int value) {
        for (int i = 0; i < k_count; ++i) pinned.data[i] = value;
    };
    stream.run(exec);
    expect(1, 1);
    // It is written elsewhere, and both read what the program has.
    set_all(memory[0], 50);
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, out, memory[1].data, from.data(), k_bytes, cudaMemcpyDeviceToHost));
    stream.run(exec);
    expect(50, 50);
    EXPECT_EQ(memory[1].data[3], 2);
    set_all(memory[0], 60);
    stream.run(exec);
    expect(60, 60);
    // One of them follows, then the other one.
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, in, to.data(), memory[1].data, k_bytes, cudaMemcpyHostToDevice));
    stream.run(exec);
    expect(4, 60);
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, in_too, copy.data(), memory[1].data + 7, k_bytes - 28,
                                             cudaMemcpyHostToDevice));
    stream.run(exec);
    expect(5, 5);
    // Switched off, the copy out leaves the memory to the program; then on again.
    CHECK(cudaGraphNodeSetEnabled(exec, out, 0));
    set_all(memory[1], 70);
    stream.run(exec);
    expect(70, 70);
    CHECK(cudaGraphNodeSetEnabled(exec, out, 1));
    stream.run(exec);
    expect(7, 7);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

// A child graph's place is taken by another one, with other host memory and another function.
static void another_child() {
    Stream stream;
    DeviceArray<int> device(k_count);
    Pinned in[2], out[2];
    Sum sums[2] = {{out[0].data}, {out[1].data}};
    cudaGraph_t children[2], graph;
    for (int i = 0; i < 2; ++i) {
        CHECK(cudaGraphCreate(&children[i], 0));
        const auto first = add_copy(children[i], {}, device.data(), in[i].data, cudaMemcpyHostToDevice);
        const auto kernel = add_kernel(children[i], {first}, device.data(), 10 + i);
        const auto last = add_copy(children[i], {kernel}, out[i].data, device.data(), cudaMemcpyDeviceToHost);
        add_function(children[i], {last}, sum_up, &sums[i]);
    }
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t child;
    CHECK(cudaGraphAddChildGraphNode(&child, graph, nullptr, 0, children[0]));
    cudaGraphExec_t exec = instantiate(graph);
    in[0].fill(100);
    in[1].fill(200);
    stream.run(exec);
    out[0].expect(110);
    EXPECT_EQ(sums[0].total, 110);
    CHECK(cudaGraphExecChildGraphNodeSetParams(exec, child, children[1]));
    out[0].fill(0);
    stream.run(exec);
    out[0].expect(0);
    out[1].expect(211);
    EXPECT_EQ(sums[0].total, 110);
    EXPECT_EQ(sums[1].total, 211);
    CHECK(cudaGraphExecChildGraphNodeSetParams(exec, child, children[0]));
    CHECK(cudaGraphDestroy(children[1]));
    stream.run(exec);
    out[0].expect(110);
    EXPECT_EQ(sums[0].total, 220);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(children[0]));
}

struct Seen {
    const int* data;
    std::vector<int> values;
};
static void CUDART_CB look(void* data) {
    auto* seen = static_cast<Seen*>(data);
    seen->values.push_back(seen->data[0]);
}

// One child graph twice in a graph: what it copies to the host arrives twice.
static void one_child_twice() {
    Stream stream;
    DeviceArray<int> device(k_count);
    Pinned out;
    Seen seen{out.data, {}};
    cudaGraph_t child, graph;
    CHECK(cudaGraphCreate(&child, 0));
    const auto kernel = add_kernel(child, {}, device.data(), 1);
    add_copy(child, {kernel}, out.data, device.data(), cudaMemcpyDeviceToHost);
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t first, second;
    CHECK(cudaGraphAddChildGraphNode(&first, graph, nullptr, 0, child));
    const auto function = add_function(graph, {first}, look, &seen);
    CHECK(cudaGraphAddChildGraphNode(&second, graph, &function, 1, child));
    cudaGraphExec_t exec = instantiate(graph);
    CHECK(cudaMemset(device.data(), 0, k_bytes));
    for (int launch = 0; launch < 3; ++launch) {
        stream.run(exec);
        EXPECT_EQ(out.data[0], 2 * launch + 2);
        EXPECT_EQ(out.data[k_count - 1], 2 * launch + 2);
    }
    EXPECT(seen.values == std::vector<int>({1, 3, 5}));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(child));
}

// A copy within host memory is switched off and on, gets other memory meanwhile, and stays off over an update as a whole.
static void within_the_host_off_and_on() {
    Stream stream;
    DeviceArray<int> device(k_count);
    Pinned first, second, third, out;
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    const auto along = add_copy(graph, {}, second.data, first.data, cudaMemcpyHostToHost);
    const auto in = add_copy(graph, {along}, device.data(), second.data, cudaMemcpyHostToDevice);
    add_copy(graph, {in}, out.data, device.data(), cudaMemcpyDeviceToHost);
    cudaGraphExec_t exec = instantiate(graph);
    unsigned enabled = 0;
    CHECK(cudaGraphNodeGetEnabled(exec, along, &enabled));
    EXPECT_EQ(enabled, 1u);
    first.fill(10);
    second.fill(20);
    third.fill(30);
    CHECK(cudaGraphNodeSetEnabled(exec, along, 0));
    CHECK(cudaGraphNodeGetEnabled(exec, along, &enabled));
    EXPECT_EQ(enabled, 0u);
    stream.run(exec);
    out.expect(20);
    second.expect(20);
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, along, second.data, third.data, k_bytes, cudaMemcpyHostToHost));
    stream.run(exec);
    out.expect(20);
    CHECK(cudaGraphNodeSetEnabled(exec, along, 1));
    stream.run(exec);
    out.expect(30);
    CHECK(cudaGraphNodeSetEnabled(exec, along, 0));
    second.fill(40);
    update(exec, graph);
    stream.run(exec);
    out.expect(40);
    CHECK(cudaGraphNodeSetEnabled(exec, along, 1));
    CHECK(cudaGraphNodeGetEnabled(exec, along, &enabled));
    EXPECT_EQ(enabled, 1u);
    stream.run(exec);
    out.expect(10);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

// A node of a graph, made by hand or captured, copies within host memory, then from it to the device, and within it again.
static void of_another_kind(bool captured) {
    Stream stream;
    DeviceArray<int> device(k_count);
    Pinned first, second, out;
    cudaGraph_t graph;
    cudaGraphNode_t copy = nullptr;
    if (captured) {
        CHECK(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeRelaxed));
        CHECK(cudaMemsetAsync(device.data(), 0, k_bytes, stream.handle));
        CHECK(cudaMemcpyAsync(second.data, first.data, k_bytes, cudaMemcpyHostToHost, stream.handle));
        CHECK(cudaMemcpyAsync(out.data, device.data(), k_bytes, cudaMemcpyDeviceToHost, stream.handle));
        CHECK(cudaStreamEndCapture(stream.handle, &graph));
        cudaGraphNode_t nodes[3];
        size_t count = 3;
        CHECK(cudaGraphGetNodes(graph, nodes, &count));
        for (size_t i = 0; i < count; ++i) {
            cudaGraphNodeType type;
            CHECK(cudaGraphNodeGetType(nodes[i], &type));
            cudaMemcpy3DParms told{};
            if (type != cudaGraphNodeTypeMemcpy) continue;
            CHECK(cudaGraphMemcpyNodeGetParams(nodes[i], &told));
            if (told.srcPtr.ptr == first.data) copy = nodes[i];
        }
    } else {
        CHECK(cudaGraphCreate(&graph, 0));
        cudaMemsetParams fill{};
        fill.dst = device.data();
        fill.elementSize = 1;
        fill.width = k_bytes;
        fill.height = 1;
        cudaGraphNode_t zeros;
        CHECK(cudaGraphAddMemsetNode(&zeros, graph, nullptr, 0, &fill));
        copy = add_copy(graph, {zeros}, second.data, first.data, cudaMemcpyHostToHost);
        add_copy(graph, {copy}, out.data, device.data(), cudaMemcpyDeviceToHost);
    }
    const auto run = [&] {
        cudaGraphExec_t exec = instantiate(graph);
        out.fill(-9);
        stream.run(exec);
        CHECK(cudaGraphExecDestroy(exec));
    };
    first.fill(100);
    second.fill(7);
    run();
    second.expect(100);
    EXPECT_EQ(out.data[4], 0);
    second.fill(7);
    CHECK(cudaGraphMemcpyNodeSetParams1D(copy, device.data(), first.data, k_bytes, cudaMemcpyHostToDevice));
    cudaMemcpy3DParms told{};
    CHECK(cudaGraphMemcpyNodeGetParams(copy, &told));
    EXPECT(told.srcPtr.ptr == first.data && told.dstPtr.ptr == device.data() && told.kind == cudaMemcpyHostToDevice);
    size_t before = 0, after = 0;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphNodeGetDependencies(copy, nullptr, nullptr, &before));
    CHECK(cudaGraphNodeGetDependentNodes(copy, nullptr, nullptr, &after));
#else
    CHECK(cudaGraphNodeGetDependencies(copy, nullptr, &before));
    CHECK(cudaGraphNodeGetDependentNodes(copy, nullptr, &after));
#endif
    EXPECT_EQ(before, 1u);
    EXPECT_EQ(after, 1u);
    run();
    second.expect(7);
    out.expect(100);
    CHECK(cudaGraphMemcpyNodeSetParams1D(copy, second.data, first.data, k_bytes, cudaMemcpyHostToHost));
    CHECK(cudaGraphMemcpyNodeGetParams(copy, &told));
    EXPECT(told.srcPtr.ptr == first.data && told.dstPtr.ptr == second.data);
    run();
    second.expect(100);
    EXPECT_EQ(out.data[4], 0);
    CHECK(cudaGraphDestroy(graph));
}

// What CUDA refuses of an executable graph it refuses in the call, so that a program can make another one; and nothing is
// changed by it.
static void refused_at_once() {
    Stream stream;
    DeviceArray<int> device(k_count);
    cudaGraph_t child, other_child, graph, other;
    for (cudaGraph_t* one : {&child, &other_child, &graph, &other}) CHECK(cudaGraphCreate(one, 0));
    add_kernel(child, {}, device.data(), 1);
    add_kernel(other_child, {add_kernel(other_child, {}, device.data(), 1)}, device.data(), 2);
    cudaGraphNode_t inside, last;
    CHECK(cudaGraphAddChildGraphNode(&inside, graph, nullptr, 0, child));
    last = add_kernel(graph, {inside}, device.data(), 10);
    const cudaGraphNode_t strange = add_kernel(other, {}, device.data(), 100);
    cudaGraphExec_t exec = instantiate(graph);
    const cudaGraphNode_t later = add_kernel(graph, {last}, device.data(), 1000);
    const auto refuses = [](cudaError_t error) {
        EXPECT(error != cudaSuccess);
        cudaGetLastError();
    };
    refuses(cudaGraphExecChildGraphNodeSetParams(exec, inside, other_child));
    cudaKernelNodeParams params{};
    for (cudaGraphNode_t node : {strange, later}) {
        CHECK(cudaGraphKernelNodeGetParams(node, &params));
        refuses(cudaGraphExecKernelNodeSetParams(exec, node, &params));
        refuses(cudaGraphNodeSetEnabled(exec, node, 0));
    }
    refuses(cudaGraphExecKernelNodeSetParams(exec, inside, &params));
    refuses(cudaGraphNodeSetEnabled(exec, inside, 0));
    unsigned long long most = 5;
    refuses(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &most));

    CHECK(cudaMemset(device.data(), 0, k_bytes));
    stream.run(exec);
    EXPECT_EQ(device.download()[7], 11);
    CHECK(cudaGraphExecDestroy(exec));
    for (cudaGraph_t one : {child, other_child, graph, other}) CHECK(cudaGraphDestroy(one));
}

int main() {
    within_the_host_off_and_on();
    refused_at_once();
    for (bool captured : {false, true}) of_another_kind(captured);
    after_an_update(true);
    after_an_update(false);
    ping_pong();
    another_child();
    one_child_twice();
    return passed("changes of graphs' copies");
}
