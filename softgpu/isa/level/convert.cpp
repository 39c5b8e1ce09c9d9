// The hot part of cvt: between rows of their natural width, without saturation, round to nearest or to zero.
#include "softgpu/isa/level/level.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

/// What a row of T is kept in: 8-bit values live in 16-bit rows.
template <typename T>
struct RowOf {
    using type = T;
};
template <>
struct RowOf<u8> {
    using type = u16;
};
template <>
struct RowOf<s8> {
    using type = s16;
};
template <typename T>
using RowType = typename RowOf<T>::type;

template <typename D, typename S>
Flow plain(Warp& w, const Instr& i, uint32_t mask) {
    const auto* a = source<RowType<S>>(w, i.op[1]);
    return fill(dest<RowType<D>>(w, i.op[0]), mask, [=](uint32_t l) { return RowType<D>(D(S(a[l]))); });
}

enum class To { nearest, zero, down, up };

template <To Way, typename S>
WL_INLINE S rounded(S value) {
    if constexpr (sizeof(S) == 4) {
        if constexpr (Way == To::nearest) return __builtin_rintf(value);
        if constexpr (Way == To::zero) return __builtin_truncf(value);
        if constexpr (Way == To::down) return __builtin_floorf(value);
        return __builtin_ceilf(value);
    } else {
        if constexpr (Way == To::nearest) return __builtin_rint(value);
        if constexpr (Way == To::zero) return __builtin_trunc(value);
        if constexpr (Way == To::down) return __builtin_floor(value);
        return __builtin_ceil(value);
    }
}

/// A whole number within the range of D, or 0.
template <typename D>
WL_INLINE D whole(double value) {
    return D(value);
}
template <>
WL_INLINE u32 whole(double value) {
#if defined(__AVX512F__)
    return u32(value);
#else
    return u32(__builtin_bit_cast(u64, value + 0x1p52));  // the low bits of 2^52 + x are x
#endif
}

/// Floating point to an integer: saturating, NaN to zero. Bounds are powers of two: exact in every type.
template <typename D, typename S, To Way>
Flow to_integer(Warp& w, const Instr& i, uint32_t mask) {
    constexpr bool k_signed = D(-1) < D(0);
    constexpr S k_below = k_signed ? S(-0x1p31) * (sizeof(D) == 8 ? S(0x1p32) : S(1)) : S(0);
    constexpr S k_above = (k_signed ? S(0x1p31) : S(0x1p32)) * (sizeof(D) == 8 ? S(0x1p32) : S(1));
    constexpr D k_largest = k_signed ? D(~(D(1) << (sizeof(D) * 8 - 1))) : D(-1);
    constexpr D k_smallest = k_signed ? D(D(1) << (sizeof(D) * 8 - 1)) : D(0);
    const S* a = source<S>(w, i.op[1]);
    return fill(dest<D>(w, i.op[0]), mask, [=](uint32_t l) {
        const S value = rounded<Way>(a[l]);
        const D inside = whole<D>(value >= k_below && value < k_above ? value : S(0));
        const D above = value >= k_above ? k_largest : inside;
        return value < k_below ? k_smallest : above;
    });
}

/// To f32 the GPU's one NaN.
WL_INLINE f32 canonical(f32 value) { return value == value ? value : __builtin_bit_cast(f32, 0x7fffffffu); }
WL_INLINE f64 canonical(f64 value) { return value; }

template <typename T, To Way>
Flow to_whole(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    return fill(dest<T>(w, i.op[0]), mask, [=](uint32_t l) { return canonical(rounded<Way>(a[l])); });
}
Flow f64_to_f32(Warp& w, const Instr& i, uint32_t mask) {
    const f64* a = source<f64>(w, i.op[1]);
    return fill(dest<f32>(w, i.op[0]), mask, [=](uint32_t l) { return canonical(f32(a[l])); });
}
/// NaN and -0 become +0.
Flow saturate(Warp& w, const Instr& i, uint32_t mask) {
    const f32* a = source<f32>(w, i.op[1]);
    return fill(dest<f32>(w, i.op[0]), mask, [=](uint32_t l) {
        const f32 below_one = a[l] < 1.0f ? a[l] : 1.0f;
        return a[l] > 0.0f ? below_one : 0.0f;
    });
}

