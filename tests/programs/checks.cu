// Mistakes that the checkers of the software GPU name (SOFTGPU_CHECK); without them only some have consequences.
// Argument: which mistake. Each is on a line that says so, which tests look for.
#include <cstring>

#include "check.h"

constexpr int k_count = 100;

__global__ void beyond(int* out) {
    out[threadIdx.x] = 1;  // line of: bounds
}

__global__ void misaligned(char* out) {
    *reinterpret_cast<int*>(out + 2 * threadIdx.x) = 1;  // line of: misaligned
}

__global__ void beyond_shared(int* out, int index) {
    __shared__ int words[32];
    words[threadIdx.x + index] = threadIdx.x;  // line of: shared
    __syncthreads();
    out[threadIdx.x] = words[31 - threadIdx.x];
}

__global__ void beyond_local(int* out, int index) {
    int words[8];
    for (int i = 0; i < 8; ++i) words[i] = out[i];
    for (int i = 0; i < 8; ++i) words[(i * index) % 9 + index] += 1;  // line of: local
    for (int i = 0; i < 8; ++i) out[i] = words[i];
}

__global__ void reverse(int* out) {
    __shared__ int words[128];
    words[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = words[127 - threadIdx.x];  // line of: race
}

__global__ void twice(int* out, const int* in) {
    out[threadIdx.x] = 2 * in[threadIdx.x];  // line of: uninitialised
}

__global__ void unset_shared(int* out, int last) {
    __shared__ int words[64];
    if (threadIdx.x < last) words[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = words[threadIdx.x];  // line of: unset
}

static bool is(const char* a, const char* b) { return std::strcmp(a, b) == 0; }

int main(int argc, char** argv) {
    const char* which = argc > 1 ? argv[1] : "";
    int *a, *b;
    CHECK(cudaMalloc(&a, k_count * sizeof(int)));
    CHECK(cudaMalloc(&b, 128 * sizeof(int)));
    CHECK(cudaMemset(b, 0, 128 * sizeof(int)));
    cudaError_t expected = cudaSuccess;
    if (is(which, "bounds") || is(which, "freed")) {
        if (is(which, "freed")) CHECK(cudaFree(a));
        beyond<<<1, is(which, "freed") ? 1 : k_count + 1>>>(a);
        expected = cudaErrorIllegalAddress;
    } else if (is(which, "misaligned")) {
        misaligned<<<1, 4>>>(reinterpret_cast<char*>(a));
        expected = cudaErrorMisalignedAddress;
    } else if (is(which, "shared")) {
        beyond_shared<<<1, 32>>>(b, 1);
        expected = cudaErrorIllegalAddress;
    } else if (is(which, "local")) {
        beyond_local<<<1, 1>>>(b, 9);
        expected = cudaErrorIllegalAddress;
    } else if (is(which, "race")) {
        reverse<<<1, 128>>>(b);
    } else if (is(which, "uninitialised")) {
        CHECK(cudaMemset(a, 0, 40 * sizeof(int)));
        twice<<<1, k_count>>>(b, a);
    } else if (is(which, "unset")) {
        unset_shared<<<2, 64>>>(b, 60);
    } else if (is(which, "host_copy")) {
        int host[k_count];
        beyond<<<1, k_count - 1>>>(a);
        CHECK(cudaMemcpy(host, a, sizeof(host), cudaMemcpyDeviceToHost));
    }
    cudaError_t error = cudaDeviceSynchronize();
    if (expected != cudaSuccess) {
        EXPECT(error == expected);
    } else {
        CHECK(error);
        if (!is(which, "leak")) CHECK(cudaFree(a));
        CHECK(cudaFree(b));
    }
    return passed("checks");
}
