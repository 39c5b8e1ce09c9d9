// Half, bfloat16 and fp8: scalar, packed, conversions and atomics.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void halves(const __half* a, const __half2* b, __half* out, __half2* out2) {
    int i = threadIdx.x;
    __half x = a[i], y = a[i + 1];
    out[i] = __hadd(x, y) * x - __hdiv(y, x) + __hfma(x, y, x) + hsqrt(x) + hexp(y) + __float2half_rz(1.1f) + __hmin(x, y) + __habs(y);
    out[i + 64] = hsin(x) + htrunc(y) + __int2half_rn(i) + __ushort_as_half(0x3c01);
    if (__hgt(x, y) || __hisnan(x)) out[i + 128] = __hneg(x);
    __half2 p = b[i];
    out2[i] = __hfma2(p, p, __half2half2(x)) + __hmul2_sat(p, p) + __lowhigh2highlow(p) + h2rcp(p) + __hmax2(p, out2[i]);
    out[i + 192] = __float2half(__low2float(p) + __half2float(x));
    atomicAdd(out + 300, x);
    atomicAdd(out2 + 300, p);
    out[i + 400] = __hge2(p, p).x + __half(__half2int_rz(x)) + __half(__hbgt2(p, p));
}

extern "C" __global__ void brain(const __nv_bfloat16* a, const __nv_bfloat162* b, __nv_bfloat16* out, __nv_bfloat162* out2) {
    int i = threadIdx.x;
    __nv_bfloat16 x = a[i], y = a[i + 1];
    out[i] = x * y + x - __hfma(x, y, x) + __float2bfloat16_rn(0.3f) + __hmax(x, y);
    out2[i] = __hfma2(b[i], b[i], b[i + 1]) + __hmin2(b[i], b[i + 1]) + __floats2bfloat162_rn(1.0f, float(i));
    out[i + 64] = __float2bfloat16(__bfloat162float(x) * 2.0f);
#if __CUDA_ARCH__ >= 800
    atomicAdd(out + 300, x);
    atomicAdd(out2 + 300, b[i]);
    out[i + 128] = hexp2(x);
#endif
}

extern "C" __global__ void eighths(const float* a, __nv_fp8_e4m3* e4, __nv_fp8x2_e5m2* e5, float2* out) {
    int i = threadIdx.x;
    e4[i] = __nv_fp8_e4m3(a[i]);
    e5[i] = __nv_fp8x2_e5m2(make_float2(a[i], a[i + 1]));
    out[i] = static_cast<float2>(e5[i]);
    out[i].x += static_cast<float>(e4[i]);
}
