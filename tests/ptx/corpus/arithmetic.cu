// Integer and floating-point arithmetic of every width, conversions, and the intrinsics that map to one instruction.
#include <cstdint>

extern "C" __global__ void integer_ops(const int* a, const int* b, long long* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = a[i], y = b[i];
    unsigned ux = static_cast<unsigned>(x), uy = static_cast<unsigned>(y);
    long long wide = static_cast<long long>(x) * y;
    out[i * 8 + 0] = wide + __mulhi(x, y) + __umulhi(ux, uy);
    out[i * 8 + 1] = (y ? x / y : 0) + (uy ? ux % uy : 0);
    out[i * 8 + 2] = __clz(x) + __popc(ux) + __ffs(x) + __brev(ux);
    out[i * 8 + 3] = __byte_perm(ux, uy, 0x5140) + __funnelshift_l(ux, uy, 7) + __funnelshift_rc(ux, uy, 40);
    out[i * 8 + 4] = min(x, y) + max(ux, uy) + abs(x) + __sad(x, y, 3u) + __usad(ux, uy, 4u);
    out[i * 8 + 5] = (wide >> (y & 63)) ^ (wide << (x & 63)) | (wide & ~static_cast<long long>(y));
    out[i * 8 + 6] = __mul24(x, y) + __umul24(ux, uy) + __hadd(x, y) + __rhadd(x, y);
    out[i * 8 + 7] = wide / (y | 1) + wide % (x | 1) + static_cast<long long>(static_cast<unsigned long long>(wide) / (uy | 1));
}

extern "C" __global__ void narrow_ops(const signed char* a, const unsigned short* b, short* out, unsigned char* bytes) {
    int i = threadIdx.x;
    signed char c = a[i];
    unsigned short s = b[i];
    out[i] = static_cast<short>(c * s + (s >> 3));
    bytes[i] = static_cast<unsigned char>(c ^ s);
}

extern "C" __global__ void wide_ops(const unsigned __int128* a, unsigned __int128* out) {
    int i = threadIdx.x;
    out[i] = a[i] * a[i + 1] + (a[i] >> 5) - (a[i + 1] << 3);
}

template <typename T>
__device__ T polynomial(T x) {
    return ((x * T(3) + T(2)) * x - T(1)) * x + T(0.5);
}

extern "C" __global__ void float_ops(const float* a, const double* b, float* fout, double* dout) {
    int i = threadIdx.x;
    float x = a[i];
    double y = b[i];
    fout[i * 8 + 0] = polynomial(x) / (x + 1.0f);
    fout[i * 8 + 1] = __fadd_rz(x, 1.5f) + __fmul_ru(x, 2.5f) + __fmaf_rd(x, x, 1.0f) + __fdiv_rz(x, 3.0f);
    fout[i * 8 + 2] = __frcp_rn(x) + __fsqrt_rn(x) + __frsqrt_rn(x) + __saturatef(x);
    fout[i * 8 + 3] = fminf(x, 2.0f) + fmaxf(x, -2.0f) + fabsf(x) + copysignf(1.0f, x) + truncf(x) + rintf(x) + ceilf(x) + floorf(x);
    fout[i * 8 + 4] = __expf(x) + __logf(x) + __sinf(x) + __cosf(x) + __fdividef(x, 7.0f) + __powf(x, 2.0f);
    fout[i * 8 + 5] = static_cast<float>(y) + __double2float_rz(y) + __int2float_ru(i) + __ull2float_rd(i);
    fout[i * 8 + 6] = isnan(x) ? 1.0f : (isinf(x) ? 2.0f : __int_as_float(__float_as_int(x) ^ 1));
    fout[i * 8 + 7] = static_cast<float>(__float2int_rz(x) + __float2uint_rn(x) + __float2ll_rd(x));
    dout[i * 4 + 0] = polynomial(y) / (y + 2.0);
    dout[i * 4 + 1] = __dadd_rz(y, 0.1) + __dmul_ru(y, 0.3) + __fma_rd(y, y, 0.7) + __ddiv_rn(y, 3.0);
    dout[i * 4 + 2] = sqrt(y) + fabs(y) + fmin(y, 1.0) + fmax(y, 2.0) + __hiloint2double(i, __double2loint(y));
    dout[i * 4 + 3] = static_cast<double>(__double2int_rn(y)) + static_cast<double>(__double2ull_rz(y)) + x;
}

extern "C" __global__ void carries(const uint64_t* a, const uint64_t* b, uint64_t* out) {
    uint64_t low, high;
    asm("add.cc.u64 %0, %2, %3;\n\taddc.u64 %1, %4, %5;" : "=l"(low), "=l"(high) : "l"(a[0]), "l"(b[0]), "l"(a[1]), "l"(b[1]));
    out[0] = low;
    out[1] = high;
    unsigned x, y;
    asm("mad.lo.cc.u32 %0, %2, %3, %4;\n\tmadc.hi.u32 %1, %2, %3, 0;"
        : "=r"(x), "=r"(y)
        : "r"(unsigned(a[0])), "r"(unsigned(b[0])), "r"(unsigned(a[1])));
    out[2] = x + uint64_t(y);
    asm("sub.cc.u32 %0, %2, %3;\n\tsubc.u32 %1, %2, 0;" : "=r"(x), "=r"(y) : "r"(unsigned(a[1])), "r"(unsigned(b[1])));
    out[3] = x ^ y;
}

extern "C" __global__ void packed_ops(const unsigned* a, unsigned* out) {
    int i = threadIdx.x;
    unsigned x = a[i], y = a[i + 1];
    out[i * 4] = __vadd4(x, y) + __vabsdiffu4(x, y) + __vmaxs2(x, y) + __vcmpeq4(x, y);
    out[i * 4 + 1] = __dp4a(int(x), int(y), 7) + __dp2a_lo(int(x), int(y), 9);
    unsigned v;
    asm("vadd.u32.u32.u32.sat %0, %1.b0, %2.h1;" : "=r"(v) : "r"(x), "r"(y));
    out[i * 4 + 2] = v;
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(v) : "r"(x), "r"(y), "r"(1u));
    out[i * 4 + 3] = v;
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(v) : "r"(x), "r"(y), "r"(v));
    out[i * 4 + 3] ^= v;
    asm("bfe.u32 %0, %1, 3, 7; bfi.b32 %0, %0, %2, 4, 9;" : "=&r"(v) : "r"(x), "r"(y));
    out[i * 4 + 2] ^= v;
}
