// Arithmetic of .f16, .f16x2, .bf16 and .bf16x2. PTX ISA: Half Precision Floating Point Instructions.
#include "softgpu/isa/level/half_lanes.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

struct Add {
    WL_INLINE static float run(float a, float b) { return a + b; }
};
struct Sub {
    WL_INLINE static float run(float a, float b) { return a - b; }
};
struct Mul {
    WL_INLINE static float run(float a, float b) { return a * b; }
};

template <typename F, unsigned N, typename Op, unsigned Flags>
Flow arithmetic(Warp& w, const Instr& i, uint32_t mask) {
    constexpr bool k_ftz = (Flags & half_ftz) != 0;
    alignas(64) float a[N], b[N];
    alignas(64) uint16_t out[N];
    widen_row<F, N, k_ftz>(a, source<uint16_t>(w, i.op[1]));
    widen_row<F, N, k_ftz>(b, source<uint16_t>(w, i.op[2]));
    WL_EACH(l, N) a[l] = Op::run(a[l], b[l]);
    narrow_row<F, N, Flags>(out, a);
    return put_row<N>(w, i.op[0], mask, out);
}

// Rounding to odd: what is cut off is remembered in the last bit, so that rounding again, to fewer bits, is right.

WL_INLINE double odd_sum(double a, double b) {
    double sum = a + b, of_b = sum - a;
    double error = (a - (sum - of_b)) + (b - of_b);
    auto bits = __builtin_bit_cast(uint64_t, sum);
    const bool inexact = (error < 0) | (error > 0);
    const bool away = (error > 0) == (sum > 0);
    bits += (inexact & ((bits & 1) == 0)) ? (away ? uint64_t{1} : ~uint64_t{0}) : uint64_t{0};
    return __builtin_bit_cast(double, bits);
}
WL_INLINE float odd_float(double value) {
    auto near = float(value);
    double error = value - double(near);
    uint32_t bits = bits_of(near);
    const bool inexact = (error < 0) | (error > 0);
    const bool away = (error > 0) == ((bits >> 31) == 0);
    bits += (inexact & ((bits & 1) == 0)) ? (away ? 1u : ~0u) : 0u;
    return float_of(bits);
}

template <typename F, unsigned N, unsigned Flags>
Flow multiply_add(Warp& w, const Instr& i, uint32_t mask) {
    constexpr bool k_ftz = (Flags & half_ftz) != 0;
    alignas(64) float a[N], b[N], c[N];
    alignas(64) uint16_t out[N];
    widen_row<F, N, k_ftz>(a, source<uint16_t>(w, i.op[1]));
    widen_row<F, N, k_ftz>(b, source<uint16_t>(w, i.op[2]));
    widen_row<F, N, k_ftz>(c, source<uint16_t>(w, i.op[3]));
    WL_EACH(l, N) a[l] = odd_float(odd_sum(double(a[l]) * double(b[l]), double(c[l])));
    narrow_row<F, N, Flags>(out, a);
    return put_row<N>(w, i.op[0], mask, out);
}

enum MinMaxFlag : unsigned { minmax_ftz = 1, minmax_nan = 2, minmax_xorsign = 4 };

// Of equal values (zeros) the minimum is the one with a sign, the maximum the one without.
struct Min {
    WL_INLINE static float run(float a, float b) { return a < b ? a : b < a ? b : float_of(bits_of(a) | bits_of(b)); }
};
struct Max {
    WL_INLINE static float run(float a, float b) { return a > b ? a : b > a ? b : float_of(bits_of(a) & bits_of(b)); }
};

template <typename Op, unsigned Flags>
WL_INLINE float min_max_one(float a, float b) {
    const bool nan_a = a != a, nan_b = b != b;
    const uint32_t sign = (bits_of(a) ^ bits_of(b)) & 0x80000000u;
    if constexpr ((Flags & minmax_xorsign) != 0) {
        a = __builtin_fabsf(a);
        b = __builtin_fabsf(b);
    }
    float out = Op::run(a, b);
    out = nan_a ? b : out;
    out = nan_b ? a : out;
    const bool nan = (Flags & minmax_nan) != 0 ? nan_a | nan_b : nan_a & nan_b;
    if constexpr ((Flags & minmax_xorsign) != 0) out = float_of((bits_of(out) & 0x7fffffffu) | sign);
    return nan ? float_of(0x7fffffffu) : out;
}

template <typename F, unsigned N, typename Op, unsigned Flags>
Flow min_max(Warp& w, const Instr& i, uint32_t mask) {
    constexpr bool k_ftz = (Flags & minmax_ftz) != 0;
    alignas(64) float a[N], b[N];
    alignas(64) uint16_t out[N];
    widen_row<F, N, k_ftz>(a, source<uint16_t>(w, i.op[1]));
    widen_row<F, N, k_ftz>(b, source<uint16_t>(w, i.op[2]));
    WL_EACH(l, N) a[l] = min_max_one<Op, Flags>(a[l], b[l]);
    narrow_row<F, N, 0>(out, a);
    return put_row<N>(w, i.op[0], mask, out);
}

struct Neg {
    WL_INLINE static uint16_t run(uint16_t a) { return a ^ 0x8000u; }
};
struct Abs {
    WL_INLINE static uint16_t run(uint16_t a) { return a & 0x7fffu; }
};

