// Green contexts as a thread's current context, groups of multiprocessors of unequal sizes, and work queues (A2).
#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "driver_calls.h"
#include "shared_memory.h"

constexpr auto k_stream_detached = static_cast<CUresult>(917);

__global__ void where(unsigned* multiprocessors) {
    unsigned own;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(own));
    if (threadIdx.x == 0) multiprocessors[blockIdx.x] = own;
}

// What cuda.h of 13.1 has.
struct Group {
    unsigned count, together, preferred, flags, reserved[12];
};
struct WorkqueueConfig {
    CUdevice device;
    unsigned limit, scope;
};
constexpr auto k_workqueue_config = static_cast<CUdevResourceType>(1000);
constexpr auto k_workqueue = static_cast<CUdevResourceType>(10000);

constexpr int k_count = 1000;

struct Parts {
    CUdevice device = 0;
    CUcontext primary = nullptr;
    CUdevResource all{}, parts[2]{};
};

static CUgreenCtx make_green(CUdevResource* parts, unsigned count, CUdevice device) {
    CUdevResourceDesc description;
    CUgreenCtx green;
    DRIVER(cuDevResourceGenerateDesc(&description, parts, count));
    DRIVER(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    return green;
}

static std::set<unsigned> multiprocessors_of(CUstream stream) {
    constexpr unsigned k_blocks = 500;
    DeviceArray<unsigned> seen(k_blocks);
    where<<<k_blocks, 64, 0, stream>>>(seen.data());
    CHECK(cudaStreamSynchronize(stream));
    const std::vector<unsigned> numbers = seen.download();
    return {numbers.begin(), numbers.end()};
}

static CUcontext current() {
    CUcontext context = nullptr;
    DRIVER(cuCtxGetCurrent(&context));
    return context;
}

static void open_gate(int* gate) {
    const int open = 1;
    CUstream opener;
    DRIVER(cuStreamCreate(&opener, CU_STREAM_NON_BLOCKING));
    DRIVER(cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(gate), &open, sizeof open, opener));
    DRIVER(cuStreamSynchronize(opener));
    DRIVER(cuStreamDestroy(opener));
}

