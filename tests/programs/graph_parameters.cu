// Parameters of a graph's nodes: asked for, changed, asked for again, and seen in what launches do; of the graph, whose
// executable graphs come afterwards, and of an executable graph alone.
#include <cstring>

#include "driver_calls.h"

__global__ void store(int* to, int value) { to[blockIdx.x * blockDim.x + threadIdx.x] = value; }

static constexpr int k_count = 64;

struct Graph {
    Graph() {
        DRIVER(cuGraphCreate(&graph, 0));
        DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        DRIVER(cuCtxGetCurrent(&context));
    }
    ~Graph() {
        if (exec != nullptr) DRIVER(cuGraphExecDestroy(exec));
        DRIVER(cuStreamDestroy(stream));
        DRIVER(cuGraphDestroy(graph));
    }
    /// What the graph is now, executable.
    CUgraphExec instantiate() {
        if (exec != nullptr) DRIVER(cuGraphExecDestroy(exec));
        DRIVER(cuGraphInstantiate(&exec, graph, 0));
        return exec;
    }
    void run() const {
        DRIVER(cuGraphLaunch(exec, stream));
        DRIVER(cuStreamSynchronize(stream));
    }
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CUstream stream = nullptr;
    CUcontext context = nullptr;
};

static CUdeviceptr address_of(DeviceArray<int>& data, int first = 0) {
    return reinterpret_cast<CUdeviceptr>(data.data() + first);
}

static void expect_values(DeviceArray<int>& data, int first, int count, int value) {
    const std::vector<int> found = data.download();
    for (int i = 0; i < k_count; ++i) EXPECT_EQ(found[i], i >= first && i < first + count ? value : 0);
    data.upload(std::vector<int>(k_count, 0));
}

/// `store` of a number of threads.
struct Store {
    Store(DeviceArray<int>& data, int first, int count, int stored) : to(data.data() + first), value(stored) {
        CHECK(cudaGetFuncBySymbol(&params.func, reinterpret_cast<const void*>(store)));
        params.gridDimX = 1, params.blockDimX = count;
        params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
        params.kernelParams = arguments;
    }
    Store(const Store&) = delete;
    int* to;
    int value;
    void* arguments[2] = {&to, &value};
    CUDA_KERNEL_NODE_PARAMS params{};
};

static void kernels() {
    DeviceArray<int> data(std::vector<int>(k_count, 0));
    Graph g;
    Store first(data, 3, 10, 7), second(data, 20, 30, 8), third(data, 1, 2, 9);
    CUgraphNode node;
    DRIVER(cuGraphAddKernelNode(&node, g.graph, nullptr, 0, &first.params));
    g.instantiate();
    g.run();
    expect_values(data, 3, 10, 7);
    CUDA_KERNEL_NODE_PARAMS found{};
    DRIVER(cuGraphKernelNodeSetParams(node, &second.params));
    DRIVER(cuGraphKernelNodeGetParams(node, &found));
    EXPECT(found.blockDimX == 30 && found.gridDimX == 1 && *static_cast<int*>(found.kernelParams[1]) == 8);
    EXPECT(*static_cast<int**>(found.kernelParams[0]) == second.to);
    g.run();  // what has been made of it stays as it was
    expect_values(data, 3, 10, 7);
    g.instantiate();
    g.run();
    expect_values(data, 20, 30, 8);
    // The forms of before CUDA 12 know functions alone.
    const CUDA_KERNEL_NODE_PARAMS_v1 narrow{third.params.func, 1, 1, 1, 2, 1, 1, 0, third.arguments, nullptr};
    CUDA_KERNEL_NODE_PARAMS_v1 found_narrow{};
    DRIVER((find<CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1*>("cuGraphKernelNodeSetParams", 10000)(node, &narrow)));
    DRIVER((find<CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1*>("cuGraphKernelNodeGetParams", 10000)(node, &found_narrow)));
    EXPECT(found_narrow.func == third.params.func && found_narrow.blockDimX == 2);
    EXPECT_EQ(*static_cast<int*>(found_narrow.kernelParams[1]), 9);
    g.instantiate();
    g.run();
    expect_values(data, 1, 2, 9);
}

