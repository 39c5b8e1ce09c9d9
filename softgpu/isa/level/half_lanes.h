// Rows of 16-bit floats. A row of .f16 is 32 of them, a row of .f16x2 is 64: operations are the same for both. They are
// computed in float, where every sum, difference and product of two rounds to the same 16 bits as the exact one.
#pragma once

#include "softgpu/isa/level/level.h"

namespace warpline::softgpu::isa::WL_LEVEL {

#define WL_EACH(l, n) WL_VECTORISE for (uint32_t l = 0; l < (n); ++l)

enum HalfFlag : unsigned { half_ftz = 1, half_sat = 2, half_relu = 4, half_finite = 8, half_to_zero = 16 };

constexpr uint16_t k_half_nan = 0x7fff;  ///< the quiet NaN of both formats

WL_INLINE uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
WL_INLINE float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

/// IEEE 754 binary16.
struct F16 {
    static constexpr uint16_t k_exponent = 0x7c00, k_one = 0x3c00, k_max = 0x7bff;

    WL_INLINE static float widen(uint16_t half) {
        uint32_t magnitude = uint32_t(half & 0x7fffu) << 13, sign = uint32_t(half & 0x8000u) << 16;
        uint32_t finite = bits_of(float_of(magnitude) * 0x1p112f);
        return float_of((magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite) | sign);
    }
    /// Nearest even; NaN becomes k_half_nan.
    WL_INLINE static uint16_t narrow(float value) {
        uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
        uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
        uint32_t denormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;  // the sum's last place is 2^-24
        uint32_t out = magnitude < 0x38800000u ? denormal : normal;
        out = magnitude >= 0x477ff000u ? 0x7c00u : out;
        out |= bits >> 16 & 0x8000u;
        return uint16_t(magnitude > 0x7f800000u ? k_half_nan : out);
    }
    WL_INLINE static uint16_t narrow_to_zero(float value) {
        uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
        uint32_t normal = (magnitude - 0x38000000u) >> 13;
        uint32_t denormal = uint32_t(int32_t((magnitude < 0x38800000u ? float_of(magnitude) : 0.0f) * 0x1p24f));
        uint32_t out = magnitude < 0x38800000u ? denormal : normal;
        out = magnitude >= 0x47800000u ? 0x7bffu : out;
        out = magnitude >= 0x7f800000u ? 0x7c00u : out;
        out |= bits >> 16 & 0x8000u;
        return uint16_t(magnitude > 0x7f800000u ? k_half_nan : out);
    }
};

/// bfloat16: the upper half of a float.
struct BF16 {
    static constexpr uint16_t k_exponent = 0x7f80, k_one = 0x3f80, k_max = 0x7f7f;

    WL_INLINE static float widen(uint16_t half) { return float_of(uint32_t{half} << 16); }
    WL_INLINE static uint16_t narrow(float value) {
        uint32_t bits = bits_of(value);
        uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
        return uint16_t((bits & 0x7fffffffu) > 0x7f800000u ? k_half_nan : rounded);
    }
    WL_INLINE static uint16_t narrow_to_zero(float value) {
        uint32_t bits = bits_of(value);
        return uint16_t((bits & 0x7fffffffu) > 0x7f800000u ? k_half_nan : bits >> 16);
    }
};

template <typename F, bool Ftz>
WL_INLINE uint16_t flush(uint16_t half) {
    return Ftz && (half & F::k_exponent) == 0 ? uint16_t(half & 0x8000u) : half;
}

/// What the modifiers after an operation do to its result.
template <typename F, unsigned Flags>
WL_INLINE uint16_t finish(uint16_t half) {
    half = flush<F, (Flags & half_ftz) != 0>(half);
    const uint16_t magnitude = half & 0x7fffu;
    const bool nan = magnitude > F::k_exponent;
    if constexpr ((Flags & half_finite) != 0) half = magnitude == F::k_exponent ? uint16_t((half & 0x8000u) | F::k_max) : half;
    if constexpr ((Flags & half_relu) != 0) half = (half & 0x8000u) != 0 && !nan ? uint16_t(0) : half;
    if constexpr ((Flags & half_sat) != 0) {
        const bool not_positive = (half & 0x8000u) != 0 || nan;
        half = magnitude > F::k_one ? F::k_one : half;
        half = not_positive ? uint16_t(0) : half;
    }
    return half;
}

/// All N values of a row as floats.
template <typename F, unsigned N, bool Ftz>
WL_INLINE void widen_row(float* out, const uint16_t* in) {
#if defined(__F16C__)
    if constexpr (!Ftz && __is_same(F, F16)) {
        for (unsigned l = 0; l < N; l += 8) {
            _mm256_store_ps(out + l, _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(in + l))));
        }
        return;
    }
#endif
    WL_EACH(l, N) out[l] = F::widen(flush<F, Ftz>(in[l]));
}

template <typename F, unsigned N, unsigned Flags>
WL_INLINE void narrow_row(uint16_t* out, const float* in) {
    if constexpr ((Flags & half_to_zero) != 0) {
        WL_EACH(l, N) out[l] = finish<F, Flags>(F::narrow_to_zero(in[l]));
    } else {
        WL_EACH(l, N) out[l] = finish<F, Flags>(F::narrow(in[l]));
    }
}

/// Puts the lanes in `mask` of a computed row of N values into a register.
template <unsigned N>
WL_INLINE Flow put_row(Warp& w, int32_t slot, uint32_t mask, const uint16_t* computed) {
    auto* d = dest<uint16_t>(w, slot);
    if (mask == k_full_mask) {
        __builtin_memcpy(d, computed, N * 2);
    } else {
        Select<N / 16>::run(d, computed, d, mask);
    }
    return Flow::next;
}

}  // namespace warpline::softgpu::isa::WL_LEVEL
