// What CUDA 13.1 to 13.5 have added to the driver's interface: each function that is served, by its effect, and one that is
// refused.
#include <cstring>
#include <string>

#include "driver_calls.h"

__global__ void three_parameters(int* to, int value, double) { *to = value; }

static void parameters() {
    CUfunction function;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(three_parameters)));
    size_t count = 0;
    EXPECT_EQ((find<CUfunction, size_t*>("cuFuncGetParamCount", 13020)(function, &count)), CUDA_SUCCESS);
    EXPECT_EQ(count, 3u);
    cudaKernel_t kernel;
    CHECK(cudaGetKernel(&kernel, reinterpret_cast<const void*>(three_parameters)));
    count = 0;
    const auto of_kernel = find<CUkernel, size_t*>("cuKernelGetParamCount", 13020);
    EXPECT_EQ(of_kernel(reinterpret_cast<CUkernel>(kernel), &count), CUDA_SUCCESS);
    EXPECT_EQ(count, 3u);
    EXPECT_EQ(of_kernel(reinterpret_cast<CUkernel>(kernel), nullptr), CUDA_ERROR_INVALID_VALUE);
}

// Values that enumerations have got.
static void values() {
    DeviceArray<int> data(1);
    int* to = data.data();
    int value = 7;
    double unused = 0;
    void* arguments[] = {&to, &value, &unused};
    // How NVLink is used, which clusters and which configurations of shared memory a launch may have.
    cudaLaunchAttribute attributes[3] = {};
    for (int i = 0; i < 3; ++i) {
        attributes[i].id = static_cast<cudaLaunchAttributeID>(16 + i);
        attributes[i].val.nvlinkUtilCentricScheduling = i == 0 ? 1 : 0;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = dim3(1);
    config.attrs = attributes;
    config.numAttrs = 3;
    CHECK(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(three_parameters), arguments));
    EXPECT_EQ(data.download()[0], 7);
    // Whether the device may change a function's nodes, and the function's mode of shared memory.
    CUfunction function;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(three_parameters)));
    const auto ask = find<int*, CUfunction_attribute, CUfunction>("cuFuncGetAttribute", 2020);
    const auto updates = static_cast<CUfunction_attribute>(16), mode = static_cast<CUfunction_attribute>(17);
    int found = -1;
    EXPECT_EQ(ask(&found, updates, function), CUDA_SUCCESS);
    EXPECT(found == 0 || found == 1);
    EXPECT_EQ((find<CUfunction, CUfunction_attribute, int>("cuFuncSetAttribute", 9000)(function, mode, 1)), CUDA_SUCCESS);
    EXPECT_EQ(ask(&found, mode, function), CUDA_SUCCESS);
    EXPECT_EQ(found, 1);
    // In how many threads code is loaded.
    CUjit_option option = static_cast<CUjit_option>(35);
    void* threads = reinterpret_cast<void*>(2);
    CUmodule module;
    const char* text = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .global .align 4 .u32 word;\n";
    const auto load = find<CUmodule*, const void*, unsigned, CUjit_option*, void**>("cuModuleLoadDataEx", 2010);
    EXPECT_EQ(load(&module, text, 1, &option, &threads), CUDA_SUCCESS);
    EXPECT_EQ((find<CUmodule>("cuModuleUnload", 2000)(module)), CUDA_SUCCESS);
    option = static_cast<CUjit_option>(36);
    EXPECT_EQ(load(&module, text, 1, &option, &threads), CUDA_ERROR_INVALID_VALUE);
}

static void host_functions() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    const auto launch = find<CUstream, CUhostFn, void*, unsigned>("cuLaunchHostFunc", 13010);
    int calls = 0;
    auto count = [](void* calls) { ++*static_cast<int*>(calls); };
    EXPECT_EQ(launch(stream, count, &calls, 0), CUDA_SUCCESS);  // CU_HOST_TASK_BLOCKING
    EXPECT_EQ(launch(stream, count, &calls, 1), CUDA_SUCCESS);  // CU_HOST_TASK_SPINWAIT
    EXPECT_EQ(launch(stream, count, &calls, 2), CUDA_ERROR_INVALID_VALUE);
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(calls, 2);
    CHECK(cudaStreamDestroy(stream));
}