static int priority_of(CUgraphNode node) {
    CUkernelNodeAttrValue value{};
    DRIVER(cuGraphKernelNodeGetAttribute(node, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &value));
    return value.priority;
}
static int is_cooperative(CUgraphNode node) {
    CUkernelNodeAttrValue value{};
    DRIVER(cuGraphKernelNodeGetAttribute(node, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &value));
    return value.cooperative;
}

// What is copied from another node takes the place of all that the node had.
static void attributes_of_kernels() {
    DeviceArray<int> data(std::vector<int>(k_count, 0));
    Graph g;
    Store first(data, 0, 4, 1), second(data, 4, 4, 1);
    CUgraphNode plain, other;
    DRIVER(cuGraphAddKernelNode(&plain, g.graph, nullptr, 0, &first.params));
    DRIVER(cuGraphAddKernelNode(&other, g.graph, nullptr, 0, &second.params));
    int least = 0, greatest = 0;
    DRIVER(cuCtxGetStreamPriorityRange(&least, &greatest));
    EXPECT(greatest < least);
    const int before = priority_of(plain);
    CUkernelNodeAttrValue value{};
    value.priority = greatest;
    DRIVER(cuGraphKernelNodeSetAttribute(other, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &value));
    value = {};
    value.cooperative = 1;
    DRIVER(cuGraphKernelNodeSetAttribute(other, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &value));
    EXPECT(priority_of(other) == greatest && is_cooperative(other) == 1);
    EXPECT(priority_of(plain) == before && is_cooperative(plain) == 0);
    CUgraphNode third;
    DRIVER(cuGraphAddKernelNode(&third, g.graph, nullptr, 0, &first.params));
    DRIVER(cuGraphKernelNodeCopyAttributes(third, other));
    EXPECT(priority_of(third) == greatest && is_cooperative(third) == 1);
    DRIVER(cuGraphKernelNodeCopyAttributes(other, plain));
    EXPECT(priority_of(other) == before && is_cooperative(other) == 0);
    g.instantiate();
    g.run();
    expect_values(data, 0, 8, 1);
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr from, CUdeviceptr to, int count) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from, copy.dstDevice = to;
    copy.WidthInBytes = count * sizeof(int), copy.Height = copy.Depth = 1;
    return copy;
}

static void copies() {
    DeviceArray<int> from(std::vector<int>(k_count, 5)), to(std::vector<int>(k_count, 0));
    Graph g;
    CUDA_MEMCPY3D copy = copy_of(address_of(from), address_of(to, 2), 10), found{};
    CUgraphNode node;
    DRIVER(cuGraphAddMemcpyNode(&node, g.graph, nullptr, 0, &copy, g.context));
    DRIVER(cuGraphMemcpyNodeGetParams(node, &found));
    EXPECT(found.srcDevice == copy.srcDevice && found.dstDevice == copy.dstDevice && found.WidthInBytes == copy.WidthInBytes);
    g.instantiate();
    g.run();
    expect_values(to, 2, 10, 5);
    copy = copy_of(address_of(from), address_of(to, 30), 20);
    DRIVER(cuGraphMemcpyNodeSetParams(node, &copy));
    DRIVER(cuGraphMemcpyNodeGetParams(node, &found));
    EXPECT(found.dstDevice == copy.dstDevice && found.WidthInBytes == copy.WidthInBytes);
    g.run();
    expect_values(to, 2, 10, 5);
    g.instantiate();
    g.run();
    expect_values(to, 30, 20, 5);
    copy = copy_of(address_of(from), address_of(to, 40), 4);
    DRIVER(cuGraphExecMemcpyNodeSetParams(g.exec, node, &copy, g.context));
    g.run();
    expect_values(to, 40, 4, 5);
    DRIVER(cuGraphMemcpyNodeGetParams(node, &found));
    EXPECT_EQ(found.WidthInBytes, 20 * sizeof(int));  // the graph's node stays
}

