// Floating-point formats of 16 bits and fewer, encoded and decoded one value at a time.
// Sources: IEEE 754 (f16), OCP 8-bit Floating Point and Microscaling specifications, PTX ISA "Alternate Floating-Point Data
// Formats".
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "softgpu/isa/rounding.h"

namespace warpline::softgpu::isa {

struct SmallFloat {
    uint8_t exponent_bits, mantissa_bits;
    int bias;
    uint32_t max_finite;  ///< largest code without sign
    bool has_infinity;    ///< its code is max_finite + 1
    uint32_t nan;         ///< code of the quiet NaN; for formats without one the code that a NaN becomes
    bool has_nan;
    constexpr uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
};

constexpr SmallFloat k_f16{5, 10, 15, 0x7bff, true, 0x7fff, true};
constexpr SmallFloat k_bf16{8, 7, 127, 0x7f7f, true, 0x7fff, true};
constexpr SmallFloat k_e5m2{5, 2, 15, 0x7b, true, 0x7f, true};
constexpr SmallFloat k_e4m3{4, 3, 7, 0x7e, false, 0x7f, true};
constexpr SmallFloat k_e3m2{3, 2, 3, 0x1f, false, 0x1f, false};
constexpr SmallFloat k_e2m3{2, 3, 1, 0x1f, false, 0x1f, false};
constexpr SmallFloat k_e2m1{2, 1, 1, 0x7, false, 0x7, false};

/// The code of `value`, which may itself be a value rounded to odd. `saturate`: what is too large (infinities, too) becomes the
/// largest finite.
inline uint32_t encode(const SmallFloat& format, double value, Rounding rounding, bool saturate) {
    if (std::isnan(value)) return format.nan;
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const bool negative = bits >> 63 != 0;
    const uint32_t sign = negative ? format.sign() : 0;
    const bool up_in_magnitude = rounding == Rounding::up ? !negative : rounding == Rounding::down && negative;
    auto overflow = [&](bool exact) {
        if (saturate || !format.has_infinity) return sign | (saturate || !format.has_nan ? format.max_finite : format.nan);
        bool to_infinity = exact || rounding == Rounding::nearest || up_in_magnitude;
        return sign | (to_infinity ? format.max_finite + 1 : format.max_finite);
    };
    if (std::isinf(value)) return overflow(true);
    if (value == 0) return sign;
    int exponent;
    auto significand = uint64_t(std::ldexp(std::frexp(std::fabs(value), &exponent), 53));  // [2^52, 2^53)
    --exponent;
    const int lowest = 1 - format.bias;
    int shift = 52 - format.mantissa_bits + (exponent < lowest ? lowest - exponent : 0);
    if (shift > 62) shift = 62;  // all of it is below half of the last place
    uint64_t kept = significand >> shift, rest = significand & ((uint64_t{1} << shift) - 1), half = uint64_t{1} << (shift - 1);
    if (rounding == Rounding::nearest) {
        kept += rest > half || (rest == half && (kept & 1) != 0);
    } else {
        kept += up_in_magnitude && rest != 0;
    }
    // `kept` has the leading 1 of a normal number, which counts as one step of the exponent: a carry does the right thing.
    uint64_t code = kept + (exponent > lowest ? uint64_t(exponent - lowest) << format.mantissa_bits : 0);
    if (code > format.max_finite) return overflow(false);
    return sign | uint32_t(code);
}

inline float decode(const SmallFloat& format, uint32_t code) {
    const bool negative = (code & format.sign()) != 0;
    code &= format.sign() - 1;
    if (format.has_nan && code > format.max_finite + (format.has_infinity ? 1 : 0))
        return __builtin_bit_cast(float, 0x7fffffffu);
    float magnitude;
    if (format.has_infinity && code == format.max_finite + 1) {
        magnitude = __builtin_inff();
    } else {
        uint32_t exponent = code >> format.mantissa_bits, mantissa = code & ((1u << format.mantissa_bits) - 1);
        if (exponent != 0) mantissa |= 1u << format.mantissa_bits;
        magnitude = std::ldexp(float(mantissa), int(exponent != 0 ? exponent : 1) - format.bias - format.mantissa_bits);
    }
    return negative ? -magnitude : magnitude;
}

/// Format of a scalar type name or of the elements of a packed one (e4m3x2); null if it is none of these.
inline const SmallFloat* small_float(std::string_view name) {
    if (name.ends_with("x2") || name.ends_with("x4")) name.remove_suffix(2);
    if (name == "f16") return &k_f16;
    if (name == "bf16") return &k_bf16;
    if (name == "e5m2") return &k_e5m2;
    if (name == "e4m3") return &k_e4m3;
    if (name == "e3m2") return &k_e3m2;
    if (name == "e2m3") return &k_e2m3;
    if (name == "e2m1") return &k_e2m1;
    return nullptr;
}

/// A 64-bit integer as a double, rounded to odd: rounding it again, to a format with fewer than 51 bits, is right.
inline double odd_double(uint64_t magnitude, bool negative) {
    int lost = magnitude >> 53 != 0 ? 11 - __builtin_clzll(magnitude) : 0;
    uint64_t kept = magnitude >> lost;
    if (lost > 0 && (magnitude & ((uint64_t{1} << lost) - 1)) != 0) kept |= 1;
    double value = std::ldexp(double(kept), lost);
    return negative ? -value : value;
}

}  // namespace warpline::softgpu::isa