// What a thread is told of the context that is current.
static void telling(const Parts& p) {
    const CUgreenCtx green = make_green(const_cast<CUdevResource*>(&p.parts[0]), 1, p.device);
    CUcontext converted = nullptr, again = nullptr, popped = nullptr;
    DRIVER(cuCtxFromGreenCtx(&converted, green));
    DRIVER(cuCtxFromGreenCtx(&again, green));
    EXPECT(converted == again && converted != p.primary);
    EXPECT(converted == reinterpret_cast<CUcontext>(green));  // one handle for both
    REFUSED(cuCtxFromGreenCtx(&again, reinterpret_cast<CUgreenCtx>(p.primary)), CUDA_ERROR_INVALID_CONTEXT);
    unsigned long long green_id = 0, id = 0, primary_id = 0;
    EXPECT(cuGreenCtxGetId(nullptr, &id) != CUDA_SUCCESS);
    DRIVER(cuGreenCtxGetId(green, &green_id));
    DRIVER(cuCtxGetId(p.primary, &primary_id));

    DRIVER(cuCtxPushCurrent(reinterpret_cast<CUcontext>(green)));
    EXPECT(current() == converted);
    DRIVER(cuGreenCtxGetId(nullptr, &id));
    EXPECT_EQ(id, green_id);
    DRIVER(cuCtxGetId(nullptr, &id));
    EXPECT(id != primary_id);
    CUdevice device = -1;
    DRIVER(cuCtxGetDevice(&device));
    EXPECT_EQ(device, p.device);
    CUdevResource own;
    DRIVER(cuCtxGetDevResource(converted, &own, CU_DEV_RESOURCE_TYPE_SM));
    EXPECT_EQ(own.sm.smCount, p.parts[0].sm.smCount);
    CUgreenCtx told = nullptr;
    DRIVER(cuStreamGetGreenCtx(nullptr, &told));
    EXPECT(told == green);
    CUcontext context = nullptr;
    DRIVER(cuStreamGetCtx(nullptr, &context));
    EXPECT(context == converted);
    DRIVER(cuStreamGetCtx_v2(nullptr, &context, &told));
    EXPECT(context == p.primary && told == green);
    REFUSED(cuStreamGetCtx_v2(CU_STREAM_PER_THREAD, &context, &told), CUDA_ERROR_INVALID_HANDLE);

    // Streams that are made now are the green context's.
    CUstream stream, given;
    DRIVER(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    DRIVER(cuGreenCtxStreamCreate(&given, green, CU_STREAM_NON_BLOCKING, 0));
    for (CUstream one : {stream, given}) {
        told = nullptr;
        DRIVER(cuStreamGetGreenCtx(one, &told));
        DRIVER(cuStreamGetCtx(one, &context));
        EXPECT(told == green && context == converted);
    }
    DRIVER(cuCtxPopCurrent(&popped));
    EXPECT(popped == converted && current() == p.primary);
    DRIVER(cuStreamGetGreenCtx(nullptr, &told));
    EXPECT(told == nullptr);
    DRIVER(cuStreamGetGreenCtx(stream, &told));
    EXPECT(told == green);
    DRIVER(cuStreamDestroy(stream));
    DRIVER(cuStreamDestroy(given));
    DRIVER(cuGreenCtxDestroy(green));
}

// Whatever is started while one is current runs on its multiprocessors, in order.
static void working(const Parts& p) {
    const CUgreenCtx greens[2] = {make_green(const_cast<CUdevResource*>(&p.parts[0]), 1, p.device),
                                  make_green(const_cast<CUdevResource*>(&p.parts[1]), 1, p.device)};
    CUcontext contexts[2];
    std::set<unsigned> seen[2];
    DeviceArray<int> data(k_count);
    CHECK(cudaMemset(data.data(), 0, k_count * sizeof(int)));
    for (int i = 0; i < 2; ++i) {
        DRIVER(cuCtxFromGreenCtx(&contexts[i], greens[i]));
        DRIVER(cuCtxSetCurrent(contexts[i]));
        seen[i] = multiprocessors_of(nullptr);
        CUstream streams[2];
        DRIVER(cuStreamCreate(&streams[0], CU_STREAM_DEFAULT));
        DRIVER(cuStreamCreateWithPriority(&streams[1], CU_STREAM_NON_BLOCKING, -1));
        for (CUstream stream : streams) {
            for (unsigned number : multiprocessors_of(stream)) seen[i].insert(number);
        }
        EXPECT(seen[i].size() <= p.parts[i].sm.smCount);
        for (CUstream stream : streams) DRIVER(cuStreamDestroy(stream));
        // A grid whose blocks wait for each other has to fit.
        int per_multiprocessor = 0, n = 0, what = 0, *nothing = nullptr;
        CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, add, 64, 0));
        void* args[] = {&nothing, &n, &what};
        const unsigned fits = per_multiprocessor * p.parts[i].sm.smCount;
        const auto kernel = reinterpret_cast<const void*>(add);
        CHECK(cudaLaunchCooperativeKernel(kernel, dim3(fits), dim3(64), args, 0, nullptr));
        EXPECT(cudaLaunchCooperativeKernel(kernel, dim3(fits + 1), dim3(64), args, 0, nullptr) ==
               cudaErrorCooperativeLaunchTooLarge);
        EXPECT(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);

        // Memory is the primary context's; copies and fills are in order with kernels of the same default stream.
        int values[k_count];
        CUdeviceptr own = 0, pooled = 0;
        DRIVER(cuMemAlloc(&own, sizeof values));
        DRIVER(cuMemAllocAsync(&pooled, sizeof values, nullptr));
        DRIVER(cuMemsetD32(own, 5, k_count));
        add<<<4, 64>>>(reinterpret_cast<int*>(own), k_count, 2);
        DRIVER(cuMemcpyDtoDAsync(pooled, own, sizeof values, nullptr));
        add<<<4, 64>>>(reinterpret_cast<int*>(pooled), k_count, 10);
        DRIVER(cuMemcpyDtoH(values, pooled, sizeof values));
        for (int value : values) EXPECT_EQ(value, 17);
        add<<<4, 64>>>(data.data(), k_count, 1);
        DRIVER(cuMemFreeAsync(pooled, nullptr));
        DRIVER(cuCtxSynchronize());
        DRIVER(cuMemFree(own));
    }
    for (unsigned number : seen[0]) EXPECT(seen[1].count(number) == 0);
    DRIVER(cuCtxSetCurrent(p.primary));
    EXPECT_EQ(data.download()[k_count - 1], 2);

    // Nodes of graphs run where they are told to.
    DeviceArray<unsigned> numbers(500);
    unsigned* to = numbers.data();
    void* args[] = {&to};
    cudaKernel_t kernel;
    CHECK(cudaGetKernel(&kernel, reinterpret_cast<const void*>(where)));
    CUDA_KERNEL_NODE_PARAMS node{};
    node.kern = reinterpret_cast<CUkernel>(kernel);
    node.gridDimX = 500;
    node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
    node.blockDimX = 64;
    node.kernelParams = args;
    node.ctx = contexts[1];
    CUgraph graph;
    CUgraphNode made;
    CUgraphExec exec;
    DRIVER(cuGraphCreate(&graph, 0));
    DRIVER(cuGraphAddKernelNode(&made, graph, nullptr, 0, &node));
    DRIVER(cuGraphInstantiate(&exec, graph, 0));
    DRIVER(cuGraphLaunch(exec, nullptr));
    DRIVER(cuCtxSynchronize());
    for (unsigned number : numbers.download()) EXPECT(seen[0].count(number) == 0);
    DRIVER(cuGraphExecDestroy(exec));
    DRIVER(cuGraphDestroy(graph));
    for (CUgreenCtx green : greens) DRIVER(cuGreenCtxDestroy(green));
}