static CUDA_MEMSET_NODE_PARAMS fill_of(CUdeviceptr to, int count, unsigned value) {
    CUDA_MEMSET_NODE_PARAMS fill{};
    fill.dst = to, fill.value = value, fill.elementSize = 4;
    fill.width = count, fill.height = 1;
    return fill;
}

static void fills() {
    DeviceArray<int> to(std::vector<int>(k_count, 0));
    Graph g;
    CUDA_MEMSET_NODE_PARAMS fill = fill_of(address_of(to), 10, 3), found{};
    CUgraphNode node;
    DRIVER(cuGraphAddMemsetNode(&node, g.graph, nullptr, 0, &fill, g.context));
    fill = fill_of(address_of(to, 6), 40, 4);
    DRIVER(cuGraphMemsetNodeSetParams(node, &fill));
    DRIVER(cuGraphMemsetNodeGetParams(node, &found));
    EXPECT(found.dst == fill.dst && found.value == 4 && found.width == 40 && found.height == 1 && found.elementSize == 4);
    g.instantiate();
    g.run();
    expect_values(to, 6, 40, 4);
    fill = fill_of(address_of(to, 1), 3, 12);
    DRIVER(cuGraphExecMemsetNodeSetParams(g.exec, node, &fill, g.context));
    g.run();
    expect_values(to, 1, 3, 12);
    DRIVER(cuGraphMemsetNodeGetParams(node, &found));
    EXPECT_EQ(found.value, 4u);
}

static void host_functions() {
    int calls[3] = {};
    const auto count = [](void* calls) { ++*static_cast<int*>(calls); };
    Graph g;
    CUDA_HOST_NODE_PARAMS host{count, &calls[0]}, found{};
    CUgraphNode node;
    DRIVER(cuGraphAddHostNode(&node, g.graph, nullptr, 0, &host));
    host.userData = &calls[1];
    DRIVER(cuGraphHostNodeSetParams(node, &host));
    DRIVER(cuGraphHostNodeGetParams(node, &found));
    EXPECT(found.fn == host.fn && found.userData == &calls[1]);
    g.instantiate();
    g.run();
    EXPECT(calls[0] == 0 && calls[1] == 1 && calls[2] == 0);
    host.userData = &calls[2];
    DRIVER(cuGraphExecHostNodeSetParams(g.exec, node, &host));
    g.run();
    EXPECT(calls[0] == 0 && calls[1] == 1 && calls[2] == 1);
}

static CUevent new_event() {
    CUevent event;
    DRIVER(cuEventCreate(&event, CU_EVENT_DEFAULT));
    return event;
}

/// Of an event that nobody has recorded there is no time.
static bool is_recorded(CUevent event) {
    float milliseconds = 0;
    const CUresult result = cuEventElapsedTime(&milliseconds, event, event);
    EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_HANDLE);
    return result == CUDA_SUCCESS;
}

static void records_of_events() {
    Graph g;
    CUevent events[] = {new_event(), new_event(), new_event()}, found = nullptr;
    CUgraphNode node;
    DRIVER(cuGraphAddEventRecordNode(&node, g.graph, nullptr, 0, events[0]));
    DRIVER(cuGraphEventRecordNodeSetEvent(node, events[1]));
    DRIVER(cuGraphEventRecordNodeGetEvent(node, &found));
    EXPECT(found == events[1]);
    g.instantiate();
    g.run();
    EXPECT(!is_recorded(events[0]) && is_recorded(events[1]) && !is_recorded(events[2]));
    DRIVER(cuGraphExecEventRecordNodeSetEvent(g.exec, node, events[2]));
    g.run();
    EXPECT(!is_recorded(events[0]) && is_recorded(events[2]));
    DRIVER(cuGraphEventRecordNodeGetEvent(node, &found));
    EXPECT(found == events[1]);
    for (CUevent event : events) DRIVER(cuEventDestroy(event));
}

