// The hot part of cvt: between rows of their natural width, without saturation, round to nearest or to zero.
#include "softgpu/isa/level/level.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;

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

/// f32 to 32-bit integers, towards zero, saturating, NaN to zero.
Flow f32_to_s32(Warp& w, const Instr& i, uint32_t mask) {
    const f32* a = source<f32>(w, i.op[1]);
    return fill(dest<s32>(w, i.op[0]), mask, [=](uint32_t l) {
        f32 v = a[l];
        f32 safe = v >= -2147483648.0f && v < 2147483648.0f ? v : 0.0f;
        s32 out = s32(safe);
        out = v >= 2147483648.0f ? INT32_MAX : out;
        return v < -2147483648.0f ? INT32_MIN : out;
    });
}
Flow f32_to_u32(Warp& w, const Instr& i, uint32_t mask) {
    const f32* a = source<f32>(w, i.op[1]);
    return fill(dest<u32>(w, i.op[0]), mask, [=](uint32_t l) {
        f32 v = a[l];
        f32 safe = v >= 0.0f && v < 4294967296.0f ? v : 0.0f;
        u32 out =
            safe >= 2147483648.0f ? u32(s32(safe - 2147483648.0f)) ^ 0x80000000u : u32(s32(safe < 2147483648.0f ? safe : 0.0f));
        return v >= 4294967296.0f ? UINT32_MAX : out;
    });
}

#define WL_CVT(d, s, D, S) \
    { "$cvt." d "." s, &plain<D, S>, {}, 0 }
#define WL_CVT_FROM(s, S)                                                                               \
    WL_CVT("u8", s, u8, S), WL_CVT("s8", s, s8, S), WL_CVT("u16", s, u16, S), WL_CVT("s16", s, s16, S), \
        WL_CVT("u32", s, u32, S), WL_CVT("s32", s, s32, S), WL_CVT("u64", s, u64, S), WL_CVT("s64", s, s64, S)

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
    {"$cvt.rzi.s32.f32", &f32_to_s32, {}, 0},
    {"$cvt.rzi.u32.f32", &f32_to_u32, {}, 0},
};

}  // namespace

Rows convert_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
