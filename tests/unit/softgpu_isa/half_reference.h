// Arithmetic of small floating-point formats, to compare with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

/// Small floating-point formats from their definition: a table of all values, searched. Shares nothing with the software GPU.
namespace warpline::softgpu::exec::test {

using Wide = __float128;

struct Format {
    std::string name;
    int exponent_bits, mantissa_bits, bias;
    uint32_t max_code;           ///< largest finite
    bool has_infinity;           ///< at max_code + 1
    uint32_t nan_code;           ///< what every NaN result is; max_code for formats without
    std::vector<double> values;  ///< by code, 0 … max_code

    Format(std::string format_name, int e, int m, int format_bias, uint32_t max, bool infinity, uint32_t nan)
        : name(std::move(format_name)),
          exponent_bits(e),
          mantissa_bits(m),
          bias(format_bias),
          max_code(max),
          has_infinity(infinity),
          nan_code(nan) {
        for (uint32_t code = 0; code <= max; ++code) {
            uint32_t exponent = code >> m, fraction = code & ((1u << m) - 1);
            double value =
                exponent == 0 ? std::ldexp(fraction, 1 - bias - m) : std::ldexp(fraction + (1u << m), int(exponent) - bias - m);
            values.push_back(value);
        }
    }
    uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
    bool is_nan(uint32_t code) const {
        code &= sign_bit() - 1;
        return nan_code > max_code && code > max_code + (has_infinity ? 1 : 0);
    }
    double value(uint32_t code) const {
        uint32_t magnitude = code & (sign_bit() - 1);
        double v = is_nan(code) ? std::nan("") : magnitude > max_code ? HUGE_VAL : values[magnitude];
        return (code & sign_bit()) != 0 ? -v : v;
    }
};

inline const Format& f16() {
    static const Format k("f16", 5, 10, 15, 0x7bff, true, 0x7fff);
    return k;
}
inline const Format& bf16() {
    static const Format k("bf16", 8, 7, 127, 0x7f7f, true, 0x7fff);
    return k;
}
inline const Format& e4m3() {
    static const Format k("e4m3", 4, 3, 7, 0x7e, false, 0x7f);
    return k;
}
inline const Format& e5m2() {
    static const Format k("e5m2", 5, 2, 15, 0x7b, true, 0x7f);
    return k;
}
inline const Format& e3m2() {
    static const Format k("e3m2", 3, 2, 3, 0x1f, false, 0x1f);
    return k;
}
inline const Format& e2m3() {
    static const Format k("e2m3", 2, 3, 1, 0x1f, false, 0x1f);
    return k;
}
inline const Format& e2m1() {
    static const Format k("e2m1", 2, 1, 1, 7, false, 7);
    return k;
}

/// An exact number: high + low, low being less than half of high's last place.
struct Exact {
    Wide high = 0, low = 0;
    Exact(Wide h, Wide l = 0) : high(h), low(l) {}
    static Exact sum(Wide a, Wide b) {
        Wide s = a + b, bb = s - a;
        return {s, (a - (s - bb)) + (b - bb)};
    }
    int compare(Wide other) const { return high != other ? (high < other ? -1 : 1) : low == 0 ? 0 : low < 0 ? -1 : 1; }
    Exact negated() const { return {-high, -low}; }
};

enum class Round { nearest, zero, down, up };

/// Code of a finite exact number; `zero_sign` is the sign of an exact zero.
inline uint32_t round_to(const Format& f, Exact x, Round round = Round::nearest, bool saturate = false,
                         bool zero_sign = false) {
    bool negative = x.compare(0) < 0;
    if (x.compare(0) == 0) return zero_sign ? f.sign_bit() : 0;
    if (negative) x = x.negated();
    uint32_t sign = negative ? f.sign_bit() : 0;
    bool away = round == Round::up ? !negative : round == Round::down && negative;
    // Largest code whose value is not above x.
    uint32_t below = 0, above = f.max_code + 1;
    while (above - below > 1) {
        uint32_t middle = (below + above) / 2;
        (x.compare(f.values[middle]) >= 0 ? below : above) = middle;
    }
    if (x.compare(f.values[below]) == 0) return sign | below;
    // What would follow the largest finite value, had the format more exponents.
    double last = f.values[f.max_code], step = last - f.values[f.max_code - 1];
    double next = below == f.max_code ? last + step : f.values[below + 1];
    bool to_next = away;
    if (round == Round::nearest) {
        int against = x.compare((Wide(f.values[below]) + Wide(next)) / 2);
        to_next = against > 0 || (against == 0 && (below & 1) != 0);
    }
    if (!to_next || (below == f.max_code && saturate)) {
        bool beyond = below == f.max_code && x.compare(next) >= 0 && !f.has_infinity && !saturate;
        return sign | (beyond ? f.nan_code : below);
    }
    if (below < f.max_code) return sign | (below + 1);
    return sign | (f.has_infinity ? f.max_code + 1 : f.nan_code);
}

/// The same for any double.
inline uint32_t round_double(const Format& f, double x, Round round = Round::nearest, bool saturate = false) {
    if (std::isnan(x)) return f.nan_code;
    if (std::isinf(x)) {
        uint32_t sign = x < 0 ? f.sign_bit() : 0;
        return sign | (saturate ? f.max_code : f.has_infinity ? f.max_code + 1 : f.nan_code);
    }
    return round_to(f, Exact(x), round, saturate, std::signbit(x));
}

/// Codes worth trying: zeros, denormals, ones, ties, largest values, infinities, NaNs, of both signs; and some at random.
inline std::vector<uint16_t> edge_codes(const Format& f, size_t random_count) {
    uint32_t one = uint32_t(f.bias) << f.mantissa_bits, smallest = 1u << f.mantissa_bits, infinity = f.max_code + 1;
    std::vector<uint16_t> codes;
    for (uint32_t code : {0u,
                          1u,
                          2u,
                          3u,
                          smallest - 1,
                          smallest,
                          smallest + 1,
                          one - 1,
                          one,
                          one + 1,
                          one + 2,
                          one + smallest,
                          one + 3 * smallest / 2,
                          one / 2,
                          f.max_code - 1,
                          f.max_code,
                          infinity,
                          infinity + 1,
                          0x7fffu,
                          one - 3 * smallest,
                          one + 9 * smallest + 5}) {
        codes.push_back(uint16_t(code));
        codes.push_back(uint16_t(code | f.sign_bit()));
    }
    std::mt19937 random(17);
    for (size_t i = 0; i < random_count; ++i) codes.push_back(uint16_t(random()));
    return codes;
}

inline uint16_t flush(const Format& f, uint16_t code) {
    uint32_t magnitude = code & 0x7fffu;
    return magnitude < (1u << f.mantissa_bits) ? uint16_t(code & 0x8000u) : code;
}

}  // namespace warpline::softgpu::exec::test
