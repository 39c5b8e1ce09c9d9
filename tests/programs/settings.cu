// What contexts, devices, pools and streams are told and tell again, each context for itself; and copies between two contexts
// of one device.
#include <cstring>

#include "driver_calls.h"

__global__ void add(int* data, int value) { data[threadIdx.x] += value; }

class Context {
public:
    Context() {
        CUctxCreateParams params{};
        DRIVER(cuCtxCreate(&m_context, &params, 0, 0));  // and it is current
    }
    ~Context() { DRIVER(cuCtxDestroy(m_context)); }
    void use() const { DRIVER(cuCtxSetCurrent(m_context)); }
    CUcontext handle() const { return m_context; }

private:
    CUcontext m_context = nullptr;
};

// A device is the one that its address on the bus and its number for life say, and its name is as long as there is room for it.
static void devices() {
    char name[256] = "", cut[4] = {'x', 'x', 'x', 'x'}, bus[32] = "";
    DRIVER(cuDeviceGetName(name, sizeof name, 0));
    DRIVER(cuDeviceGetName(cut, sizeof cut, 0));
    EXPECT(std::strlen(name) >= 3 && std::strlen(cut) == 3 && std::strncmp(name, cut, 3) == 0);
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    EXPECT(std::strcmp(properties.name, name) == 0);
    size_t bytes = 0;
    DRIVER(cuDeviceTotalMem(&bytes, 0));
    EXPECT_EQ(bytes, properties.totalGlobalMem);
    CUuuid uuid{};
    DRIVER(cuDeviceGetUuid(&uuid, 0));
    EXPECT(std::memcmp(&uuid, &properties.uuid, sizeof uuid) == 0);
    CUuuid none{};
    EXPECT(std::memcmp(&uuid, &none, sizeof uuid) != 0);
    DRIVER(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    unsigned domain = 0, number = 0, slot = 0;
    EXPECT(std::sscanf(bus, "%x:%x:%x.0", &domain, &number, &slot) == 3);
    const CUdevice_attribute parts[] = {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                                        CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID};
    const unsigned told[] = {domain, number, slot};
    for (int i = 0; i < 3; ++i) {
        int value = -1;
        DRIVER(cuDeviceGetAttribute(&value, parts[i], 0));
        EXPECT_EQ(static_cast<unsigned>(value), told[i]);
    }
    CUdevice found = -1;
    DRIVER(cuDeviceGetByPCIBusId(&found, bus));
    EXPECT_EQ(found, 0);
}

static void caches() {
    const Context one, other;
    CUfunc_cache config;
    for (const Context* context : {&one, &other}) {
        context->use();
        DRIVER(cuCtxGetCacheConfig(&config));
        EXPECT(config == CU_FUNC_CACHE_PREFER_NONE);
    }
    one.use();
    for (CUfunc_cache wanted : {CU_FUNC_CACHE_PREFER_SHARED, CU_FUNC_CACHE_PREFER_EQUAL, CU_FUNC_CACHE_PREFER_L1}) {
        DRIVER(cuCtxSetCacheConfig(wanted));
        DRIVER(cuCtxGetCacheConfig(&config));
        EXPECT(config == wanted);
    }
    other.use();
    DRIVER(cuCtxGetCacheConfig(&config));
    EXPECT(config == CU_FUNC_CACHE_PREFER_NONE);
    REFUSED(cuCtxSetCacheConfig(static_cast<CUfunc_cache>(4)), CUDA_ERROR_INVALID_VALUE);
    // Banks are of one size on all devices that CUDA 13 knows: another wish has no effect.
    CUsharedconfig before, after;
    DRIVER(cuCtxGetSharedMemConfig(&before));
    EXPECT(before == CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
    DRIVER(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
    DRIVER(cuCtxGetSharedMemConfig(&after));
    EXPECT(after == before);
    REFUSED(cuCtxSetSharedMemConfig(static_cast<CUsharedconfig>(9)), CUDA_ERROR_INVALID_VALUE);
}

static void limits() {
    const Context one;
    size_t found = 0;
    for (size_t wanted : {size_t{4096}, size_t{2048}}) {
        DRIVER(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, wanted));
        DRIVER(cuCtxGetLimit(&found, CU_LIMIT_STACK_SIZE));
        EXPECT(found >= wanted);
    }
    DRIVER(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, size_t{3} << 20));
    DRIVER(cuCtxGetLimit(&found, CU_LIMIT_PRINTF_FIFO_SIZE));
    EXPECT(found >= size_t{3} << 20);
    REFUSED(cuCtxSetLimit(static_cast<CUlimit>(99), 1), CUDA_ERROR_INVALID_VALUE);
    // All multiprocessors are a context's, unless somebody has said otherwise.
    CUexecAffinityParam affinity{};
    DRIVER(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
    int multiprocessors = 0;
    DRIVER(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    EXPECT(affinity.type == CU_EXEC_AFFINITY_TYPE_SM_COUNT);
    EXPECT_EQ(affinity.param.smCount.val, static_cast<unsigned>(multiprocessors));
    REFUSED(cuCtxGetExecAffinity(&affinity, static_cast<CUexecAffinityType>(99)), CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
}

static constexpr int k_count = 1000;
static constexpr size_t k_bytes = k_count * sizeof(int);

static CUdeviceptr memory_of(const Context& context, int first) {
    context.use();
    CUdeviceptr memory;
    DRIVER(cuMemAlloc(&memory, k_bytes));
    std::vector<int> values(k_count);
    for (int i = 0; i < k_count; ++i) values[i] = first + i;
    DRIVER(cuMemcpyHtoD(memory, values.data(), k_bytes));
    return memory;
}

static std::vector<int> values_at(const Context& context, CUdeviceptr memory) {
    context.use();
    std::vector<int> values(k_count);
    DRIVER(cuMemcpyDtoH(values.data(), memory, k_bytes));
    return values;
}

// From one context's memory to another's, of the same device: a piece, and rows.
static void between_contexts() {
    const Context one, other;
    const CUdeviceptr from = memory_of(one, 0), to = memory_of(other, 100000);
    DRIVER(cuMemcpyPeer(to + 400, other.handle(), from, one.handle(), 800));
    std::vector<int> found = values_at(other, to);
    for (int i = 0; i < k_count; ++i) EXPECT_EQ(found[i], i >= 100 && i < 300 ? i - 100 : 100000 + i);

    CUDA_MEMCPY3D_PEER copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from, copy.srcContext = one.handle(), copy.srcPitch = 80, copy.srcHeight = 5;
    copy.dstDevice = to + 2000, copy.dstContext = other.handle(), copy.dstPitch = 40, copy.dstHeight = 5;
    copy.WidthInBytes = 20, copy.Height = 4, copy.Depth = 2;
    CUstream stream;
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DRIVER(cuMemcpy3DPeerAsync(&copy, stream));
    DRIVER(cuStreamSynchronize(stream));
    std::vector<int> expected = found;
    for (int z = 0; z < 2; ++z)
        for (int y = 0; y < 4; ++y)
            for (int x = 0; x < 5; ++x) expected[500 + (z * 5 + y) * 10 + x] = (z * 5 + y) * 20 + x;
    found = values_at(other, to);
    EXPECT(found == expected);
    REFUSED(cuMemcpyPeer(to, other.handle(), 0, one.handle(), 8), CUDA_ERROR_INVALID_VALUE);
    copy.srcHeight = 3;  // fewer rows than are copied
    REFUSED(cuMemcpy3DPeerAsync(&copy, stream), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuStreamDestroy(stream));
    one.use();
    DRIVER(cuMemFree(from));
    other.use();
    DRIVER(cuMemFree(to));
}

// Whether a device may use what is mapped at an address.
static void access_to_memory() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    size_t piece = 0;
    DRIVER(cuMemGetAllocationGranularity(&piece, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUdeviceptr base;
    CUmemGenericAllocationHandle memory;
    DRIVER(cuMemAddressReserve(&base, 2 * piece, 0, 0, 0));
    DRIVER(cuMemCreate(&memory, 2 * piece, &properties, 0));
    DRIVER(cuMemMap(base, 2 * piece, 0, memory, 0));
    const auto access = [&](CUdeviceptr at) {
        unsigned long long flags = 77;
        DRIVER(cuMemGetAccess(&flags, &properties.location, at));
        return flags;
    };
    EXPECT_EQ(access(base), CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CUmemAccessDesc granted{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DRIVER(cuMemSetAccess(base, 2 * piece, &granted, 1));
    EXPECT(access(base) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
           access(base + 2 * piece - 1) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    unsigned long long flags = 0;
    REFUSED(cuMemGetAccess(&flags, &properties.location, base + 2 * piece), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemUnmap(base, 2 * piece));
    REFUSED(cuMemGetAccess(&flags, &properties.location, base), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemRelease(memory));
    DRIVER(cuMemAddressFree(base, 2 * piece));
}

static cuuint64_t graph_bytes(CUgraphMem_attribute which) {
    cuuint64_t bytes = ~0ull;
    DRIVER(cuDeviceGetGraphMemAttribute(0, which, &bytes));
    return bytes;
}

// The most that graphs have used is counted anew when it is told to be.
static void memory_of_graphs() {
    constexpr size_t k_wanted = 5 << 20;
    CUgraph graph;
    DRIVER(cuGraphCreate(&graph, 0));
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    params.bytesize = k_wanted;
    CUgraphNode allocated, freed;
    DRIVER(cuGraphAddMemAllocNode(&allocated, graph, nullptr, 0, &params));
    DRIVER(cuGraphAddMemFreeNode(&freed, graph, &allocated, 1, params.dptr));
    CUgraphExec exec;
    DRIVER(cuGraphInstantiate(&exec, graph, 0));
    DRIVER(cuGraphLaunch(exec, nullptr));
    DRIVER(cuCtxSynchronize());
    EXPECT(graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >= k_wanted);
    EXPECT(graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) >= k_wanted);
    DRIVER(cuGraphExecDestroy(exec));
    DRIVER(cuGraphDestroy(graph));
    DRIVER(cuDeviceGraphMemTrim(0));
    EXPECT(graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) >= k_wanted);  // what has been has been
    cuuint64_t zero = 0;
    DRIVER(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
    DRIVER(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &zero));
    EXPECT_EQ(graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
    EXPECT_EQ(graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT));
    EXPECT(graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) < k_wanted);
}

// The pool that a device has now is where its streams' memory comes from.
static void pools() {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool first, made, found;
    DRIVER(cuDeviceGetMemPool(&first, 0));
    DRIVER(cuMemPoolCreate(&made, &properties));
    DRIVER(cuDeviceSetMemPool(0, made));
    DRIVER(cuDeviceGetMemPool(&found, 0));
    EXPECT(found == made);
    const auto used = [](CUmemoryPool pool) {
        cuuint64_t bytes = ~0ull;
        DRIVER(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes));
        return bytes;
    };
    const cuuint64_t before = used(first);
    CUdeviceptr memory;
    DRIVER(cuMemAllocAsync(&memory, k_bytes, nullptr));
    DRIVER(cuStreamSynchronize(nullptr));
    EXPECT(used(made) >= k_bytes && used(first) == before);
    DRIVER(cuMemFreeAsync(memory, nullptr));
    DRIVER(cuStreamSynchronize(nullptr));
    EXPECT_EQ(used(made), 0u);
    DRIVER(cuDeviceSetMemPool(0, first));
    DRIVER(cuDeviceGetMemPool(&found, 0));
    EXPECT(found == first);
    DRIVER(cuMemPoolDestroy(made));
    REFUSED(cuDeviceSetMemPool(0, nullptr), CUDA_ERROR_INVALID_VALUE);
}

// A capture that is told what its next node comes after, by the form without data of edges.
static void dependencies_of_captures() {
    DeviceArray<int> data(std::vector<int>{0, 0});
    CUstream stream;
    DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUgraphNode nodes[3] = {};
    const auto info = find<CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**, size_t*>(
        "cuStreamGetCaptureInfo", 11030);
    const auto update = find<CUstream, CUgraphNode*, size_t, unsigned>("cuStreamUpdateCaptureDependencies", 11030);
    const auto captured = [&](CUgraphNode* node) {
        CUstreamCaptureStatus status;
        const CUgraphNode* dependencies = nullptr;
        size_t count = 0;
        DRIVER(info(stream, &status, nullptr, nullptr, &dependencies, &count));
        EXPECT_EQ(count, 1u);
        *node = dependencies[0];
    };
    for (int i = 0; i < 3; ++i) {
        if (i == 2) DRIVER(update(stream, nodes, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
        add<<<1, 1, 0, stream>>>(data.data() + (i == 1), 1 + i);
        CHECK(cudaGetLastError());
        captured(&nodes[i]);
    }
    // And one of all that has come so far.
    DRIVER(update(stream, &nodes[1], 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    add<<<1, 2, 0, stream>>>(data.data(), 100);
    CHECK(cudaGetLastError());
    REFUSED(update(stream, nodes, 1, 77), CUDA_ERROR_INVALID_VALUE);
    CUgraph graph;
    DRIVER(cuStreamEndCapture(stream, &graph));
    const auto behind = [](CUgraphNode node) {
        CUgraphNode found[4] = {};
        size_t count = 4;
        DRIVER(cuGraphNodeGetDependentNodes(node, found, nullptr, &count));
        return std::vector<CUgraphNode>(found, found + count);
    };
    EXPECT_EQ(behind(nodes[0]).size(), 2u);
    EXPECT(behind(nodes[1]).size() == 1 && behind(nodes[1]) == behind(nodes[2]));
    CUgraphExec exec;
    DRIVER(cuGraphInstantiate(&exec, graph, 0));
    DRIVER(cuGraphLaunch(exec, stream));
    DRIVER(cuStreamSynchronize(stream));
    EXPECT((data.download() == std::vector<int>{1 + 3 + 100, 2 + 100}));
    DRIVER(cuGraphExecDestroy(exec));
    DRIVER(cuGraphDestroy(graph));
    DRIVER(cuStreamDestroy(stream));
}

// Nothing is left of what the device's own context had.
static void reset() {
    CUcontext context;
    DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
    DRIVER(cuCtxSetCurrent(context));
    CUdeviceptr memory;
    DRIVER(cuMemAlloc(&memory, k_bytes));
    DRIVER(cuDevicePrimaryCtxReset(0));
    unsigned flags = 0;
    int active = -1;
    DRIVER(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(active, 0);
    CUcontext again;
    DRIVER(cuDevicePrimaryCtxRetain(&again, 0));
    DRIVER(cuCtxSetCurrent(again));
    DRIVER(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(active, 1);
    REFUSED(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemAlloc(&memory, k_bytes));
    DRIVER(cuMemsetD32(memory, 77, k_count));
    std::vector<int> values(k_count);
    DRIVER(cuMemcpyDtoH(values.data(), memory, k_bytes));
    for (int value : values) EXPECT_EQ(value, 77);
}

int main() {
    CHECK(cudaFree(nullptr));
    devices();
    caches();
    limits();
    between_contexts();
    CHECK(cudaSetDevice(0));
    access_to_memory();
    memory_of_graphs();
    pools();
    dependencies_of_captures();
    reset();
    return passed("settings");
}
