// The formats of arrays: how many channels an element has, and how many bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// Channels of a format that says itself how many there are; 0: it leaves them to the descriptor, or is none.
constexpr unsigned channels_of(CUarray_format format) {
    switch (format) {
        case CU_AD_FORMAT_UNORM_INT8X1:
        case CU_AD_FORMAT_SNORM_INT8X1:
        case CU_AD_FORMAT_UNORM_INT16X1:
        case CU_AD_FORMAT_SNORM_INT16X1: return 1;
        case CU_AD_FORMAT_UNORM_INT8X2:
        case CU_AD_FORMAT_SNORM_INT8X2:
        case CU_AD_FORMAT_UNORM_INT16X2:
        case CU_AD_FORMAT_SNORM_INT16X2: return 2;
        case CU_AD_FORMAT_UNORM_INT8X4:
        case CU_AD_FORMAT_SNORM_INT8X4:
        case CU_AD_FORMAT_UNORM_INT16X4:
        case CU_AD_FORMAT_SNORM_INT16X4: return 4;
        default: return 0;
    }
}

/// Bytes of a channel; 0: the format has planes or blocks, or is none.
constexpr uint64_t channel_bytes(CUarray_format format) {
    switch (format) {
        case CU_AD_FORMAT_UNSIGNED_INT8:
        case CU_AD_FORMAT_SIGNED_INT8:
        case CU_AD_FORMAT_UNORM_INT8X1:
        case CU_AD_FORMAT_SNORM_INT8X1:
        case CU_AD_FORMAT_UNORM_INT8X2:
        case CU_AD_FORMAT_SNORM_INT8X2:
        case CU_AD_FORMAT_UNORM_INT8X4:
        case CU_AD_FORMAT_SNORM_INT8X4: return 1;
        case CU_AD_FORMAT_UNSIGNED_INT16:
        case CU_AD_FORMAT_SIGNED_INT16:
        case CU_AD_FORMAT_HALF:
        case CU_AD_FORMAT_UNORM_INT16X1:
        case CU_AD_FORMAT_SNORM_INT16X1:
        case CU_AD_FORMAT_UNORM_INT16X2:
        case CU_AD_FORMAT_SNORM_INT16X2:
        case CU_AD_FORMAT_UNORM_INT16X4:
        case CU_AD_FORMAT_SNORM_INT16X4: return 2;
        case CU_AD_FORMAT_UNSIGNED_INT32:
        case CU_AD_FORMAT_SIGNED_INT32:
        case CU_AD_FORMAT_FLOAT: return 4;
        default: return 0;
    }
}

/// Bytes of an element of an array or a texture; 0: the format has planes or blocks, or is none.
/// @param channels  what the descriptor says; formats that say it themselves go before
constexpr uint64_t element_bytes(CUarray_format format, uint64_t channels) {
    const unsigned own = channels_of(format);
    return channel_bytes(format) * (own != 0 ? own : channels);
}

/// Bits that an element takes, also of formats with blocks; of those with planes as much as any of them.
constexpr uint64_t element_bits(CUarray_format format, uint64_t channels) {
    switch (format) {
        case CU_AD_FORMAT_BC1_UNORM:
        case CU_AD_FORMAT_BC1_UNORM_SRGB:
        case CU_AD_FORMAT_BC4_UNORM:
        case CU_AD_FORMAT_BC4_SNORM: return 4;
        case CU_AD_FORMAT_BC2_UNORM:
        case CU_AD_FORMAT_BC2_UNORM_SRGB:
        case CU_AD_FORMAT_BC3_UNORM:
        case CU_AD_FORMAT_BC3_UNORM_SRGB:
        case CU_AD_FORMAT_BC5_UNORM:
        case CU_AD_FORMAT_BC5_SNORM:
        case CU_AD_FORMAT_BC6H_UF16:
        case CU_AD_FORMAT_BC6H_SF16:
        case CU_AD_FORMAT_BC7_UNORM:
        case CU_AD_FORMAT_BC7_UNORM_SRGB: return 8;
        case CU_AD_FORMAT_NV12: return 12;
        default: break;
    }
    const uint64_t bytes = element_bytes(format, channels);
    return bytes != 0 ? 8 * bytes : 64;
}

/// What the elements of an array, or of all levels of a mipmapped one, take; nothing if it has no memory of its own. As much as
/// there can be, if that is more than a number holds.
constexpr uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR& array, unsigned levels) {
    constexpr uint64_t k_tile_bytes = 512, k_most = uint64_t{1} << 60;
    if ((array.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) return 0;
    const bool layered = (array.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    const auto longest = std::max({uint64_t{array.Width}, uint64_t{array.Height}, layered ? 0 : uint64_t{array.Depth}});
    uint64_t total = 0;
    for (unsigned level = 0; level < std::min<unsigned>(levels, static_cast<unsigned>(std::bit_width(longest))); ++level) {
        const auto side = [&](uint64_t whole, bool shrinks) { return std::max<uint64_t>(shrinks ? whole >> level : whole, 1); };
        uint64_t bits = element_bits(array.Format, array.NumChannels);
        for (const uint64_t length : {side(array.Width, true), side(array.Height, true), side(array.Depth, !layered)}) {
            if (length > k_most / bits) return k_most;
            bits *= length;
        }
        total += (bits + 8 * k_tile_bytes - 1) / (8 * k_tile_bytes) * k_tile_bytes;
    }
    return std::min(total, k_most);
}

}  // namespace warpline::cuda::abi
