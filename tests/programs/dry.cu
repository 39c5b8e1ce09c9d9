// What a program sees of the dry mode (SOFTGPU_EXECUTE=0): every call succeeds, copies copy, kernels do nothing. Built without PTX.
#include "check.h"

__constant__ float factors[4];
__device__ int counter = 3;

__global__ void scale(float* data, int count) {
    extern __shared__ float words[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    words[threadIdx.x] = i < count ? data[i] : 0;
    __syncthreads();
    if (i < count) data[i] = words[threadIdx.x] * factors[i % 4];
    atomicAdd(&counter, 1);
}

template <typename T>
__global__ void fill(T* data, T value) {
    data[threadIdx.x] = value;
}

int main() {
    std::vector<float> host(1000);
    Random random(3);
    for (float& value : host) value = random.uniform();
    DeviceArray<float> data(host);
    const float f[4] = {1, 2, 3, 4};
    CHECK(cudaMemcpyToSymbol(factors, f, sizeof(f)));
    cudaStream_t stream;
    cudaEvent_t begin, end;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(begin, stream));
    scale<<<8, 128, 128 * sizeof(float), stream>>>(data.data(), 1000);
    CHECK(cudaGetLastError());
    fill<double><<<1, 32, 0, stream>>>(nullptr, 1.5);  // would fault
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaStreamSynchronize(stream));
    float milliseconds = -1;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    EXPECT(milliseconds >= 0);
    EXPECT(data.download() == host);
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, scale));
    EXPECT(attributes.maxThreadsPerBlock > 0);

    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    fill<float><<<1, 64, 0, stream>>>(data.data(), 0.0f);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(data.download() == host);
    return passed("dry run");
}
