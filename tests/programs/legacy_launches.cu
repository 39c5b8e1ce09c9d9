// Launches that are put together call by call, as before CUDA 4.0 (A2).
#include <cstdint>
#include <cstring>

#include "driver_calls.h"

__global__ void store(int* to, int value, float factor) {
    extern __shared__ int shared[];
    shared[threadIdx.x] = value + static_cast<int>(factor * threadIdx.x);
    __syncthreads();
    to[(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}
__global__ void nothing() {}

static const auto set_block = find<CUfunction, int, int, int>("cuFuncSetBlockShape", 2000);
static const auto set_shared = find<CUfunction, unsigned>("cuFuncSetSharedSize", 2000);
static const auto set_size = find<CUfunction, unsigned>("cuParamSetSize", 2000);
static const auto set_int = find<CUfunction, int, unsigned>("cuParamSeti", 2000);
static const auto set_float = find<CUfunction, int, float>("cuParamSetf", 2000);
static const auto set_bytes = find<CUfunction, int, void*, unsigned>("cuParamSetv", 2000);
static const auto launch = find<CUfunction>("cuLaunch", 2000);
static const auto launch_grid = find<CUfunction, int, int>("cuLaunchGrid", 2000);
static const auto launch_grid_in = find<CUfunction, int, int, CUstream>("cuLaunchGridAsync", 2000);

constexpr int k_threads = 32;

static CUfunction function_of(const void* kernel) {
    CUfunction function = nullptr;
    CHECK(cudaGetFuncBySymbol(&function, kernel));
    return function;
}

static void expect(const DeviceArray<int>& data, int blocks, int value) {
    CHECK(cudaDeviceSynchronize());
    const auto found = data.download();
    for (int i = 0; i < static_cast<int>(found.size()); ++i)
        EXPECT_EQ(found[i], i < blocks * k_threads ? value + 2 * (k_threads - 1 - i % k_threads) : 0);
}

static void clear(DeviceArray<int>& data) {
    CHECK(cudaMemset(data.data(), 0, 6 * k_threads * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
}

static void launches() {
    CUfunction function = function_of(reinterpret_cast<const void*>(store));
    DeviceArray<int> data(std::vector<int>(6 * k_threads));
    int* to = data.data();
    clear(data);
    DRIVER(set_block(function, k_threads, 1, 1));
    DRIVER(set_shared(function, k_threads * sizeof(int)));
    DRIVER(set_bytes(function, 0, &to, sizeof to));
    DRIVER(set_int(function, 8, 7));
    DRIVER(set_float(function, 12, 2.0f));
    DRIVER(set_size(function, 16));
    DRIVER(launch(function));
    expect(data, 1, 7);
    // What was set stays; what is set anew counts from the next launch on.
    clear(data);
    DRIVER(launch_grid(function, 3, 2));
    DRIVER(set_int(function, 8, 1000));
    expect(data, 6, 7);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DRIVER(launch_grid_in(function, 2, 1, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT_EQ(data.download()[0], 1000 + 2 * (k_threads - 1));
    CHECK(cudaStreamDestroy(stream));
    // A launch of the newer kind has a shape and parameters of its own.
    void* arguments[] = {&to, nullptr, nullptr};
    int value = 5;
    float factor = 2.0f;
    arguments[1] = &value, arguments[2] = &factor;
    clear(data);
    DRIVER(cuLaunchKernel(function, 1, 1, 1, k_threads, 1, 1, k_threads * sizeof(int), nullptr, arguments, nullptr));
    expect(data, 1, 5);
}

static void refusals() {
    CUfunction function = function_of(reinterpret_cast<const void*>(store)), empty = function_of(reinterpret_cast<const void*>(nothing));
    REFUSED(launch(empty), CUDA_ERROR_INVALID_VALUE);  // no shape yet
    REFUSED(set_block(empty, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
    DRIVER(set_block(empty, 1, 1, 1));
    DRIVER(launch(empty));
    REFUSED(launch_grid(function, 0, 1), CUDA_ERROR_INVALID_VALUE);
    REFUSED(launch_grid(function, 1, -1), CUDA_ERROR_INVALID_VALUE);
    REFUSED(set_int(function, -4, 1), CUDA_ERROR_INVALID_VALUE);
    REFUSED(set_size(function, 1u << 30), CUDA_ERROR_INVALID_VALUE);
    REFUSED(set_bytes(function, 0, nullptr, 8), CUDA_ERROR_INVALID_VALUE);
    DRIVER(set_block(function, 2000, 1, 1));
    REFUSED(launch_grid(function, 1, 1), CUDA_ERROR_INVALID_VALUE);  // no device runs such blocks
    DRIVER(cuCtxSynchronize());
}

int main() {
    CHECK(cudaFree(nullptr));
    launches();
    refusals();
    return passed("legacy launches");
}
