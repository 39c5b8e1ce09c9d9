// What most programs do with the runtime API, and nothing that needs a newer one than 11.8: compiled by, and run with, every version.
#include "../check.h"

#include <cstring>

__constant__ float k_factor;
__device__ int g_launches;

__global__ void scale(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * k_factor;
    if (i == 0) atomicAdd(&g_launches, 1);
}

__global__ void add_to(float* out, float value, int n) {
    extern __shared__ float tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? out[i] : 0.0f;
    __syncthreads();
    if (i < n) out[i] = tile[threadIdx.x] + value;
}

static void tell_versions() {
    int runtime = 0, driver = 0;
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cudaDriverGetVersion(&driver));
    std::printf("runtime %d driver %d\n", runtime, driver);
}

static void use_device() {
    int count = 0, major = 0, minor = 0, blocks = 0;
    CHECK(cudaGetDeviceCount(&count));
    EXPECT(count > 0);
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
    EXPECT(major >= 7);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add_to, 128, 512));
    EXPECT(blocks > 0);
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, scale));
    EXPECT(attributes.maxThreadsPerBlock >= 128);
    size_t free_bytes = 0, total_bytes = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    EXPECT(free_bytes <= total_bytes && total_bytes > 0);
}

static void launch_and_copy(const std::vector<float>& in) {
    const int n = static_cast<int>(in.size());
    const float factor = 3.0f;
    CHECK(cudaMemcpyToSymbol(k_factor, &factor, sizeof factor));
    DeviceArray<float> from(in), to(in.size());
    scale<<<(n + 127) / 128, 128>>>(from.data(), to.data(), n);
    CHECK(cudaGetLastError());
    const std::vector<float> got = to.download();
    for (int i = 0; i < n; ++i) EXPECT_EQ(got[i], in[i] * factor);
    int launches = 0;
    CHECK(cudaMemcpyFromSymbol(&launches, g_launches, sizeof launches));
    EXPECT_EQ(launches, 1);
}

static void work_in_streams(const std::vector<float>& in) {
    const int n = static_cast<int>(in.size());
    cudaStream_t stream;
    cudaEvent_t begin, end;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    float *pinned = nullptr, *device = nullptr;
    CHECK(cudaMallocHost(&pinned, in.size() * sizeof(float)));
    std::memcpy(pinned, in.data(), in.size() * sizeof(float));
    CHECK(cudaMallocAsync(&device, in.size() * sizeof(float), stream));
    CHECK(cudaEventRecord(begin, stream));
    CHECK(cudaMemcpyAsync(device, pinned, in.size() * sizeof(float), cudaMemcpyHostToDevice, stream));
    add_to<<<(n + 127) / 128, 128, 128 * sizeof(float), stream>>>(device, 2.0f, n);
    CHECK(cudaMemcpyAsync(pinned, device, in.size() * sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaEventRecord(end, stream));
    int called = 0;
    CHECK(cudaLaunchHostFunc(stream, [](void* data) { *static_cast<int*>(data) = 1; }, &called));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(called, 1);
    CHECK(cudaEventQuery(end));
    float elapsed = -1.0f;
    CHECK(cudaEventElapsedTime(&elapsed, begin, end));
    EXPECT(elapsed >= 0.0f);
    for (int i = 0; i < n; ++i) EXPECT_EQ(pinned[i], in[i] + 2.0f);
    CHECK(cudaFreeAsync(device, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(stream));
}

static void replay_graph(const std::vector<float>& in) {
    const int n = static_cast<int>(in.size());
    DeviceArray<float> data(in);
    float value = 1.0f;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    add_to<<<(n + 127) / 128, 128, 128 * sizeof(float), stream>>>(data.data(), value, n);
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    CHECK(cudaStreamEndCapture(stream, &graph));
    // A kernel node added by hand, behind the captured one.
    size_t count = 1;
    cudaGraphNode_t captured, added;
    CHECK(cudaGraphGetNodes(graph, &captured, &count));
    EXPECT_EQ(count, size_t{1});
    float* pointer = data.data();
    int elements = n;
    float more = 10.0f;
    void* arguments[] = {&pointer, &more, &elements};
    cudaKernelNodeParams params{};
    params.func = reinterpret_cast<void*>(add_to);
    params.gridDim = dim3((n + 127) / 128);
    params.blockDim = dim3(128);
    params.sharedMemBytes = 128 * sizeof(float);
    params.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&added, graph, &captured, 1, &params));
    cudaKernelNodeParams back{};
    CHECK(cudaGraphKernelNodeGetParams(added, &back));
    EXPECT_EQ(back.gridDim.x, params.gridDim.x);
    EXPECT_EQ(*static_cast<float*>(back.kernelParams[1]), 10.0f);
    EXPECT_EQ(*static_cast<int*>(back.kernelParams[2]), n);
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    more = 100.0f;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, added, &params));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    const std::vector<float> got = data.download();
    for (int i = 0; i < n; ++i) EXPECT_EQ(got[i], in[i] + 1.0f + 10.0f + 1.0f + 100.0f);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

int main() {
    tell_versions();
    use_device();
    std::vector<float> in(5000);
    Random random(11);
    for (float& x : in) x = static_cast<float>(random.next() % 1000);
    launch_and_copy(in);
    work_in_streams(in);
    replay_graph(in);
    CHECK(cudaDeviceReset());
    return passed("tour");
}
