// Constant memory, device globals with initialisers, copies to and from symbols, symbol addresses.
#include "check.h"

__constant__ float coefficients[8];
__constant__ int offset = 7;
__device__ int counter = 40;
__device__ float table[256];
__device__ const char greeting[] = "warp";
struct Pair {
    int first;
    double second;
};
__device__ Pair pair = {3, 0.25};

__global__ void polynomial(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = 0;
    for (int k = 7; k >= 0; --k) value = value * x[i] + coefficients[k];
    y[i] = value + static_cast<float>(offset);
    atomicAdd(&counter, 1);
    if (i < 256) table[i] = static_cast<float>(i) * static_cast<float>(pair.second) + greeting[i % 4];
}

int main() {
    const int n = 1000;
    float host_coefficients[8];
    for (int k = 0; k < 8; ++k) host_coefficients[k] = static_cast<float>(k % 3 + 1);
    CHECK(cudaMemcpyToSymbol(coefficients, host_coefficients, sizeof(host_coefficients)));
    std::vector<float> x(n);
    for (int i = 0; i < n; ++i) x[i] = static_cast<float>(i % 5) * 0.5f;
    DeviceArray<float> dx(x), dy(n);
    polynomial<<<(n + 127) / 128, 128>>>(dx.data(), dy.data(), n);
    CHECK(cudaGetLastError());
    auto y = dy.download();
    for (int i = 0; i < n; ++i) {
        float value = 0;
        for (int k = 7; k >= 0; --k) value = std::fma(value, x[i], host_coefficients[k]);
        EXPECT_EQ(y[i], value + 7.0f);
    }
    int count = 0;
    CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof(count)));
    EXPECT_EQ(count, 40 + n);
    float host_table[256];
    CHECK(cudaMemcpyFromSymbol(host_table, table, sizeof(host_table)));
    for (int i = 0; i < 256; ++i) EXPECT_EQ(host_table[i], static_cast<float>(i) * 0.25f + "warp"[i % 4]);
    void* address = nullptr;
    size_t size = 0;
    CHECK(cudaGetSymbolAddress(&address, counter));
    CHECK(cudaGetSymbolSize(&size, table));
    EXPECT_EQ(size, sizeof(host_table));
    count = -5;
    CHECK(cudaMemcpy(address, &count, sizeof(count), cudaMemcpyHostToDevice));
    polynomial<<<1, 32>>>(dx.data(), dy.data(), 32);
    CHECK(cudaMemcpy(&count, address, sizeof(count), cudaMemcpyDeviceToHost));
    EXPECT_EQ(count, 27);
    return passed("constants and globals");
}
