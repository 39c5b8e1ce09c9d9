// Half and bfloat16 arithmetic and conversions, scalar and in pairs.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "check.h"

__global__ void halves(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half x = __float2half_rn(a[i]), y = __float2half_rn(b[i]);
    out[0 * n + i] = __half2float(__hadd(x, y));
    out[1 * n + i] = __half2float(__hmul(x, y));
    out[2 * n + i] = __half2float(__hfma(x, y, __float2half_rn(0.5f)));
    __half2 pair = __halves2half2(x, y), twice = __hadd2(pair, pair);
    out[3 * n + i] = __low2float(twice) + __high2float(twice);
    out[4 * n + i] = __hlt(x, y) ? 1.0f : __heq(x, y) ? 0.5f : 0.0f;
    __nv_bfloat16 p = __float2bfloat16_rn(a[i]), q = __float2bfloat16_rn(b[i]);
    out[5 * n + i] = __bfloat162float(p) + __bfloat162float(__hmax(p, q));
    out[6 * n + i] = static_cast<float>(__half2int_rz(x)) + static_cast<float>(__half2ushort_rn(__habs(y)));
    out[7 * n + i] = __half2float(hsqrt(__habs(x)));
}

int main() {
    const int n = 512;
    std::vector<float> a(n), b(n);
    Random random(21);
    // Multiples of 1/8 below 32: sums are exact in half precision, products within 11 bits are too for the small ones.
    for (int i = 0; i < n; ++i) a[i] = static_cast<float>(static_cast<int>(random.next() % 64) - 32) / 8, b[i] = static_cast<float>(static_cast<int>(random.next() % 64) - 32) / 8;
    DeviceArray<float> da(a), db(b), dout(8 * n);
    halves<<<(n + 63) / 64, 64>>>(da.data(), db.data(), dout.data(), n);
    CHECK(cudaGetLastError());
    auto out = dout.download();
    for (int i = 0; i < n; ++i) {
        EXPECT_EQ(out[0 * n + i], a[i] + b[i]);
        EXPECT_EQ(out[1 * n + i], a[i] * b[i]);
        EXPECT_EQ(out[2 * n + i], a[i] * b[i] + 0.5f);
        EXPECT_EQ(out[3 * n + i], 2 * a[i] + 2 * b[i]);
        EXPECT_EQ(out[4 * n + i], a[i] < b[i] ? 1.0f : a[i] == b[i] ? 0.5f : 0.0f);
        EXPECT_EQ(out[5 * n + i], a[i] + std::fmax(a[i], b[i]));
        EXPECT_EQ(out[6 * n + i], std::trunc(a[i]) + std::nearbyint(std::fabs(b[i])));
        EXPECT(std::fabs(out[7 * n + i] - std::sqrt(std::fabs(a[i]))) <= 0.001f * (1 + std::sqrt(std::fabs(a[i]))));
    }
    return passed("half precision");
}
