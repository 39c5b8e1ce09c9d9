// Sums and products rounded down, up or towards zero: expf() and roundf() have one each. PTX ISA: add, sub, mul, fma.
// Other instructions with such a rounding are in isa/float_ops.cpp.
#include "softgpu/isa/level/level.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

#if defined(__AVX512F__)

namespace {

// The rounding is part of the processor's instruction.
constexpr int k_down = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
constexpr int k_up = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
constexpr int k_zero = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

template <typename T>
struct Vector;
template <>
struct Vector<f32> {
    using Type = __m512;
    WL_INLINE static Type load(const f32* from) { return _mm512_loadu_ps(from); }
    WL_INLINE static void store(f32* to, Type value) { _mm512_storeu_ps(to, value); }
    /// One quiet NaN for every invalid operation.
    WL_INLINE static Type finish(Type value) {
        const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fffffff));
        return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q), value, nan);
    }
};
template <>
struct Vector<f64> {
    using Type = __m512d;
    WL_INLINE static Type load(const f64* from) { return _mm512_loadu_pd(from); }
    WL_INLINE static void store(f64* to, Type value) { _mm512_storeu_pd(to, value); }
    WL_INLINE static Type finish(Type value) { return value; }
};

// All lanes' masks are written out: gcc warns about the forms without.
constexpr __mmask16 k_all16 = 0xffff;
constexpr __mmask8 k_all8 = 0xff;

template <int Mode>
struct Add {
    WL_INLINE static __m512 run(__m512 a, __m512 b, __m512) { return _mm512_maskz_add_round_ps(k_all16, a, b, Mode); }
    WL_INLINE static __m512d run(__m512d a, __m512d b, __m512d) { return _mm512_maskz_add_round_pd(k_all8, a, b, Mode); }
};
template <int Mode>
struct Sub {
    WL_INLINE static __m512 run(__m512 a, __m512 b, __m512) { return _mm512_maskz_sub_round_ps(k_all16, a, b, Mode); }
    WL_INLINE static __m512d run(__m512d a, __m512d b, __m512d) { return _mm512_maskz_sub_round_pd(k_all8, a, b, Mode); }
};
template <int Mode>
struct Mul {
    WL_INLINE static __m512 run(__m512 a, __m512 b, __m512) { return _mm512_maskz_mul_round_ps(k_all16, a, b, Mode); }
    WL_INLINE static __m512d run(__m512d a, __m512d b, __m512d) { return _mm512_maskz_mul_round_pd(k_all8, a, b, Mode); }
};
template <int Mode>
struct Fma {
    WL_INLINE static __m512 run(__m512 a, __m512 b, __m512 c) { return _mm512_maskz_fmadd_round_ps(k_all16, a, b, c, Mode); }
    WL_INLINE static __m512d run(__m512d a, __m512d b, __m512d c) { return _mm512_maskz_fmadd_round_pd(k_all8, a, b, c, Mode); }
};

template <typename Op, typename T, unsigned Sources>
Flow rounded(Warp& w, const Instr& i, uint32_t mask) {
    using V = Vector<T>;
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    const T* c = Sources == 3 ? source<T>(w, i.op[3]) : a;
    T* d = dest<T>(w, i.op[0]);
    alignas(64) T computed[32];
    T* to = mask == k_full_mask ? d : computed;
    for (uint32_t l = 0; l < 32; l += 64 / sizeof(T))
        V::store(to + l, V::finish(Op::run(V::load(a + l), V::load(b + l), V::load(c + l))));
    if (to != d) [[unlikely]]
        Select<sizeof(T)>::run(d, computed, d, mask);
    return Flow::next;
}

#define WL_ROUNDED2(name, Op, T, type) \
    { name type, &rounded<Op, T, 2>, {out(sizeof(T)), in(sizeof(T)), in(sizeof(T))}, 0 }
#define WL_ROUNDED3(name, Op, T, type) \
    { name type, &rounded<Op, T, 3>, {out(sizeof(T)), in(sizeof(T)), in(sizeof(T)), in(sizeof(T))}, 0 }
#define WL_MODES(WL_X, name, Op, T, type) \
    WL_X(name ".rm", Op<k_down>, T, type), WL_X(name ".rp", Op<k_up>, T, type), WL_X(name ".rz", Op<k_zero>, T, type)
#define WL_TYPES(WL_X, name, Op) WL_MODES(WL_X, name, Op, f32, ".f32"), WL_MODES(WL_X, name, Op, f64, ".f64")

const Row k_rows[] = {
    WL_TYPES(WL_ROUNDED2, "add", Add),
    WL_TYPES(WL_ROUNDED2, "sub", Sub),
    WL_TYPES(WL_ROUNDED2, "mul", Mul),
    WL_TYPES(WL_ROUNDED3, "fma", Fma),
};

}  // namespace

Rows rounding_rows() { return WL_ROWS(k_rows); }

#else

/// None: changing the processor's mode, as isa/float_ops.cpp does, is as good there.
Rows rounding_rows() { return Rows{nullptr, 0}; }

#endif

}  // namespace warpline::softgpu::isa::WL_LEVEL
