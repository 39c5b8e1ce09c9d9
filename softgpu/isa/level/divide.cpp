// Division of integers. By zero: all ones, and the dividend as remainder, as the hardware gives (PTX leaves it open).
#include "softgpu/isa/level/level.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

// A quotient of integers that float (16 bits) or double (32 bits) can hold lies further from the next integer than rounding
// moves it: truncated, it is exact.

WL_INLINE u16 quotient(u16 a, u16 b) { return u16(s32(float(a) / float(b))); }
WL_INLINE s16 quotient(s16 a, s16 b) { return s16(s32(float(a) / float(b))); }
WL_INLINE s32 quotient(s32 a, s32 b) { return s32(double(a) / double(b)); }
WL_INLINE u32 quotient(u32 a, u32 b) {
#if defined(__AVX512F__)
    return u32(double(a) / double(b));
#else
    // Conversions between double and unsigned integers, in additions: the low bits of 2^52 + x are x.
    constexpr u64 k_exponent = 0x4330000000000000u;
    const double x = __builtin_bit_cast(double, u64{a} | k_exponent) - 0x1p52;
    const double y = __builtin_bit_cast(double, u64{b} | k_exponent) - 0x1p52;
    return u32(__builtin_bit_cast(u64, __builtin_floor(x / y) + 0x1p52));
#endif
}

template <typename T>
constexpr bool k_signed = T(-1) < T(0);

/// b, or 1 where the quotient is no question.
template <typename T>
WL_INLINE T divisor(T b) {
    return b == 0 || (k_signed<T> && b == T(-1)) ? T(1) : b;
}
template <typename T>
WL_INLINE T finish_quotient(T a, T b, T q) {
    if constexpr (k_signed<T>) q = b == T(-1) ? T(u64(0) - u64(a)) : q;
    return b == 0 ? T(-1) : q;
}
template <typename T>
WL_INLINE T finish_remainder(T a, T b, T q) {
    const T r = T(u64(a) - u64(q) * u64(b));
    if constexpr (k_signed<T>) return b == 0 ? a : b == T(-1) ? T(0) : r;
    return b == 0 ? a : r;
}
template <>
WL_INLINE u32 finish_remainder(u32 a, u32 b, u32 q) {
    return b == 0 ? a : a - q * b;
}
template <>
WL_INLINE s32 finish_remainder(s32 a, s32 b, s32 q) {
    const auto r = s32(u32(a) - u32(q) * u32(b));
    return b == 0 ? a : b == -1 ? 0 : r;
}

template <typename T, bool Remainder>
WL_INLINE T divide_one(T a, T b) {
    const T q = quotient(a, divisor(b));
    if constexpr (Remainder) return finish_remainder(a, b, q);
    return finish_quotient(a, b, q);
}

template <typename T, bool Remainder>
Flow divide(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    return fill(dest<T>(w, i.op[0]), mask, [=](uint32_t l) { return divide_one<T, Remainder>(a[l], b[l]); });
}

/// 64 bits: all lanes at once where 32 would do, as with most sizes and indices; else one by one.
template <typename T, typename Narrow, bool Remainder>
Flow divide_wide(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    T* d = dest<T>(w, i.op[0]);
    u64 different = 0;
    WL_LANES(l) {
        const u64 here = u64(a[l] ^ T(Narrow(a[l]))) | u64(b[l] ^ T(Narrow(b[l])));
        different |= (mask & k_bits32.bit[l]) != 0 ? here : 0;
    }
    if (different == 0) {
        // The quotient of the smallest integer and -1 does not fit: it is found in all 64 bits.
        return fill(d, mask, [=](uint32_t l) {
            const T q = T(quotient(divisor(b[l]) == b[l] ? Narrow(a[l]) : Narrow(0), Narrow(divisor(b[l]))));
            if constexpr (Remainder) return finish_remainder(a[l], b[l], q);
            return finish_quotient(a[l], b[l], q);
        });
    }
    for (u32 rest = mask; rest != 0; rest &= rest - 1) {
        const auto l = u32(__builtin_ctz(rest));
        const T x = a[l], y = b[l], q = T(x / divisor(y));
        d[l] = Remainder ? finish_remainder(x, y, q) : finish_quotient(x, y, q);
    }
    return Flow::next;
}

#define WL_DIVIDE(type, T)                                                                 \
    {"div." type, &divide<T, false>, {out(sizeof(T)), in(sizeof(T)), in(sizeof(T))}, 0}, { \
        "rem." type, &divide<T, true>, {out(sizeof(T)), in(sizeof(T)), in(sizeof(T))}, 0   \
    }
#define WL_DIVIDE_WIDE(type, T, Narrow)                                         \
    {"div." type, &divide_wide<T, Narrow, false>, {out(8), in(8), in(8)}, 0}, { \
        "rem." type, &divide_wide<T, Narrow, true>, {out(8), in(8), in(8)}, 0   \
    }

const Row k_rows[] = {
    WL_DIVIDE("u16", u16), WL_DIVIDE("s16", s16),           WL_DIVIDE("u32", u32),
    WL_DIVIDE("s32", s32), WL_DIVIDE_WIDE("u64", u64, u32), WL_DIVIDE_WIDE("s64", s64, s32),
};

}  // namespace

Rows divide_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
