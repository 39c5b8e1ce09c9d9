// Fills and converts the elements of a row.
#include "softgpu/isa/tensor_row.h"

#include <cstring>

namespace warpline::softgpu::isa {

using exec::TensorMap;
using exec::TensorType;

namespace {

// PTX ISA, "Out of Boundary Access": "a special NaN called OOB-NaN". Its bits are not documented; devices of compute capability
// 12.0 have been seen to write these into every 16 bits, whatever the type.
constexpr uint16_t k_outside_nan = 0x7ff7;

void fill(const TensorMap& map, uint32_t bytes, std::byte* row) {
    if (map.fill_nan == 0) {
        std::memset(row, 0, bytes);
        return;
    }
    for (uint32_t at = 0; at < bytes; at += sizeof k_outside_nan) std::memcpy(row + at, &k_outside_nan, sizeof k_outside_nan);
}

constexpr uint32_t k_exponent = 0x7f800000u, k_mantissa = 0x007fffffu, k_sign = 0x80000000u;

uint32_t flushed(uint32_t bits) { return (bits & k_exponent) == 0 ? bits & k_sign : bits; }

/// 10 bits of mantissa, to nearest even: PTX ISA, "Tensor Dimension, size and format".
uint32_t as_tf32(uint32_t bits) {
    constexpr uint32_t k_dropped = 13, k_half = (1u << (k_dropped - 1)) - 1;
    if ((bits & k_exponent) == k_exponent && (bits & k_mantissa) != 0) return 0x7fffe000u;  // NaN
    return (bits + k_half + (bits >> k_dropped & 1)) >> k_dropped << k_dropped;
}

uint32_t converted(TensorType type, uint32_t bits) {
    switch (type) {
        case TensorType::f32_ftz: return flushed(bits);
        case TensorType::tf32: return as_tf32(bits);
        case TensorType::tf32_ftz: return as_tf32(flushed(bits));
        default: return bits;
    }
}

/// 16 bytes with 6 bits each, packed into 12.
void pack_6_bits(std::byte* to, const std::byte* from) {
    for (uint32_t group = 0; group < 4; ++group) {
        uint32_t bits = 0;
        for (uint32_t i = 0; i < 4; ++i) bits |= (uint32_t(from[group * 4 + i]) & 0x3f) << (6 * i);
        std::memcpy(to + group * 3, &bits, 3);
    }
}

}  // namespace

void unpack_row(const TensorMap& map, const TensorRow& inside, const std::byte* from, uint32_t bytes, std::byte* row) {
    const uint32_t unit = exec::unit_bytes(map.type), shared_unit = exec::shared_unit_bytes(map.type);
    if (inside.units * shared_unit != bytes) fill(map, bytes, row);
    if (inside.units == 0) return;
    std::byte* to = row + inside.first * shared_unit;
    if (unit != shared_unit) {
        for (uint32_t i = 0; i < inside.units; ++i) std::memcpy(to + i * shared_unit, from + i * unit, unit);
        return;
    }
    std::memcpy(to, from, size_t{inside.units} * unit);
    if (map.type != TensorType::f32_ftz && map.type != TensorType::tf32 && map.type != TensorType::tf32_ftz) return;
    for (uint32_t i = 0; i < inside.units; ++i) {
        uint32_t bits;
        std::memcpy(&bits, to + i * unit, sizeof bits);
        bits = converted(map.type, bits);
        std::memcpy(to + i * unit, &bits, sizeof bits);
    }
}

const std::byte* pack_row(const TensorMap& map, const TensorRow& inside, std::byte* row) {
    std::byte* first = row + inside.first * exec::shared_unit_bytes(map.type);
    if (map.type == TensorType::b6x16_p32) {
        // Each unit becomes shorter: the ones behind are not overwritten before they are read.
        for (uint32_t i = 0; i < inside.units; ++i) pack_6_bits(first + i * 12, first + i * 16);
    }
    return first;
}

}  // namespace warpline::softgpu::isa
