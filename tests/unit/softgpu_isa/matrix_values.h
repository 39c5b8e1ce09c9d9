// Values of matrix elements, for tests.
#pragma once

#include <cstring>

#include "tests/unit/softgpu_isa/half_reference.h"

/// Elements of matrices as bits and as numbers.
namespace warpline::softgpu::exec::test {

inline int bits_of(const std::string& type) {
    if (type == "f64") return 64;
    if (type == "f16" || type == "bf16") return 16;
    if (type == "b1") return 1;
    if (type == "s4" || type == "u4") return 4;
    return type == "s8" || type == "u8" || type == "e4m3" || type == "e5m2" ? 8 : 32;
}

/// Bits of a small whole number, which every type can hold (range: see random_value).
inline uint64_t encode_value(const std::string& type, double value) {
    if (type == "f16") return round_double(f16(), value);
    if (type == "bf16") return round_double(bf16(), value);
    if (type == "e4m3") return round_double(e4m3(), value);
    if (type == "e5m2") return round_double(e5m2(), value);
    if (type == "f64") {
        uint64_t bits;
        std::memcpy(&bits, &value, 8);
        return bits;
    }
    if (type == "f32" || type == "tf32") {
        auto narrow = float(value);
        uint32_t bits;
        std::memcpy(&bits, &narrow, 4);
        return bits;
    }
    return uint64_t(int64_t(value)) & (bits_of(type) == 64 ? ~0ull : (1ull << bits_of(type)) - 1);
}

inline double decode_value(const std::string& type, uint64_t bits) {
    if (type == "f16") return f16().value(uint32_t(bits));
    if (type == "f64") {
        double value;
        std::memcpy(&value, &bits, 8);
        return value;
    }
    if (type == "f32") {
        auto narrow = uint32_t(bits);
        float value;
        std::memcpy(&value, &narrow, 4);
        return value;
    }
    return int32_t(uint32_t(bits));
}

/// Numbers whose products and sums are exact in all types that add them up.
inline double random_value(const std::string& type, std::mt19937& random) {
    if (type == "b1") return double(random() & 1);
    if (type == "u4") return double(random() % 16);
    if (type == "s4") return double(int(random() % 16) - 8);
    if (type == "u8") return double(random() % 256);
    if (type == "s8") return double(int(random() % 256) - 128);
    if (type == "s32") return double(int(random() % 200001) - 100000);
    return double(int(random() % 15) - 7);
}

}  // namespace warpline::softgpu::exec::test