template <typename F, unsigned N, typename Op, bool Ftz>
Flow sign(Warp& w, const Instr& i, uint32_t mask) {
    const auto* a = source<uint16_t>(w, i.op[1]);
    alignas(64) uint16_t out[N];
    WL_EACH(l, N) out[l] = flush<F, Ftz>(Op::run(a[l]));
    return put_row<N>(w, i.op[0], mask, out);
}

// --- the table. "type" is the last word of a name; n the values of a row; a lane of a row of n has n / 16 bytes.

#define WL_HALF_2(name, type, F, n, op, flags) \
    { name type, &arithmetic<F, n, op, flags>, {out(n / 16), in(n / 16), in(n / 16)}, 0 }
#define WL_ROUND_2(name, words, type, F, n, op, flags) \
    WL_HALF_2(name words, type, F, n, op, flags), WL_HALF_2(name ".rn" words, type, F, n, op, flags)
#define WL_F16_2(name, type, n, op)                                                                  \
    WL_ROUND_2(name, "", type, F16, n, op, 0), WL_ROUND_2(name, ".ftz", type, F16, n, op, half_ftz), \
        WL_ROUND_2(name, ".sat", type, F16, n, op, half_sat),                                        \
        WL_ROUND_2(name, ".ftz.sat", type, F16, n, op, half_ftz | half_sat)
#define WL_ARITHMETIC(name, op)                                                                                       \
    WL_F16_2(name, ".f16", 32, op), WL_F16_2(name, ".f16x2", 64, op), WL_ROUND_2(name, "", ".bf16", BF16, 32, op, 0), \
        WL_ROUND_2(name, "", ".bf16x2", BF16, 64, op, 0)

#define WL_FMA(words, type, F, n, flags) \
    { "fma.rn" words type, &multiply_add<F, n, flags>, {out(n / 16), in(n / 16), in(n / 16), in(n / 16)}, 0 }
#define WL_FMA_F16(type, n)                                                                                      \
    WL_FMA("", type, F16, n, 0), WL_FMA(".ftz", type, F16, n, half_ftz), WL_FMA(".sat", type, F16, n, half_sat), \
        WL_FMA(".ftz.sat", type, F16, n, half_ftz | half_sat), WL_FMA(".relu", type, F16, n, half_relu),         \
        WL_FMA(".ftz.relu", type, F16, n, half_ftz | half_relu)
#define WL_FMA_BF16(type, n) WL_FMA("", type, BF16, n, 0), WL_FMA(".relu", type, BF16, n, half_relu)

#define WL_MINMAX(name, words, type, F, n, op, flags) \
    { name words type, &min_max<F, n, op, flags>, {out(n / 16), in(n / 16), in(n / 16)}, 0 }
#define WL_MINMAX_ALL(name, type, F, n, op)                                                      \
    WL_MINMAX(name, "", type, F, n, op, 0), WL_MINMAX(name, ".NaN", type, F, n, op, minmax_nan), \
        WL_MINMAX(name, ".xorsign.abs", type, F, n, op, minmax_xorsign),                         \
        WL_MINMAX(name, ".NaN.xorsign.abs", type, F, n, op, minmax_nan | minmax_xorsign)
#define WL_MINMAX_FTZ(name, type, n, op)                                                    \
    WL_MINMAX(name, ".ftz", type, F16, n, op, minmax_ftz),                                  \
        WL_MINMAX(name, ".ftz.NaN", type, F16, n, op, minmax_ftz | minmax_nan),             \
        WL_MINMAX(name, ".ftz.xorsign.abs", type, F16, n, op, minmax_ftz | minmax_xorsign), \
        WL_MINMAX(name, ".ftz.NaN.xorsign.abs", type, F16, n, op, minmax_ftz | minmax_nan | minmax_xorsign)
#define WL_MINMAX_TYPES(name, op)                                                                 \
    WL_MINMAX_ALL(name, ".f16", F16, 32, op), WL_MINMAX_ALL(name, ".f16x2", F16, 64, op),         \
        WL_MINMAX_ALL(name, ".bf16", BF16, 32, op), WL_MINMAX_ALL(name, ".bf16x2", BF16, 64, op), \
        WL_MINMAX_FTZ(name, ".f16", 32, op), WL_MINMAX_FTZ(name, ".f16x2", 64, op)

#define WL_SIGN(name, type, F, n, op, ftz) \
    { name type, &sign<F, n, op, ftz>, {out(n / 16), in(n / 16)}, 0 }
#define WL_SIGN_TYPES(name, op)                                                                             \
    WL_SIGN(name, ".f16", F16, 32, op, false), WL_SIGN(name, ".f16x2", F16, 64, op, false),                 \
        WL_SIGN(name ".ftz", ".f16", F16, 32, op, true), WL_SIGN(name ".ftz", ".f16x2", F16, 64, op, true), \
        WL_SIGN(name, ".bf16", BF16, 32, op, false), WL_SIGN(name, ".bf16x2", BF16, 64, op, false)

const Row k_rows[] = {
    WL_ARITHMETIC("add", Add),   WL_ARITHMETIC("sub", Sub), WL_ARITHMETIC("mul", Mul),  WL_FMA_F16(".f16", 32),
    WL_FMA_F16(".f16x2", 64),    WL_FMA_BF16(".bf16", 32),  WL_FMA_BF16(".bf16x2", 64), WL_MINMAX_TYPES("min", Min),
    WL_MINMAX_TYPES("max", Max), WL_SIGN_TYPES("neg", Neg), WL_SIGN_TYPES("abs", Abs),
};

}  // namespace

Rows half_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