// A green context with a stream that waits for its default stream, and one that does not; the green context is current.
struct Green {
    CUgreenCtx green;
    CUcontext converted;
    CUstream waiting, free_stream;
    DeviceArray<int> data{k_count}, gate{1};

    explicit Green(const Parts& p) : green(make_green(const_cast<CUdevResource*>(&p.parts[0]), 1, p.device)) {
        CHECK(cudaMemset(data.data(), 0, k_count * sizeof(int)));
        close_gate();
        DRIVER(cuCtxFromGreenCtx(&converted, green));
        DRIVER(cuCtxSetCurrent(converted));
        DRIVER(cuStreamCreate(&waiting, CU_STREAM_DEFAULT));
        DRIVER(cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
    }
    ~Green() {
        DRIVER(cuStreamDestroy(waiting));
        DRIVER(cuStreamDestroy(free_stream));
        DRIVER(cuGreenCtxDestroy(green));
    }
    // When it returns the gate is closed: what opens it comes in a stream that does not wait for this one.
    void close_gate() {
        CHECK(cudaMemset(gate.data(), 0, sizeof(int)));
        CHECK(cudaDeviceSynchronize());
    }
};

// Its default stream is another one than the primary context's, and neither waits for the other.
static void held_up(const Parts& p, Green& g) {
    CUevent behind, of_green;
    DRIVER(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
    DRIVER(cuEventCreate(&of_green, CU_EVENT_DISABLE_TIMING));

    // The green context is held up: the primary one's streams go on, and its events and waits for all come behind both.
    hold<<<1, 1>>>(g.gate.data());
    add<<<4, 64, 0, g.waiting>>>(g.data.data(), k_count, 1);  // behind its context's default stream
    DRIVER(cuEventRecord(behind, nullptr));
    DRIVER(cuCtxRecordEvent(g.converted, of_green));
    REFUSED(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
    REFUSED(cuStreamQuery(g.waiting), CUDA_ERROR_NOT_READY);
    DRIVER(cuStreamSynchronize(g.free_stream));
    DRIVER(cuCtxSetCurrent(p.primary));
    DeviceArray<int> other(k_count);
    add<<<4, 64>>>(other.data(), k_count, 0);
    CHECK(cudaMemcpy(other.data(), std::vector<int>(k_count, 6).data(), k_count * sizeof(int), cudaMemcpyHostToDevice));
    EXPECT_EQ(other.download()[7], 6);
    DRIVER(cuStreamSynchronize(nullptr));
    REFUSED(cuStreamQuery(g.waiting), CUDA_ERROR_NOT_READY);
    REFUSED(cuEventQuery(behind), CUDA_ERROR_NOT_READY);
    REFUSED(cuEventQuery(of_green), CUDA_ERROR_NOT_READY);
    open_gate(g.gate.data());
    DRIVER(cuCtxSynchronize());  // and the green contexts'
    DRIVER(cuEventQuery(behind));
    DRIVER(cuEventQuery(of_green));
    EXPECT_EQ(g.data.download()[0], 1);
    DRIVER(cuEventDestroy(behind));
    DRIVER(cuEventDestroy(of_green));

    // The primary context is held up: the green one's waits for all of its own end.
    g.close_gate();
    hold<<<1, 1>>>(g.gate.data());
    DRIVER(cuCtxSetCurrent(g.converted));
    add<<<4, 64>>>(g.data.data(), k_count, 3);
    DRIVER(cuCtxSynchronize());
    add<<<4, 64>>>(g.data.data(), k_count, 3);
    int values[k_count];
    DRIVER(cuMemcpyDtoH(values, reinterpret_cast<CUdeviceptr>(g.data.data()), sizeof values));
    EXPECT_EQ(values[k_count - 1], 7);
    open_gate(g.gate.data());
    DRIVER(cuCtxSynchronize_v2(p.primary));
}

static void freeing(Green& g) {
    int values[k_count];
    // What is freed while it is current may still be in use in any of the device's streams.
    CUdeviceptr freed, next;
    DRIVER(cuMemAlloc(&freed, 4 << 20));
    add<<<4, 64, 0, g.waiting>>>(reinterpret_cast<int*>(freed), k_count, 1);
    add<<<4, 64, 0, nullptr>>>(reinterpret_cast<int*>(freed), k_count, 1);
    DRIVER(cuMemFree(freed));
    DRIVER(cuMemAlloc(&next, 4 << 20));
    DRIVER(cuMemsetD32(next, 0, k_count));
    DRIVER(cuMemcpyDtoH(values, next, sizeof values));
    EXPECT_EQ(values[0], 0);
    DRIVER(cuMemFree(next));
    DRIVER(cuCtxSynchronize_v2(g.converted));
}

static void threads(Green& g) {
    int values[k_count];
    // All threads that have it current share its default stream; each has a per-thread one.
    g.close_gate();
    hold<<<1, 1>>>(g.gate.data());
    std::thread([&] {
        DRIVER(cuCtxSetCurrent(g.converted));
        REFUSED(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
        add<<<4, 64>>>(g.data.data(), k_count, 100);
        open_gate(g.gate.data());
        DRIVER(cuStreamSynchronize(nullptr));
        add<<<4, 64, 0, CU_STREAM_PER_THREAD>>>(g.data.data(), k_count, 1000);
        DRIVER(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }).join();
    DRIVER(cuMemcpyDtoH(values, reinterpret_cast<CUdeviceptr>(g.data.data()), sizeof values));
    EXPECT_EQ(values[1], 1107);
}

static void capturing(const Parts& p, Green& g) {
    DeviceArray<int> other(k_count);
    // A blocking stream of the green context cannot be captured while its default stream is used, others can.
    CUgraph graph;
    DRIVER(cuStreamBeginCapture(g.waiting, CU_STREAM_CAPTURE_MODE_RELAXED));
    add<<<4, 64, 0, g.waiting>>>(g.data.data(), k_count, 1);
    EXPECT(cudaMemsetAsync(g.data.data(), 0, 4, nullptr) == cudaErrorStreamCaptureImplicit);
    cudaGetLastError();
    REFUSED(cuStreamEndCapture(g.waiting, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    DRIVER(cuStreamBeginCapture(g.waiting, CU_STREAM_CAPTURE_MODE_RELAXED));
    add<<<4, 64, 0, g.waiting>>>(g.data.data(), k_count, 1);
    DRIVER(cuCtxSetCurrent(p.primary));
    CHECK(cudaMemsetAsync(other.data(), 0, 4, nullptr));  // another default stream
    DRIVER(cuStreamEndCapture(g.waiting, &graph));
    DRIVER(cuGraphDestroy(graph));
}

static void default_streams(const Parts& p) {
    Green green(p);
    held_up(p, green);
    freeing(green);
    threads(green);
    capturing(p, green);
}

// Destroyed while it is current, with streams that the program still has.
static void ending(const Parts& p) {
    const CUgreenCtx green = make_green(const_cast<CUdevResource*>(&p.parts[1]), 1, p.device);
    CUcontext converted;
    DRIVER(cuCtxFromGreenCtx(&converted, green));
    DRIVER(cuCtxSetCurrent(converted));
    CUstream streams[2];
    DRIVER(cuStreamCreate(&streams[0], CU_STREAM_DEFAULT));
    DRIVER(cuGreenCtxStreamCreate(&streams[1], green, CU_STREAM_NON_BLOCKING, 0));
    CUdeviceptr memory;
    int values[k_count];
    DRIVER(cuMemAlloc(&memory, sizeof values));
    DRIVER(cuMemsetD32Async(memory, 1, k_count, nullptr));
    add<<<4, 64>>>(reinterpret_cast<int*>(memory), k_count, 20);
    add<<<4, 64, 0, streams[0]>>>(reinterpret_cast<int*>(memory), k_count, 300);
    DRIVER(cuCtxSynchronize());
    DRIVER(cuStreamBeginCapture(streams[1], CU_STREAM_CAPTURE_MODE_RELAXED));
    DRIVER(cuGreenCtxDestroy(green));
    EXPECT(current() == converted);
    REFUSED(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    REFUSED(cuMemsetD32(memory, 1, k_count), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CUstream none;
    REFUSED(cuStreamCreate(&none, CU_STREAM_DEFAULT), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    unsigned long long id;
    EXPECT(cuGreenCtxGetId(nullptr, &id) != CUDA_SUCCESS);
    REFUSED(cuCtxPushCurrent(converted), CUDA_ERROR_INVALID_CONTEXT);
    DRIVER(cuCtxSetCurrent(p.primary));
    for (CUstream stream : streams) {
        unsigned flags;
        REFUSED(cuStreamGetFlags(stream, &flags), k_stream_detached);
        REFUSED(cuStreamSynchronize(stream), k_stream_detached);
        REFUSED(cuMemsetD32Async(memory, 1, k_count, stream), k_stream_detached);
        DRIVER(cuStreamDestroy(stream));
        REFUSED(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
    }
    // What was allocated there is the primary context's.
    DRIVER(cuMemcpyDtoH(values, memory, sizeof values));
    for (int value : values) EXPECT_EQ(value, 321);
    DRIVER(cuMemFree(memory));
}

static void unequal_groups(const Parts& p) {
    const auto split =
        find<CUdevResource*, unsigned, const CUdevResource*, CUdevResource*, unsigned, Group*>("cuDevSmResourceSplit", 13010);
    const unsigned step = p.all.sm.smCoscheduledAlignment, count = p.all.sm.smCount;
    // Sizes that are found out, and told even if nothing is made of them.
    Group groups[3] = {{2 * step, step}, {2, 2}, {0, 2, 0, 1}};
    DRIVER(split(nullptr, 3, &p.all, nullptr, 0, groups));
    EXPECT_EQ(groups[2].count, (count - 2 * step - 2) / 2 * 2);
    CUdevResource parts[3], rest;
    groups[2].count = 4;
    DRIVER(split(parts, 3, &p.all, &rest, 0, groups));
    const unsigned sizes[3] = {2 * step, 2, 4};
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(parts[i].type, CU_DEV_RESOURCE_TYPE_SM);
        EXPECT_EQ(parts[i].sm.smCount, sizes[i]);
        EXPECT_EQ(groups[i].count, sizes[i]);
    }
    EXPECT_EQ(rest.sm.smCount, count - 2 * step - 6);
    // What is left over can be divided again; a group cannot.
    Group two{2, 2};
    CUdevResource again;
    DRIVER(split(&again, 1, &rest, nullptr, 0, &two));
    REFUSED(split(&again, 1, &parts[0], nullptr, 0, &two), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    Group odd{3, 2}, huge{count + 2, 2}, unknown{2, 2, 0, 0x80}, domain{2, 2, 0, 2}, greedy[2] = {{0, 2}, {2, 2}};
    REFUSED(split(&again, 1, &p.all, nullptr, 0, &odd), CUDA_ERROR_INVALID_VALUE);
    REFUSED(split(&again, 1, &p.all, nullptr, 0, &huge), CUDA_ERROR_INVALID_VALUE);
    REFUSED(split(&again, 1, &p.all, nullptr, 0, &unknown), CUDA_ERROR_INVALID_VALUE);
    REFUSED(split(&again, 1, &p.all, nullptr, 0, &domain), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    REFUSED(split(parts, 2, &p.all, nullptr, 0, greedy), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    REFUSED(split(&again, 1, &p.all, nullptr, 1, &two), CUDA_ERROR_INVALID_VALUE);
    REFUSED(split(&again, 0, &p.all, nullptr, 0, &two), CUDA_ERROR_INVALID_VALUE);

    CUdevResource small = parts[1];
    CUcontext converted;
    const CUgreenCtx green = make_green(&small, 1, p.device);
    DRIVER(cuCtxFromGreenCtx(&converted, green));
    DRIVER(cuCtxSetCurrent(converted));
    EXPECT(multiprocessors_of(nullptr).size() <= 2);
    DRIVER(cuCtxSetCurrent(p.primary));
    DRIVER(cuGreenCtxDestroy(green));
}

static WorkqueueConfig config_of(const CUdevResource& resource) {
    WorkqueueConfig config;
    std::memcpy(&config, &resource.sm, sizeof config);
    return config;
}

static void work_queues(const Parts& p) {
    CUdevResource config, queues, own;
    DRIVER(cuDeviceGetDevResource(p.device, &config, k_workqueue_config));
    EXPECT(config.type == k_workqueue_config);
    EXPECT_EQ(config_of(config).device, p.device);
    EXPECT(config_of(config).limit >= 1);
    EXPECT_EQ(config_of(config).scope, 0u);
    REFUSED(cuDeviceGetDevResource(p.device, &queues, k_workqueue), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    DRIVER(cuCtxGetDevResource(p.primary, &queues, k_workqueue));
    EXPECT(queues.type == k_workqueue);
    const auto of_stream = find<CUstream, CUdevResource*, CUdevResourceType>("cuStreamGetDevResource", 13010);
    REFUSED(of_stream(nullptr, &own, k_workqueue_config), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    REFUSED(of_stream(nullptr, &own, k_workqueue), CUDA_ERROR_INVALID_RESOURCE_TYPE);

    // Set up anew from what was told, and from nothing.
    CUdevResource told = config, fresh{};
    const WorkqueueConfig balanced{p.device, 4, 1};
    std::memcpy(&told.sm, &balanced, sizeof balanced);
    fresh.type = k_workqueue_config;
    std::memcpy(&fresh.sm, &balanced, sizeof balanced);
    for (const CUdevResource& wanted : {told, fresh}) {
        CUdevResource both[2] = {p.parts[0], wanted};
        const CUgreenCtx green = make_green(both, 2, p.device);
        DRIVER(cuGreenCtxGetDevResource(green, &own, k_workqueue_config));
        EXPECT_EQ(config_of(own).limit, 4u);
        EXPECT_EQ(config_of(own).scope, 1u);
        DRIVER(cuGreenCtxGetDevResource(green, &own, CU_DEV_RESOURCE_TYPE_SM));
        EXPECT_EQ(own.sm.smCount, p.parts[0].sm.smCount);
        // Its queues, for another green context.
        CUdevResource shared[2] = {p.parts[1], {}};
        DRIVER(cuGreenCtxGetDevResource(green, &shared[1], k_workqueue));
        DRIVER(cuGreenCtxDestroy(make_green(shared, 2, p.device)));
        DRIVER(cuGreenCtxDestroy(green));
    }
    CUdevResource twice[3] = {p.parts[0], config, config}, forged = queues;
    CUdevResourceDesc description;
    REFUSED(cuDevResourceGenerateDesc(&description, twice, 3), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    std::memset(forged._internal_padding, 0x5a, sizeof forged._internal_padding);
    EXPECT(cuDevResourceGenerateDesc(&description, &forged, 1) != CUDA_SUCCESS);
    CUdevResource absent = fresh;
    const WorkqueueConfig nowhere{1000, 4, 0};
    std::memcpy(&absent.sm, &nowhere, sizeof nowhere);
    EXPECT(cuDevResourceGenerateDesc(&description, &absent, 1) != CUDA_SUCCESS);
    // Of multiprocessors nothing is said: it has all.
    const CUgreenCtx green = make_green(&fresh, 1, p.device);
    DRIVER(cuGreenCtxGetDevResource(green, &own, CU_DEV_RESOURCE_TYPE_SM));
    EXPECT_EQ(own.sm.smCount, p.all.sm.smCount);
    DRIVER(cuGreenCtxDestroy(green));
}

int main() {
    CHECK(cudaFree(nullptr));
    Parts p;
    DRIVER(cuDeviceGet(&p.device, 0));
    p.primary = current();
    DRIVER(cuDeviceGetDevResource(p.device, &p.all, CU_DEV_RESOURCE_TYPE_SM));
    unsigned made = 2;
    DRIVER(cuDevSmResourceSplitByCount(p.parts, &made, &p.all, nullptr, 0, p.all.sm.minSmPartitionSize));
    EXPECT_EQ(made, 2u);
    telling(p);
    working(p);
    default_streams(p);
    const int version = driver_version();
    if (version >= k_detaches_streams) ending(p);
    constexpr int k_has_work_queues = 13010;  // and groups of unequal sizes
    if (version >= k_has_work_queues) {
        unequal_groups(p);
        work_queues(p);
    }
    return passed("green contexts that are current");
}