#define WL_CVT(d, s, D, S) \
    { "$cvt." d "." s, &plain<D, S>, {}, 0 }
#define WL_CVT_FROM(s, S)                                                                               \
    WL_CVT("u8", s, u8, S), WL_CVT("s8", s, s8, S), WL_CVT("u16", s, u16, S), WL_CVT("s16", s, s16, S), \
        WL_CVT("u32", s, u32, S), WL_CVT("s32", s, s32, S), WL_CVT("u64", s, u64, S), WL_CVT("s64", s, s64, S)

#define WL_TO_INTEGER_FROM(d, D, s, S)                                                                                       \
    {"$cvt.rni." d "." s, &to_integer<D, S, To::nearest>, {}, 0}, {"$cvt.rzi." d "." s, &to_integer<D, S, To::zero>, {}, 0}, \
        {"$cvt.rmi." d "." s, &to_integer<D, S, To::down>, {}, 0}, {                                                         \
        "$cvt.rpi." d "." s, &to_integer<D, S, To::up>, {}, 0                                                                \
    }
#define WL_TO_INTEGER(d, D) WL_TO_INTEGER_FROM(d, D, "f32", f32), WL_TO_INTEGER_FROM(d, D, "f64", f64)
#define WL_TO_WHOLE(t, T)                                                                                          \
    {"$cvt.rni." t "." t, &to_whole<T, To::nearest>, {}, 0}, {"$cvt.rzi." t "." t, &to_whole<T, To::zero>, {}, 0}, \
        {"$cvt.rmi." t "." t, &to_whole<T, To::down>, {}, 0}, {                                                    \
        "$cvt.rpi." t "." t, &to_whole<T, To::up>, {}, 0                                                           \
    }

const Row k_rows[] = {
    WL_CVT_FROM("u8", u8),
    WL_CVT_FROM("s8", s8),
    WL_CVT_FROM("u16", u16),
    WL_CVT_FROM("s16", s16),
    WL_CVT_FROM("u32", u32),
    WL_CVT_FROM("s32", s32),
    WL_CVT_FROM("u64", u64),
    WL_CVT_FROM("s64", s64),
    WL_CVT("rn.f32", "s32", f32, s32),
    WL_CVT("rn.f32", "u32", f32, u32),
    WL_CVT("rn.f64", "s32", f64, s32),
    WL_CVT("rn.f64", "u32", f64, u32),
    WL_CVT("f64", "f32", f64, f32),
    WL_CVT("rn.f32", "u8", f32, u8),
    WL_CVT("rn.f32", "s8", f32, s8),
    WL_CVT("rn.f32", "u16", f32, u16),
    WL_CVT("rn.f32", "s16", f32, s16),
    WL_CVT("rn.f32", "u64", f32, u64),
    WL_CVT("rn.f32", "s64", f32, s64),
    WL_CVT("rn.f64", "u16", f64, u16),
    WL_CVT("rn.f64", "s16", f64, s16),
    WL_CVT("rn.f64", "u64", f64, u64),
    WL_CVT("rn.f64", "s64", f64, s64),
    WL_TO_INTEGER("s32", s32),
    WL_TO_INTEGER("u32", u32),
    WL_TO_INTEGER("s64", s64),
    WL_TO_INTEGER("u64", u64),
    WL_TO_WHOLE("f32", f32),
    WL_TO_WHOLE("f64", f64),
    {"$cvt.rn.f32.f64", &f64_to_f32, {}, 0},
    {"$cvt.sat.f32.f32", &saturate, {}, 0},
    // Denormals are as good as zero here.
    {"$cvt.rzi.ftz.s32.f32", &to_integer<s32, f32, To::zero>, {}, 0},
    {"$cvt.rzi.ftz.u32.f32", &to_integer<u32, f32, To::zero>, {}, 0},
    {"$cvt.rni.ftz.s32.f32", &to_integer<s32, f32, To::nearest>, {}, 0},
};

}  // namespace

Rows convert_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