// CUstreamBatchMemOpParams::atomicReduction, which older headers do not have.
static CUstreamBatchMemOpParams reduce(unsigned operation, unsigned type, const void* address, unsigned long long value,
                                       unsigned flags = 0) {
    struct {
        unsigned tag = 8, flags = 0, operation = 0, type = 0;
        unsigned long long address = 0, value = 0, alias = 1;  // the last is the driver's
    } fields;
    fields.flags = flags, fields.operation = operation, fields.type = type;
    fields.address = reinterpret_cast<CUdeviceptr>(address), fields.value = value;
    CUstreamBatchMemOpParams item{};
    std::memcpy(&item, &fields, sizeof fields);
    return item;
}

// Reductions as operations of a stream on memory, and as a graph's.
static void reductions() {
    constexpr unsigned k_add = 0, k_and = 5, k_or = 6, k_word = 2 | 4 | 8, k_long = 2 | 4 | 16;
    int supported = -1;
    const auto ask = find<int*, CUdevice_attribute, CUdevice>("cuDeviceGetAttribute", 2000);
    EXPECT_EQ(ask(&supported, static_cast<CUdevice_attribute>(148), 0), CUDA_SUCCESS);
    EXPECT_EQ(supported, 1);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    const auto batch = find<CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned>("cuStreamBatchMemOp", 11070);
    DeviceArray<unsigned> data(6);
    CHECK(cudaMemset(data.data(), 0xff, 6 * sizeof(unsigned)));
    unsigned* at = data.data();
    CUstreamBatchMemOpParams items[] = {reduce(k_add, k_word, at, 6), reduce(k_and, k_word, at + 1, 0xf0), reduce(k_or, k_word, at, 8),
                                        reduce(k_add, k_long, at + 2, 3), reduce(k_and, k_long, at + 4, 0x100000001ull)};
    EXPECT_EQ(batch(stream, 5, items, 0), CUDA_SUCCESS);
    CHECK(cudaStreamSynchronize(stream));
    const auto sums = data.download();
    EXPECT((sums == std::vector<unsigned>{5 | 8, 0xf0, 2, 0, 1, 1}));
    for (CUstreamBatchMemOpParams wrong : {reduce(7, k_word, at, 1), reduce(k_add, 1, at, 1), reduce(k_add, k_word, at, 1, 1),
                                           reduce(k_add, k_long, at + 1, 1), reduce(k_add, k_word, nullptr, 1)})
        EXPECT_EQ(batch(stream, 1, &wrong, 0), CUDA_ERROR_INVALID_VALUE);
    CUgraph graph;
    CUgraphNode node;
    CUDA_BATCH_MEM_OP_NODE_PARAMS params{};
    EXPECT_EQ((find<CUcontext*>("cuCtxGetCurrent", 4000)(&params.ctx)), CUDA_SUCCESS);
    params.count = 1;
    params.paramArray = items;
    CHECK(cudaGraphCreate(&graph, 0));
    const auto add = find<CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_BATCH_MEM_OP_NODE_PARAMS*>(
        "cuGraphAddBatchMemOpNode", 11070);
    EXPECT_EQ(add(&node, graph, nullptr, 0, &params), CUDA_SUCCESS);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(data.download()[0], 13u + 3 * 6);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

static void resources() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    const auto ask = find<CUstream, CUdevResource*, CUdevResourceType>("cuStreamGetDevResource", 13010);
    CUdevResource resource{};
    EXPECT_EQ(ask(stream, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    EXPECT_EQ(resource.sm.smCount, static_cast<unsigned>(device.multiProcessorCount));
    EXPECT_EQ(ask(stream, &resource, CU_DEV_RESOURCE_TYPE_INVALID), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    CHECK(cudaStreamDestroy(stream));
}

static void copies() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    const auto copy =
        find<CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes*, CUstream>("cuMemcpyWithAttributesAsync", 13020);
    constexpr int k_count = 1000;
    std::vector<int> from(k_count), back(k_count);
    for (int i = 0; i < k_count; ++i) from[i] = 7 * i;
    DeviceArray<int> one(k_count), other(k_count);
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    auto address = [](const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); };
    const size_t bytes = k_count * sizeof(int);
    EXPECT_EQ(copy(address(one.data()), address(from.data()), bytes, &attributes, stream), CUDA_SUCCESS);
    EXPECT_EQ(copy(address(other.data()), address(one.data()), bytes, &attributes, stream), CUDA_SUCCESS);
    EXPECT_EQ(copy(address(back.data()), address(other.data()), bytes, &attributes, stream), CUDA_SUCCESS);
    EXPECT_EQ(copy(address(back.data()), address(other.data()), bytes, nullptr, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(from == back);

    // 10 rows of 20 bytes, 50 bytes apart, to 25 bytes apart.
    const auto shaped = find<CUDA_MEMCPY3D_BATCH_OP*, unsigned long long, CUstream>("cuMemcpy3DWithAttributesAsync", 13020);
    CUDA_MEMCPY3D_BATCH_OP op{};
    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.ptr = address(one.data()), op.src.op.ptr.rowLength = 50;
    op.dst.op.ptr.ptr = address(back.data()), op.dst.op.ptr.rowLength = 25;
    op.extent = {20, 10, 1};
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    std::memset(back.data(), 0xee, bytes);
    EXPECT_EQ(shaped(&op, 0, stream), CUDA_SUCCESS);
    EXPECT_EQ(shaped(&op, 1, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK(cudaStreamSynchronize(stream));
    const char *in = reinterpret_cast<char*>(from.data()), *out = reinterpret_cast<char*>(back.data());
    for (int row = 0; row < 10; ++row) EXPECT(std::memcmp(out + 25 * row, in + 50 * row, 20) == 0);
    EXPECT(out[20] == '\xee' && out[25 * 9 + 20] == '\xee');
    CHECK(cudaStreamDestroy(stream));
}

// Copies whose widths count an array's elements: to it, from it to another one, and back.
static void copies_of_arrays() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    const auto batch =
        find<size_t, CUDA_MEMCPY3D_BATCH_OP*, size_t*, unsigned long long, CUstream>("cuMemcpy3DBatchAsync", 12080);
    const auto single = find<CUDA_MEMCPY3D_BATCH_OP*, unsigned long long, CUstream>("cuMemcpy3DWithAttributesAsync", 13020);
    constexpr int k_width = 40, k_height = 6;
    const auto format = cudaCreateChannelDesc<int2>();
    cudaArray_t one, other, narrow;
    CHECK(cudaMallocArray(&one, &format, k_width, k_height));
    CHECK(cudaMallocArray(&other, &format, k_width, k_height));
    const auto bytes = cudaCreateChannelDesc<char>();
    CHECK(cudaMallocArray(&narrow, &bytes, k_width, k_height));
    std::vector<int2> from(k_width * k_height), back(k_width * k_height, int2{-1, -1});
    for (int i = 0; i < k_width * k_height; ++i) from[i] = {i, 3 * i};
    DeviceArray<int2> device(k_width * k_height);
    const auto array = [](cudaArray_t handle, size_t x, size_t y) {
        CUmemcpy3DOperand operand{};
        operand.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
        operand.op.array.array = reinterpret_cast<CUarray>(handle);
        operand.op.array.offset.x = x, operand.op.array.offset.y = y;
        return operand;
    };
    const auto memory = [](const void* address, size_t row) {
        CUmemcpy3DOperand operand{};
        operand.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
        operand.op.ptr.ptr = reinterpret_cast<CUdeviceptr>(address), operand.op.ptr.rowLength = row;
        return operand;
    };
    const auto make = [](CUmemcpy3DOperand from, CUmemcpy3DOperand to, size_t width, size_t height) {
        CUDA_MEMCPY3D_BATCH_OP op{};
        op.src = from, op.dst = to, op.extent = {width, height, 1};
        op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        return op;
    };
    size_t failed = 0;
    CUDA_MEMCPY3D_BATCH_OP halves[2] = {
        make(memory(from.data(), k_width), array(one, 0, 0), k_width / 2, k_height),
        make(memory(from.data() + k_width / 2, k_width), array(one, k_width / 2, 0), k_width / 2, k_height)};
    EXPECT_EQ(batch(2, halves, &failed, 0, stream), CUDA_SUCCESS);
    EXPECT(failed == SIZE_MAX);
    CUDA_MEMCPY3D_BATCH_OP across = make(array(one, 1, 2), array(other, 3, 0), 10, 4);
    EXPECT_EQ(single(&across, 0, stream), CUDA_SUCCESS);
    CUDA_MEMCPY3D_BATCH_OP to_device = make(array(other, 3, 0), memory(device.data(), k_width), 10, 4);
    EXPECT_EQ(single(&to_device, 0, stream), CUDA_SUCCESS);
    CUDA_MEMCPY3D_BATCH_OP to_host = make(array(other, 3, 0), memory(back.data(), k_width), 10, 4);
    EXPECT_EQ(batch(1, &to_host, nullptr, 0, stream), CUDA_SUCCESS);
    CHECK(cudaStreamSynchronize(stream));
    std::vector<int2> seen = device.download();
    for (int y = 0; y < 4; ++y) {
        for (int x = 0; x < 10; ++x) {
            const int2 wanted = from[(y + 2) * k_width + x + 1], got = back[y * k_width + x], there = seen[y * k_width + x];
            EXPECT(wanted.x == got.x && wanted.y == got.y && wanted.x == there.x && wanted.y == there.y);
        }
        EXPECT_EQ(back[y * k_width + 10].x, -1);
    }
    // Beyond the array's end, and between elements of different sizes.
    CUDA_MEMCPY3D_BATCH_OP wrong[2] = {to_device, make(array(other, 35, 0), memory(device.data(), k_width), 10, 4)};
    EXPECT_EQ(batch(2, wrong, &failed, 0, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(failed == 1);
    CUDA_MEMCPY3D_BATCH_OP mixed = make(array(narrow, 0, 0), array(other, 0, 0), 10, 4);
    EXPECT_EQ(single(&mixed, 0, stream), CUDA_ERROR_INVALID_VALUE);
    for (cudaArray_t made : {one, other, narrow}) CHECK(cudaFreeArray(made));
    CHECK(cudaStreamDestroy(stream));
}

static void graphs() {
    const auto id_of = find<CUgraph, unsigned*>("cuGraphGetId", 13010);
    const auto id_of_node = find<CUgraphNode, unsigned*>("cuGraphNodeGetLocalId", 13010);
    const auto id_for_tools = find<CUgraphNode, unsigned long long*>("cuGraphNodeGetToolsId", 13010);
    const auto graph_of = find<CUgraphNode, CUgraph*>("cuGraphNodeGetContainingGraph", 13010);
    cudaGraph_t explicit_graph, captured;
    CHECK(cudaGraphCreate(&explicit_graph, 0));
    cudaGraphNode_t nodes[2];
    for (cudaGraphNode_t& node : nodes) CHECK(cudaGraphAddEmptyNode(&node, explicit_graph, nullptr, 0));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DeviceArray<int> value(1);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(value.data(), 1, sizeof(int), stream));
    CHECK(cudaStreamEndCapture(stream, &captured));
    cudaGraphNode_t of_capture;
    size_t one = 1;
    CHECK(cudaGraphGetNodes(captured, &of_capture, &one));
    unsigned first = 0, second = 0, executable = 0, local[2] = {7, 7};
    EXPECT_EQ(id_of(explicit_graph, &first), CUDA_SUCCESS);
    EXPECT_EQ(id_of(captured, &second), CUDA_SUCCESS);
    EXPECT(first != second);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(id_of_node(nodes[i], &local[i]), CUDA_SUCCESS);
    EXPECT(local[0] != local[1]);
    unsigned long long tools[2] = {};
    for (int i = 0; i < 2; ++i) EXPECT_EQ(id_for_tools(i == 0 ? nodes[0] : of_capture, &tools[i]), CUDA_SUCCESS);
    EXPECT(tools[0] != tools[1]);
    CUgraph found = nullptr;
    EXPECT_EQ(graph_of(nodes[1], &found), CUDA_SUCCESS);
    EXPECT(found == explicit_graph);
    EXPECT_EQ(graph_of(of_capture, &found), CUDA_SUCCESS);
    EXPECT(found == captured);
    // The forms of 13.4 of what there was.
    const auto add = find<CUgraphNode*, CUgraph, const CUgraphNode*, const CUgraphEdgeData*, size_t, CUgraphNodeParams*>(
        "cuGraphAddNode", 13040);
    const auto change = find<CUgraphNode, CUgraphNodeParams*>("cuGraphNodeSetParams", 13040);
    int counts[2] = {};
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_HOST;
    params.host.fn = [](void* count) { ++*static_cast<int*>(count); };
    params.host.userData = &counts[0];
    CUgraphNode added = nullptr;
    EXPECT_EQ(add(&added, captured, nullptr, nullptr, 0, &params), CUDA_SUCCESS);
    params.host.userData = &counts[1];
    EXPECT_EQ(change(added, &params), CUDA_SUCCESS);
    params.type = static_cast<CUgraphNodeType>(14);  // a batch of copies
    EXPECT(add(&added, captured, nullptr, nullptr, 0, &params) != CUDA_SUCCESS);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, captured, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(counts[0], 0);
    EXPECT_EQ(counts[1], 1);
    EXPECT_EQ((find<CUgraphExec, unsigned*>("cuGraphExecGetId", 13010)(exec, &executable)), CUDA_SUCCESS);
    EXPECT(executable != first);
    // The numbers are those of the printed graph.
    char path[] = "/tmp/newer_calls_XXXXXX";
    EXPECT(mkstemp(path) >= 0);
    CHECK(cudaGraphDebugDotPrint(explicit_graph, path, 0));
    std::FILE* file = std::fopen(path, "r");
    EXPECT(file != nullptr);
    std::string text(1 << 16, '\0');
    text.resize(std::fread(&text[0], 1, text.size(), file));
    std::fclose(file);
    std::remove(path);
    EXPECT(text.find("graph_" + std::to_string(first)) != std::string::npos);
    EXPECT(text.find("_node_" + std::to_string(local[1])) != std::string::npos);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(captured));
    CHECK(cudaGraphDestroy(explicit_graph));
    CHECK(cudaStreamDestroy(stream));
}

// What a node was made of, whatever its type.
static void parameters_of_nodes() {
    const auto ask = find<CUgraphNode, CUgraphNodeParams*>("cuGraphNodeGetParams", 13020);
    const auto params_of = [ask](cudaGraphNode_t node, CUgraphNodeType type) {
        CUgraphNodeParams params;
        std::memset(&params, 0xee, sizeof params);
        EXPECT_EQ(ask(node, &params), CUDA_SUCCESS);
        EXPECT_EQ(params.type, type);
        return params;
    };
    DeviceArray<int> data(100), other(100);
    cudaGraph_t graph, inner, child;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&inner, 0));
    cudaGraphNode_t node;
    int value = 17;
    double last = 0;
    int* to = data.data();
    void* args[] = {&to, &value, &last};
    cudaKernelNodeParams kernel{};
    kernel.func = reinterpret_cast<void*>(three_parameters);
    kernel.gridDim = dim3(2, 3), kernel.blockDim = dim3(4), kernel.kernelParams = args;
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
    CUgraphNodeParams params = params_of(node, CU_GRAPH_NODE_TYPE_KERNEL);
    EXPECT(params.kernel.gridDimX == 2 && params.kernel.gridDimY == 3 && params.kernel.blockDimX == 4);
    EXPECT_EQ(*static_cast<int*>(params.kernel.kernelParams[1]), 17);
    CHECK(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, other.data(), data.data(), 40, cudaMemcpyDeviceToDevice));
    params = params_of(node, CU_GRAPH_NODE_TYPE_MEMCPY);
    EXPECT_EQ(params.memcpy.copyParams.WidthInBytes, 40u);
    EXPECT(params.memcpy.copyParams.dstDevice == reinterpret_cast<CUdeviceptr>(other.data()));
    cudaMemsetParams fill{};
    fill.dst = data.data(), fill.elementSize = 4, fill.value = 9, fill.width = 7, fill.height = 1;
    CHECK(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &fill));
    params = params_of(node, CU_GRAPH_NODE_TYPE_MEMSET);
    EXPECT(params.memset.dst == reinterpret_cast<CUdeviceptr>(data.data()) && params.memset.value == 9);
    EXPECT(params.memset.width == 7 && params.memset.elementSize == 4);
    // As they are told they are taken again.
    params.memset.value = 10;
    EXPECT_EQ((find<CUgraphNode, CUgraphNodeParams*>("cuGraphNodeSetParams", 13020)(node, &params)), CUDA_SUCCESS);
    EXPECT_EQ(params_of(node, CU_GRAPH_NODE_TYPE_MEMSET).memset.value, 10u);
    cudaHostNodeParams host{[](void*) {}, &value};
    CHECK(cudaGraphAddHostNode(&node, graph, nullptr, 0, &host));
    params = params_of(node, CU_GRAPH_NODE_TYPE_HOST);
    EXPECT(params.host.fn == host.fn && params.host.userData == &value);
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    CHECK(cudaGraphAddEventRecordNode(&node, graph, nullptr, 0, event));
    EXPECT(params_of(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD).eventRecord.event == event);
    CHECK(cudaGraphAddEventWaitNode(&node, graph, nullptr, 0, event));
    EXPECT(params_of(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT).eventWait.event == event);
    CHECK(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
    params_of(node, CU_GRAPH_NODE_TYPE_EMPTY);
    CHECK(cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, inner));
    child = params_of(node, CU_GRAPH_NODE_TYPE_GRAPH).graph.graph;
    size_t count = 99;
    CHECK(cudaGraphGetNodes(child, nullptr, &count));
    EXPECT_EQ(count, 0u);
    cudaMemAllocNodeParams allocation{};
    allocation.poolProps.allocType = cudaMemAllocationTypePinned;
    allocation.poolProps.location = {cudaMemLocationTypeDevice, 0};
    allocation.bytesize = 1000;
    CHECK(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocation));
    params = params_of(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    EXPECT_EQ(params.alloc.bytesize, 1000u);
    EXPECT(params.alloc.dptr == reinterpret_cast<CUdeviceptr>(allocation.dptr));
    cudaGraphNode_t freed;
    CHECK(cudaGraphAddMemFreeNode(&freed, graph, &node, 1, allocation.dptr));
    EXPECT(params_of(freed, CU_GRAPH_NODE_TYPE_MEM_FREE).free.dptr == params.alloc.dptr);
    EXPECT_EQ(ask(node, nullptr), CUDA_ERROR_INVALID_VALUE);
    CHECK(cudaEventDestroy(event));
    CHECK(cudaGraphDestroy(inner));
    CHECK(cudaGraphDestroy(graph));
}

int main() {
    int driver = 0;
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaFree(nullptr));
    if (driver < 13020) return passed("newer calls: the driver has none of them, nothing");
    parameters();
    if (driver >= 13050) values();
    host_functions();
    reductions();
    resources();
    copies();
    copies_of_arrays();
    graphs();
    parameters_of_nodes();
    return passed("newer calls");
}
