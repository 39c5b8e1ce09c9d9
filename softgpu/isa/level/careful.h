// Arithmetic that does not meet denormals. Processors take a hundred cycles and more for a product, quotient or root with a
// denormal operand or result; programs that fade towards zero, and lanes at rest whose registers hold integers, are full of
// them. The engine notices (Warp::careful), and then f32 is computed in double, where its denormals are normal: each result is
// rounded once more, to the same bits.
#pragma once

#include "softgpu/isa/level/level.h"

namespace warpline::softgpu::isa::WL_LEVEL {

// Factors of two change no bit of a result. They are there for compilers, which know that the double rounding is harmless, and
// would compute in float again.
WL_INLINE float careful_product(float a, float b) { return float(double(a) * 2.0 * (double(b) * 0.5)); }  // exact in double
// A quotient (or root) of two floats is further from where rounding changes than the rounding to double moves it.
WL_INLINE float careful_quotient(float a, float b) { return float(double(a) * 2.0 / (double(b) * 2.0)); }
WL_INLINE float careful_root(float a) { return float(__builtin_sqrt(double(a) * 4.0) * 0.5); }

/// a * b + c: the sum is rounded to odd in double, so that the second rounding sees on which side of it the exact one lies.
WL_INLINE float careful_fma(float a, float b, float c) {
    const double product = double(a) * double(b), addend = double(c), sum = product + addend;
    const double other = sum - product, error = (product - (sum - other)) + (addend - other);
    const uint64_t bits = __builtin_bit_cast(uint64_t, sum);
    const bool inexact = error > 0 || error < 0;  // not where the sum is infinite or no number
    const bool away = (error > 0) == (sum > 0);
    const uint64_t odd = (bits & 1) != 0 ? bits : away ? bits + 1 : bits - 1;
    return float(__builtin_bit_cast(double, inexact ? odd : bits));
}

/// 0 if a * b + c meets no denormal on its way: no operand is one, and the lowest bits of product and addend are those of
/// normal numbers, so that what is left when they cancel is normal too. Most of what a kernel computes that has met denormals
/// is like that.
WL_INLINE uint32_t may_meet_denormals(float a, float b, float c) {
    const uint32_t x = __builtin_bit_cast(uint32_t, a) << 1, y = __builtin_bit_cast(uint32_t, b) << 1;
    const uint32_t z = __builtin_bit_cast(uint32_t, c) << 1, exponents = (x >> 24) + (y >> 24);
    constexpr uint32_t k_denormals = 0x00ffffff;  // what is below, but for zero
    const uint32_t operand = uint32_t(x - 1 < k_denormals) | uint32_t(y - 1 < k_denormals);
    const uint32_t product = uint32_t(exponents < 127 + 48) & uint32_t(x != 0) & uint32_t(y != 0);
    const uint32_t addend = uint32_t(z - 1 < (25u << 24) - 1);
    return operand | product | addend;
}

/// A row in which lanes that take no part hold 1.
template <typename T>
WL_INLINE const T* only_active(const T* row, uint32_t mask, T* spare) {
    if (mask == k_full_mask) return row;
    WL_LANES(l) spare[l] = (mask & k_bits32.bit[l]) != 0 ? row[l] : T(1);
    return spare;
}

}  // namespace warpline::softgpu::isa::WL_LEVEL
