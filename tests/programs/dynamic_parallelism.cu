// Kernels that launch kernels: recursion, order within a stream, tail launches, parameters of all sizes, shared memory of a
// child, errors of a launch, memory functions of the device run time.
#include "check.h"

__device__ int log_count;

__global__ void append(int* log, int what) { log[atomicAdd(&log_count, 1)] = what; }

// Each child's own child comes before the next child of the same stream; tail launches come last.
__global__ void nested(int* log, int what) {
    log[atomicAdd(&log_count, 1)] = what;
    append<<<1, 1>>>(log, what + 1);
}

__global__ void ordered(int* log) {
    append<<<1, 1, 0, cudaStreamTailLaunch>>>(log, 900);
    for (int i = 0; i < 4; ++i) nested<<<1, 1>>>(log, 10 * i);
}

__global__ void sum_tree(const int* values, int first, int count, int* sum) {
    if (count <= 8) {
        for (int i = 0; i < count; ++i) atomicAdd(sum, values[first + i]);
        return;
    }
    cudaStream_t left, right;
    if (cudaStreamCreateWithFlags(&left, cudaStreamNonBlocking) != cudaSuccess) return;
    if (cudaStreamCreateWithFlags(&right, cudaStreamNonBlocking) != cudaSuccess) return;
    sum_tree<<<1, 1, 0, left>>>(values, first, count / 2, sum);
    sum_tree<<<1, 1, 0, right>>>(values, first + count / 2, count - count / 2, sum);
    cudaStreamDestroy(left);
    cudaStreamDestroy(right);
}

struct Large {
    double values[40];
    char tail;
};

// Shared memory of parent and child are different ones, both with static and dynamic parts.
__global__ void child_block(Large large, int* out, short factor) {
    extern __shared__ int dynamic[];
    __shared__ int fixed[64];
    fixed[threadIdx.x] = static_cast<int>(large.values[threadIdx.x % 40]) * factor;
    dynamic[blockDim.x - 1 - threadIdx.x] = fixed[threadIdx.x];
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = dynamic[threadIdx.x] + large.tail;
}

__global__ void parent_block(int* out) {
    __shared__ int other[1024];
    other[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x >= 2) return;
    Large large;
    for (int i = 0; i < 40; ++i) large.values[i] = i + other[threadIdx.x];
    large.tail = 7;
    child_block<<<dim3(3), dim3(64), 64 * sizeof(int)>>>(large, out + threadIdx.x * 192, 5);
}

__global__ void refused(int* errors) {
    append<<<1, 2048>>>(nullptr, 0);
    errors[0] = cudaGetLastError();
    errors[1] = cudaGetLastError();
    append<<<1, dim3(32, 33)>>>(nullptr, 0);
    errors[2] = cudaPeekAtLastError();
    int* memory = nullptr;
    errors[3] = cudaMalloc(&memory, 256);
    errors[4] = memory == nullptr;
    for (int i = 0; i < 64; ++i) memory[i] = 3 * i;
    cudaMemsetAsync(errors + 72, 0, 64, 0);  // the library's memset in device code writes zeros, whatever the value
    cudaMemcpyAsync(errors + 8, memory, 256, cudaMemcpyDeviceToDevice, 0);
}

static void test_order(int* device) {
    const int zero = 0;
    CHECK(cudaMemcpyToSymbol(log_count, &zero, sizeof zero));
    ordered<<<1, 1>>>(device);
    CHECK(cudaDeviceSynchronize());
    int log[9];
    CHECK(cudaMemcpy(log, device, sizeof log, cudaMemcpyDeviceToHost));
    const int expected[9] = {0, 1, 10, 11, 20, 21, 30, 31, 900};
    for (int i = 0; i < 9; ++i) EXPECT_EQ(log[i], expected[i]);
}

static void test_recursion(int* device) {
    std::vector<int> values(1000);
    int expected = 0;
    for (int i = 0; i < 1000; ++i) expected += values[i] = i * i % 97;
    CHECK(cudaMemcpy(device + 1, values.data(), 4000, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(device, 0, 4));
    sum_tree<<<1, 1>>>(device + 1, 0, 1000, device);
    CHECK(cudaDeviceSynchronize());
    int sum = 0;
    CHECK(cudaMemcpy(&sum, device, 4, cudaMemcpyDeviceToHost));
    EXPECT_EQ(sum, expected);
}

static void test_blocks(int* device) {
    parent_block<<<1, 1024>>>(device);
    CHECK(cudaDeviceSynchronize());
    std::vector<int> out(384);
    CHECK(cudaMemcpy(out.data(), device, 384 * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 384; ++i) EXPECT_EQ(out[i], ((63 - i % 64) % 40 + i / 192) * 5 + 7);
}

static void test_errors(int* device) {
    CHECK(cudaMemset(device, 0xff, 4096));
    refused<<<1, 1>>>(device);
    CHECK(cudaDeviceSynchronize());
    int errors[96];
    CHECK(cudaMemcpy(errors, device, sizeof errors, cudaMemcpyDeviceToHost));
    EXPECT_EQ(errors[0], static_cast<int>(cudaErrorInvalidConfiguration));
    EXPECT_EQ(errors[1], 0);
    EXPECT_EQ(errors[2], static_cast<int>(cudaErrorInvalidConfiguration));
    EXPECT_EQ(errors[3], 0);
    EXPECT_EQ(errors[4], 0);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(errors[8 + i], 3 * i);
    for (int i = 0; i < 24; ++i) EXPECT_EQ(errors[72 + i], i < 16 ? 0 : -1);
}

int main() {
    int* device;
    CHECK(cudaMalloc(&device, 1 << 16));
    test_order(device);
    test_recursion(device);
    test_blocks(device);
    test_errors(device);
    CHECK(cudaFree(device));
    std::printf("verified\n");
    return 0;
}