/// A copy behind a wait for an event that is recorded when a word of memory says so: what it copies is there by then.
static void waits_for_events(bool executable) {
    DeviceArray<int> data(std::vector<int>(k_count, 0)), gate(std::vector<int>{0});
    Graph g;
    CUevent never = new_event(), last = new_event(), found = nullptr;
    CUgraphNode wait, copy;
    DRIVER(cuGraphAddEventWaitNode(&wait, g.graph, nullptr, 0, never));
    const CUDA_MEMCPY3D params = copy_of(address_of(data), address_of(data, 1), 1);
    DRIVER(cuGraphAddMemcpyNode(&copy, g.graph, &wait, 1, &params, g.context));
    if (!executable) DRIVER(cuGraphEventWaitNodeSetEvent(wait, last));
    DRIVER(cuGraphEventWaitNodeGetEvent(wait, &found));
    EXPECT(found == (executable ? never : last));
    g.instantiate();
    if (executable) DRIVER(cuGraphExecEventWaitNodeSetEvent(g.exec, wait, last));
    CUstream held, opener;
    DRIVER(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
    DRIVER(cuStreamCreate(&opener, CU_STREAM_NON_BLOCKING));
    DRIVER(cuStreamWaitValue32(held, address_of(gate), 1, CU_STREAM_WAIT_VALUE_EQ));
    DRIVER(cuMemsetD32Async(address_of(data), 21, 1, held));
    DRIVER(cuEventRecord(last, held));
    DRIVER(cuGraphLaunch(g.exec, g.stream));
    // Others run meanwhile, so that a launch that did not wait would have been over.
    Graph other;
    const CUDA_MEMSET_NODE_PARAMS fill = fill_of(address_of(data, 5), 1, 2);
    CUgraphNode filled;
    DRIVER(cuGraphAddMemsetNode(&filled, other.graph, nullptr, 0, &fill, other.context));
    other.instantiate();
    for (int i = 0; i < 5; ++i) other.run();
    REFUSED(cuStreamQuery(g.stream), CUDA_ERROR_NOT_READY);
    DRIVER(cuStreamWriteValue32(opener, address_of(gate), 1, 0));
    DRIVER(cuStreamSynchronize(g.stream));
    EXPECT_EQ(data.download()[1], 21);
    for (CUstream stream : {held, opener}) DRIVER(cuStreamDestroy(stream));
    for (CUevent event : {never, last}) DRIVER(cuEventDestroy(event));
}

// The graph's node and the executable graph's are told apart, and what is of another kind is refused.
static void kinds() {
    DeviceArray<int> data(std::vector<int>(k_count, 0));
    Graph g;
    CUgraphNode node;
    const CUDA_MEMSET_NODE_PARAMS fill = fill_of(address_of(data), 1, 2);
    DRIVER(cuGraphAddMemsetNode(&node, g.graph, nullptr, 0, &fill, g.context));
    CUDA_MEMCPY3D copy{};
    CUDA_HOST_NODE_PARAMS host{};
    CUevent event = nullptr;
    REFUSED(cuGraphMemcpyNodeGetParams(node, &copy), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuGraphHostNodeGetParams(node, &host), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuGraphEventWaitNodeGetEvent(node, &event), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuGraphEventRecordNodeGetEvent(node, &event), CUDA_ERROR_INVALID_VALUE);
    g.instantiate();
    g.run();
    expect_values(data, 0, 1, 2);
}

int main() {
    CHECK(cudaFree(nullptr));
    kernels();
    attributes_of_kernels();
    copies();
    fills();
    host_functions();
    records_of_events();
    for (bool executable : {false, true}) waits_for_events(executable);
    kinds();
    return passed("parameters of nodes");
}
