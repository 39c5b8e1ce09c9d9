// What lies in the 128 bytes of a CUtensorMap. NVIDIA's driver keeps its format to itself, and programs may only hand the
// bytes on, so this one is our own: the driver layer writes it (cuTensorMapEncode…), cp.async.bulk.tensor and its kin read it,
// from a kernel parameter, constant or global memory. Plain data, no C++ library headers: included where code is compiled once
// per CPU level.
#pragma once

#include <cstdint>
#include <cstring>

namespace warpline::softgpu::exec {

/// As CUtensorMapDataType.
enum class TensorType : uint8_t {
    u8,
    u16,
    u32,
    s32,
    u64,
    s64,
    f16,
    f32,
    f64,
    bf16,
    f32_ftz,   ///< loads flush denormals
    tf32,      ///< loads round to 10 bits of mantissa
    tf32_ftz,  ///< both
    b4x16,     ///< values of 4 bits, dense in shared memory, too
    b4x16_p64,
    b6x16_p32,  ///< 16 values of 4 or 6 bits, padded to 16 bytes in shared memory
};
constexpr uint32_t k_tensor_types = 16;

enum class TensorMode : uint8_t { tiled, im2col, im2col_w, im2col_w_128 };

/// As CUtensorMapInterleave and CUtensorMapSwizzle.
enum class TensorInterleave : uint8_t { none, bytes_16, bytes_32 };
enum class TensorSwizzle : uint8_t {
    none,
    span_32,
    span_64,
    span_128,
    span_128_atom_32,
    span_128_atom_32_flip_8,
    span_128_atom_64
};

constexpr uint32_t k_max_tensor_rank = 5;

/// Dimension 0 is the innermost one, whose elements are next to each other.
struct TensorMap {
    static constexpr uint32_t k_magic = 0x544c5057;  // "WPLT"
    static constexpr uint8_t k_version = 1;

    uint32_t magic = k_magic;
    uint32_t check = 0;  ///< checksum() of the rest
    uint64_t address = 0;
    uint8_t version = k_version;
    uint8_t rank = 0;
    TensorType type = TensorType::u8;
    TensorMode mode = TensorMode::tiled;
    TensorInterleave interleave = TensorInterleave::none;
    TensorSwizzle swizzle = TensorSwizzle::none;
    uint8_t promotion = 0;                         ///< CUtensorMapL2promotion: of no effect here
    uint8_t fill_nan = 0;                          ///< outside of the tensor: NaN instead of 0
    uint64_t strides[k_max_tensor_rank - 1] = {};  ///< bytes from one element to the next of dimensions 1 …
    uint32_t last[k_max_tensor_rank] = {};         ///< the highest coordinate of each dimension
    /// Tiled: extent of the box in each dimension. im2col: channels per pixel, pixels per column.
    uint16_t box[k_max_tensor_rank] = {};
    int16_t lower[k_max_tensor_rank - 2] = {};  ///< im2col: corners of the bounding box in W, H, D
    int16_t upper[k_max_tensor_rank - 2] = {};
    uint8_t steps[k_max_tensor_rank] = {};  ///< distance in elements between those that are copied
    uint8_t reserved[25] = {};

    uint32_t checksum() const {
        uint8_t bytes[sizeof(TensorMap)];
        std::memcpy(bytes, this, sizeof bytes);
        uint32_t sum = 2166136261u;  // FNV-1a
        for (uint32_t i = 2 * sizeof(uint32_t); i < sizeof bytes; ++i) sum = (sum ^ bytes[i]) * 16777619u;
        return sum;
    }
    void seal() { check = checksum(); }
    /// False: these bytes are no tensor map, or not any more.
    bool sound() const { return magic == k_magic && version == k_version && check == checksum(); }
};
static_assert(sizeof(TensorMap) == 128);

/// Types that have gaps between sixteen elements in shared memory.
constexpr bool is_padded(TensorType type) { return type == TensorType::b4x16_p64 || type == TensorType::b6x16_p32; }
/// Elements smaller than a byte are copied by twos, those with gaps by sixteens.
constexpr uint32_t elements_per_unit(TensorType type) { return is_padded(type) ? 16 : type == TensorType::b4x16 ? 2 : 1; }
/// Bytes of such a unit in global memory and in shared memory.
constexpr uint32_t unit_bytes(TensorType type) {
    constexpr uint8_t k_bytes[k_tensor_types] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 8, 12};
    return k_bytes[uint32_t(type)];
}
constexpr uint32_t shared_unit_bytes(TensorType type) { return is_padded(type) ? 16 : unit_bytes(type); }
constexpr bool is_float(TensorType type) { return type >= TensorType::f16 && type <= TensorType::tf32_ftz; }

/// Bytes within which 16-byte chunks change places; 0: they do not.
constexpr uint32_t swizzle_span(TensorSwizzle swizzle) {
    switch (swizzle) {
        case TensorSwizzle::none: return 0;
        case TensorSwizzle::span_32: return 32;
        case TensorSwizzle::span_64: return 64;
        default: return 128;
    }
}

/// Bytes of a slice of channels in the interleaved layouts; 0: the channels of a pixel are all together.
constexpr uint32_t slice_bytes(TensorInterleave interleave) {
    return interleave == TensorInterleave::none ? 0 : interleave == TensorInterleave::bytes_16 ? 16 : 32;
}

}  // namespace warpline::softgpu::exec
