// Green contexts: the multiprocessors of a device divided, and kernels that run on some of them (A2).
#include <algorithm>
#include <cstring>
#include <set>

#include "driver_calls.h"
#include "shared_memory.h"

__global__ void where(unsigned* multiprocessors, unsigned* all) {
    unsigned own, count;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(own));
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(count));
    if (threadIdx.x == 0) multiprocessors[blockIdx.x] = own;
    if (blockIdx.x == 0 && threadIdx.x == 0) *all = count;
}

static CUdevResource resource_of(CUdevice device) {
    CUdevResource all;
    DRIVER(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    return all;
}

static CUgreenCtx make_green(CUdevResource* parts, unsigned count, CUdevice device) {
    CUdevResourceDesc description;
    CUgreenCtx green;
    DRIVER(cuDevResourceGenerateDesc(&description, parts, count));
    DRIVER(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    return green;
}

static std::set<unsigned> multiprocessors_of(CUstream stream) {
    constexpr unsigned k_blocks = 500;
    DeviceArray<unsigned> seen(k_blocks), all(1);
    where<<<k_blocks, 64, 0, stream>>>(seen.data(), all.data());
    CHECK(cudaStreamSynchronize(stream));
    const std::vector<unsigned> numbers = seen.download();
    // What a kernel is told of the device is the device's.
    EXPECT(all.download()[0] > *std::max_element(numbers.begin(), numbers.end()));
    return {numbers.begin(), numbers.end()};
}

static void splitting(CUdevice device) {
    CUdevResource all = resource_of(device), again, rest;
    EXPECT_EQ(all.type, CU_DEV_RESOURCE_TYPE_SM);
    int count = 0;
    DRIVER(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    EXPECT_EQ(all.sm.smCount, static_cast<unsigned>(count));
    const unsigned least = all.sm.minSmPartitionSize, step = all.sm.smCoscheduledAlignment;
    EXPECT(least >= 1 && step >= 1 && all.sm.smCount >= 2 * least);
    CUcontext context;
    DRIVER(cuCtxGetCurrent(&context));
    DRIVER(cuCtxGetDevResource(context, &again, CU_DEV_RESOURCE_TYPE_SM));
    EXPECT_EQ(again.sm.smCount, all.sm.smCount);

    // How many there would be, and then no more than there is room for. Each is as large as the others.
    unsigned groups = 0;
    DRIVER(cuDevSmResourceSplitByCount(nullptr, &groups, &all, nullptr, 0, least));
    EXPECT(groups >= 2 && groups <= all.sm.smCount / least);
    std::vector<CUdevResource> parts(groups + 3);
    unsigned made = groups + 3;
    DRIVER(cuDevSmResourceSplitByCount(parts.data(), &made, &all, &rest, 0, least));
    EXPECT_EQ(made, groups);
    unsigned used = 0;
    for (unsigned i = 0; i < made; ++i) {
        EXPECT_EQ(parts[i].sm.smCount, parts[0].sm.smCount);
        used += parts[i].sm.smCount;
    }
    EXPECT(parts[0].sm.smCount >= least && parts[0].sm.smCount % step == 0);
    EXPECT_EQ(used + (rest.type == CU_DEV_RESOURCE_TYPE_SM ? rest.sm.smCount : 0), all.sm.smCount);
    made = 1;
    DRIVER(cuDevSmResourceSplitByCount(parts.data(), &made, &all, &rest, 0, least + 1));
    EXPECT_EQ(made, 1u);
    EXPECT(parts[0].sm.smCount > least && parts[0].sm.smCount % step == 0);
    EXPECT_EQ(rest.sm.smCount, all.sm.smCount - parts[0].sm.smCount);

    made = 1;
    REFUSED(cuDevSmResourceSplitByCount(parts.data(), &made, &all, nullptr, 0, all.sm.smCount + 1),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    REFUSED(cuDevSmResourceSplitByCount(parts.data(), nullptr, &all, nullptr, 0, least), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuDeviceGetDevResource(device, &again, CU_DEV_RESOURCE_TYPE_INVALID), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    // Bytes that nobody gave are no resource.
    CUdevResource forged = all;
    std::memset(forged._internal_padding, 0x5a, sizeof forged._internal_padding);
    EXPECT(cuDevSmResourceSplitByCount(parts.data(), &made, &forged, nullptr, 0, least) != CUDA_SUCCESS);
    CUdevResourceDesc description;
    EXPECT(cuDevResourceGenerateDesc(&description, &forged, 1) != CUDA_SUCCESS);
    CUdevResource invalid{};
    REFUSED(cuDevResourceGenerateDesc(&description, &invalid, 1), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    // Parts of two splits may be of one device's division or not: nobody looks, and they add up.
    CUdevResource mixed[2] = {parts[0], {}}, twice[2] = {parts[0], parts[0]}, own;
    made = 1;
    DRIVER(cuDevSmResourceSplitByCount(&mixed[1], &made, &all, nullptr, 0, least));
    const CUgreenCtx of_two = make_green(mixed, 2, device), of_one = make_green(twice, 2, device);
    DRIVER(cuGreenCtxGetDevResource(of_two, &own, CU_DEV_RESOURCE_TYPE_SM));
    EXPECT_EQ(own.sm.smCount, mixed[0].sm.smCount + mixed[1].sm.smCount);
    DRIVER(cuGreenCtxGetDevResource(of_one, &own, CU_DEV_RESOURCE_TYPE_SM));
    EXPECT_EQ(own.sm.smCount, 2 * parts[0].sm.smCount);
    DRIVER(cuGreenCtxDestroy(of_two));
    DRIVER(cuGreenCtxDestroy(of_one));
}

static void running(CUdevice device) {
    CUdevResource all = resource_of(device), parts[2], rest;
    unsigned made = 2;
    DRIVER(cuDevSmResourceSplitByCount(parts, &made, &all, &rest, 0, all.sm.minSmPartitionSize));
    EXPECT_EQ(made, 2u);
    CUdevResource second[2] = {parts[1], rest};
    const CUgreenCtx greens[2] = {make_green(parts, 1, device),
                                  make_green(second, rest.type == CU_DEV_RESOURCE_TYPE_SM ? 2 : 1, device)};
    const unsigned sizes[2] = {parts[0].sm.smCount, all.sm.smCount - parts[0].sm.smCount};
    CUstream streams[2];
    CUcontext primary, context;
    DRIVER(cuCtxGetCurrent(&primary));
    unsigned long long ids[2];
    for (int i = 0; i < 2; ++i) {
        CUdevResource own;
        DRIVER(cuGreenCtxGetDevResource(greens[i], &own, CU_DEV_RESOURCE_TYPE_SM));
        EXPECT_EQ(own.sm.smCount, sizes[i]);
        DRIVER(cuGreenCtxStreamCreate(&streams[i], greens[i], CU_STREAM_NON_BLOCKING, 0));
        CUstream none = streams[i];
        REFUSED(cuGreenCtxStreamCreate(&none, greens[i], CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
        DRIVER(cuGreenCtxGetId(greens[i], &ids[i]));
        CUgreenCtx green = nullptr;
        DRIVER(cuStreamGetGreenCtx(streams[i], &green));
        EXPECT(green == greens[i]);
        green = nullptr;
        DRIVER(cuStreamGetCtx_v2(streams[i], &context, &green));
        EXPECT(green == greens[i] && context == primary);
        unsigned flags = 0;
        DRIVER(cuStreamGetFlags(streams[i], &flags));
        EXPECT_EQ(flags, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
    }
    EXPECT(ids[0] != ids[1]);
    CUgreenCtx none = greens[0];
    DRIVER(cuStreamGetGreenCtx(nullptr, &none));
    EXPECT(none == nullptr);

    // Kernels of one have other multiprocessors than those of the other.
    const std::set<unsigned> one = multiprocessors_of(streams[0]), other = multiprocessors_of(streams[1]);
    EXPECT(one.size() <= sizes[0] && other.size() <= sizes[1]);
    for (unsigned number : one) EXPECT(other.count(number) == 0);
    EXPECT(multiprocessors_of(nullptr).size() <= all.sm.smCount);

    // A grid whose blocks wait for each other has to fit.
    int per_multiprocessor = 0, n = 0, what = 0, *nothing = nullptr;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, add, 64, 0));
    void* args[] = {&nothing, &n, &what};
    const unsigned fits = per_multiprocessor * sizes[0];
    const auto kernel = reinterpret_cast<const void*>(add);
    CHECK(cudaLaunchCooperativeKernel(kernel, dim3(fits), dim3(64), args, 0, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
    EXPECT(cudaLaunchCooperativeKernel(kernel, dim3(fits + 1), dim3(64), args, 0, streams[0]) ==
           cudaErrorCooperativeLaunchTooLarge);
    EXPECT(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);

    // Events behind all that a green context was given, and work that comes after them.
    DeviceArray<int> data(1000), gate(1);
    CHECK(cudaMemset(data.data(), 0, 1000 * sizeof(int)));
    CHECK(cudaMemset(gate.data(), 0, sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    CUevent done, of_context;
    DRIVER(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
    DRIVER(cuEventCreate(&of_context, CU_EVENT_DISABLE_TIMING));
    hold<<<1, 1, 0, streams[0]>>>(gate.data());
    add<<<4, 64, 0, streams[0]>>>(data.data(), 1000, 3);
    DRIVER(cuGreenCtxRecordEvent(greens[0], done));
    DRIVER(cuGreenCtxWaitEvent(greens[1], done));
    DRIVER(cuCtxRecordEvent(primary, of_context));
    REFUSED(cuEventQuery(done), CUDA_ERROR_NOT_READY);
    REFUSED(cuEventQuery(of_context), CUDA_ERROR_NOT_READY);
    add<<<4, 64, 0, streams[1]>>>(data.data(), 1000, 4);
    const int open = 1;
    CUstream opener;
    DRIVER(cuStreamCreate(&opener, CU_STREAM_NON_BLOCKING));
    DRIVER(cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(gate.data()), &open, sizeof open, opener));
    DRIVER(cuEventSynchronize(done));
    DRIVER(cuEventSynchronize(of_context));
    CHECK(cudaStreamSynchronize(streams[1]));
    std::vector<int> seen = data.download();
    for (int value : seen) EXPECT_EQ(value, 7);

    // Launches of graphs, and memory, are used in these streams as in others.
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeRelaxed));
    add<<<4, 64, 0, streams[0]>>>(data.data(), 1000, 10);
    DRIVER(cuGreenCtxWaitEvent(greens[1], done));
    CHECK(cudaStreamEndCapture(streams[0], &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, streams[0]));
    CHECK(cudaGraphLaunch(exec, streams[0]));
    CHECK(cudaMemcpyAsync(seen.data(), data.data(), 1000 * sizeof(int), cudaMemcpyDeviceToHost, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
    for (int value : seen) EXPECT_EQ(value, 27);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));

    // A captured stream stands for its green context's.
    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeRelaxed));
    REFUSED(cuGreenCtxRecordEvent(greens[0], done), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(cudaStreamEndCapture(streams[0], &graph) == cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();

    // One green context ends with a stream, the other after its stream.
    DRIVER(cuStreamDestroy(streams[1]));
    for (CUgreenCtx green : greens) DRIVER(cuGreenCtxDestroy(green));
    const bool detaches = driver_version() >= k_detaches_streams;
    const auto gone = detaches ? static_cast<CUresult>(917) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    REFUSED(cuStreamQuery(streams[0]), gone);
    REFUSED(cuStreamSynchronize(streams[0]), gone);
    if (detaches) EXPECT(cuGreenCtxGetId(greens[0], &ids[0]) != CUDA_SUCCESS);
    // The rest of the device goes on.
    add<<<4, 64>>>(data.data(), 1000, 100);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(data.download()[999], 127);
    DRIVER(cuEventDestroy(done));
    DRIVER(cuEventDestroy(of_context));
    DRIVER(cuStreamDestroy(opener));
}

int main() {
    CHECK(cudaFree(nullptr));
    CUdevice device;
    DRIVER(cuDeviceGet(&device, 0));
    splitting(device);
    running(device);
    return passed("green contexts");
}
