// Functions for .approx instructions: in double without branches, so that all lanes go together, and with the same bits at
// every level: nothing is contracted. Within 0.51 ulp of float, where a GPU has 2.
#pragma once

#include "softgpu/isa/level/level.h"

namespace warpline::softgpu::isa::WL_LEVEL {

/// Added, it leaves the nearest integer in the low bits.
constexpr double k_to_integer = 0x1.8p52;

/// 2^x for x between -1000 and 1000.
WL_INLINE double power_of_two(double x) {
    const double shifted = x + k_to_integer;
    const double r = x - (shifted - k_to_integer);
    // Taylor's series of 2^r = exp(r ln 2): the first term left out is below 2^-37.
    double p = 1.0178086009239699e-07;
    p = p * r + 1.3215486790144307e-06;
    p = p * r + 1.5252733804059841e-05;
    p = p * r + 1.5403530393381608e-04;
    p = p * r + 1.3333558146428443e-03;
    p = p * r + 9.6181291076284772e-03;
    p = p * r + 5.5504108664821580e-02;
    p = p * r + 2.4022650695910072e-01;
    p = p * r + 6.9314718055994531e-01;
    p = p * r + 1.0;
    const uint64_t exponent = (__builtin_bit_cast(uint64_t, shifted) << 52) + (uint64_t{1023} << 52);
    return p * __builtin_bit_cast(double, exponent);
}

/// Sine (Turn 0) or cosine (Turn 1) where |x| is below k_most_angle.
constexpr double k_most_angle = 0x1p20;
template <unsigned Turn>
WL_INLINE double sine(double x) {
    // Quarter turns taken away, in two parts: multiples of the first are exact.
    const double shifted = x * 6.36619772367581382433e-01 + k_to_integer, n = shifted - k_to_integer;
    const double r = x - n * 1.57079632673412561417e+00 - n * 6.07710050650619224932e-11, z = r * r;
    double s = -1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = (s * z + 1.0) * r;
    double c = -1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = c * z - 0.5;
    c = c * z + 1.0;
    const uint64_t quarter = __builtin_bit_cast(uint64_t, shifted) + Turn;
    const double value = (quarter & 1) != 0 ? c : s;
    return __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, value) ^ (quarter & 2) << 62);
}

WL_INLINE double hyperbolic_tangent(double x) {
    const double z = x * x, limited = x < -20.0 ? -20.0 : x > 20.0 ? 20.0 : x;
    const double e = power_of_two(limited * 2.8853900817779268);
    const double large = (e - 1.0) / (e + 1.0);
    double p = -17.0 / 315.0;
    p = p * z + 2.0 / 15.0;
    p = p * z - 1.0 / 3.0;
    p = (p * z + 1.0) * x;
    return z < 0.0004 ? p : large;
}

}  // namespace warpline::softgpu::isa::WL_LEVEL
