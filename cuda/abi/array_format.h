// The formats of arrays: how many channels an element has, and how many bytes.
#pragma once

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

}  // namespace warpline::cuda::abi
