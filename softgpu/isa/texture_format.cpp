// Elements of textures in memory. Normalised integers: 0 … 1 or -1 … 1 (CUDA C++ Programming Guide, "Texture Memory").
#include <cmath>
#include <cstring>

#include "softgpu/isa/half_format.h"
#include "softgpu/isa/texture_sample.h"

namespace warpline::softgpu::isa {

namespace {

using exec::TexelType;

struct Normalisation {
    float largest = 0;  ///< 0: not normalised
    bool is_signed = false;
};

Normalisation normalisation(TexelType type) {
    switch (type) {
        case TexelType::u8:
        case TexelType::unorm8: return {255.0f, false};
        case TexelType::u16:
        case TexelType::unorm16: return {65535.0f, false};
        case TexelType::s8:
        case TexelType::snorm8: return {127.0f, true};
        case TexelType::s16:
        case TexelType::snorm16: return {32767.0f, true};
        default: return {};
    }
}

/// The channel as an integer of 32 bits, with its sign.
uint32_t read_integer(TexelType type, const std::byte* at) {
    uint32_t bytes = channel_bytes(type), value = 0;
    std::memcpy(&value, at, bytes);
    bool is_signed = type == TexelType::s8 || type == TexelType::s16 || type == TexelType::snorm8 || type == TexelType::snorm16;
    return is_signed ? uint32_t(int32_t(value << (32 - 8 * bytes)) >> (32 - 8 * bytes)) : value;
}

float from_srgb(float value) {
    return value <= 0.04045f ? value / 12.92f : float(std::pow((double(value) + 0.055) / 1.055, 2.4));
}

float read_float(TexelType type, bool srgb, const std::byte* at) {
    uint32_t bits = read_integer(type, at);
    if (type == TexelType::f32) return __builtin_bit_cast(float, bits);
    if (type == TexelType::f16) return decode(k_f16, bits);
    Normalisation n = normalisation(type);
    if (n.is_signed) return std::fmax(float(int32_t(bits)) / n.largest, -1.0f);
    float value = n.largest != 0 ? float(bits) / n.largest : float(bits);
    return srgb && n.largest == 255.0f ? from_srgb(value) : value;
}

}  // namespace

uint32_t channel_bytes(TexelType type) {
    switch (type) {
        case TexelType::u8:
        case TexelType::s8:
        case TexelType::unorm8:
        case TexelType::snorm8: return 1;
        case TexelType::u32:
        case TexelType::s32:
        case TexelType::f32: return 4;
        default: return 2;
    }
}

TexelValue decode_texel(TexelType type, uint32_t channels, bool integers, bool srgb, const std::byte* memory) {
    TexelValue out;
    const uint32_t bytes = channel_bytes(type);
    for (uint32_t c = 0; c < channels; ++c) {
        const std::byte* at = memory + c * bytes;
        out.bits[c] = integers ? read_integer(type, at) : __builtin_bit_cast(uint32_t, read_float(type, srgb && c < 3, at));
    }
    if (channels < 4) out.bits[3] = integers ? 1 : 0x3f800000u;
    return out;
}

}  // namespace warpline::softgpu::isa
