// Tensor maps: the checks that cuda.h documents, and the descriptor (softgpu/exec/tensor_map.h).
// Source: CUDA Driver API 13.0, Tensor Map Object Management; PTX ISA, "Tensors".
#include "softgpu/driver/texture/tensor_map.h"

#include <algorithm>

#include "common/log/log.h"
#include "softgpu/driver/process/cu_try.h"

namespace warpline::softgpu::driver {

using exec::TensorInterleave;
using exec::TensorMap;
using exec::TensorMode;
using exec::TensorSwizzle;
using exec::TensorType;

namespace {

constexpr uint64_t k_most_elements = 1ull << 32;
constexpr uint64_t k_stride_limit_bytes = 1ull << 40;
constexpr uint32_t k_most_box = 256, k_most_step = 8, k_most_pixels = 1024;
constexpr uint32_t k_padded_elements = 128;  ///< what a box of a padded type has, and what its sizes are multiples of
constexpr uint32_t k_granule_bytes = 16;

/// Of a tensor in global memory.
uint32_t address_granule(TensorType type, TensorInterleave interleave) {
    return interleave == TensorInterleave::bytes_32 || exec::is_padded(type) ? 32 : k_granule_bytes;
}

CUresult refuse(const char* what) {
    WL_LOG(error, "softgpu", "tensor map refused: {} is not supported", what);
    return CUDA_ERROR_NOT_SUPPORTED;
}

bool enums_known(const TensorMapRequest& request) {
    return unsigned(request.type) < exec::k_tensor_types && unsigned(request.interleave) <= CU_TENSOR_MAP_INTERLEAVE_32B &&
           unsigned(request.swizzle) <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B &&
           unsigned(request.promotion) <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
           unsigned(request.fill) <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
}

bool rank_fits(const TensorMapRequest& request) {
    const bool sliced = request.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE;
    const cuuint32_t least = request.mode != TensorMode::tiled || sliced ? 3 : 1;
    return request.rank >= least && request.rank <= exec::k_max_tensor_rank;
}

bool read_sizes(const TensorMapRequest& request, TensorMap& map) {
    const uint32_t granule = exec::is_padded(map.type) ? k_padded_elements : exec::elements_per_unit(map.type);
    for (uint32_t d = 0; d < map.rank; ++d) {
        if (request.sizes[d] == 0 || request.sizes[d] > k_most_elements) return false;
        map.last[d] = static_cast<uint32_t>(request.sizes[d] - 1);
    }
    return request.sizes[0] % granule == 0;
}

bool read_strides(const TensorMapRequest& request, TensorMap& map) {
    for (uint32_t d = 0; d + 1 < map.rank; ++d) {
        const uint64_t stride = request.strides[d];
        if (stride >= k_stride_limit_bytes || stride % address_granule(map.type, map.interleave) != 0) return false;
        map.strides[d] = stride;
    }
    return true;
}

bool read_steps(const TensorMapRequest& request, TensorMap& map) {
    for (uint32_t d = 0; d < map.rank; ++d) {
        // Without slices the first one is ignored.
        const bool ignored = d == 0 && map.interleave == TensorInterleave::none;
        const uint32_t step = ignored ? 1 : request.steps[d];
        if (step == 0 || step > k_most_step) return false;
        map.steps[d] = static_cast<uint8_t>(step);
    }
    return true;
}

bool read_box(const TensorMapRequest& request, TensorMap& map) {
    for (uint32_t d = 0; d < map.rank; ++d) {
        if (request.box[d] == 0 || request.box[d] > k_most_box) return false;
        map.box[d] = static_cast<uint16_t>(request.box[d]);
    }
    return true;
}

/// The corners of the bounding box: as many bits as fit into 16 for all of them.
bool read_corners(const TensorMapRequest& request, TensorMap& map) {
    const bool wide = request.mode != TensorMode::im2col;
    const int bits = wide || map.rank == 3 ? 16 : map.rank == 4 ? 8 : 5;
    const int least = -(1 << (bits - 1)), most = (1 << (bits - 1)) - 1;
    for (size_t d = 0; d < request.lower.size(); ++d) {
        const int lower = request.lower[d], upper = request.upper[d];
        if (lower < least || lower > most || upper < least || upper > most) return false;
        if (int64_t{map.last[d + 1]} + upper < lower) return false;  // nothing is in the box
        map.lower[d] = static_cast<int16_t>(lower);
        map.upper[d] = static_cast<int16_t>(upper);
    }
    return true;
}

bool read_column(const TensorMapRequest& request, TensorMap& map) {
    const uint32_t pixels = request.mode == TensorMode::im2col_w_128 ? 128 : request.pixels;
    if (request.channels == 0 || request.channels > k_most_box || pixels == 0 || pixels > k_most_pixels) return false;
    map.box[0] = static_cast<uint16_t>(request.channels);
    map.box[1] = static_cast<uint16_t>(pixels);
    return read_corners(request, map);
}

/// The inner dimension of the box.
bool inner_fits(const TensorMap& map) {
    if (exec::is_padded(map.type)) return map.box[0] == k_padded_elements;
    if (map.interleave != TensorInterleave::none) return true;
    const uint32_t per_unit = exec::elements_per_unit(map.type);
    const uint32_t bytes = map.box[0] / per_unit * exec::unit_bytes(map.type), span = exec::swizzle_span(map.swizzle);
    return map.box[0] % per_unit == 0 && bytes % k_granule_bytes == 0 && (span == 0 || bytes <= span);
}

bool swizzle_fits(const TensorMap& map) {
    const TensorSwizzle swizzle = map.swizzle;
    if (map.interleave == TensorInterleave::bytes_32 && swizzle != TensorSwizzle::span_32) return false;
    const bool wide = map.mode == TensorMode::im2col_w || map.mode == TensorMode::im2col_w_128;
    if (wide && swizzle != TensorSwizzle::span_64 && swizzle != TensorSwizzle::span_128 &&
        swizzle != TensorSwizzle::span_128_atom_32)
        return false;
    if (!exec::is_padded(map.type)) return true;
    return swizzle == TensorSwizzle::none || swizzle == TensorSwizzle::span_128 || swizzle == TensorSwizzle::span_128_atom_32 ||
           (swizzle == TensorSwizzle::span_128_atom_64 && map.type == TensorType::b6x16_p32);
}

/// In NC/8HWC8 and NC/16HWC16 the stride from slice to slice is not among the arguments. It is known where nothing is between
/// them: pixels next to each other, then rows, slices, images.
CUresult check_interleave(const TensorMap& map) {
    if (map.interleave == TensorInterleave::none) return CUDA_SUCCESS;
    if (map.mode == TensorMode::im2col_w || map.mode == TensorMode::im2col_w_128 || map.type == TensorType::b6x16_p32)
        return CUDA_ERROR_INVALID_VALUE;
    if (exec::elements_per_unit(map.type) != 1) return refuse("an interleaved layout of elements smaller than a byte");
    if (map.steps[0] != 1) return refuse("an interleaved layout with a step over channels");
    const uint32_t channels = exec::slice_bytes(map.interleave) / exec::unit_bytes(map.type), batch = map.rank - 1u;
    uint64_t dense = exec::slice_bytes(map.interleave);
    for (uint32_t d = 1; d <= batch; ++d) {
        if (map.strides[d - 1] != dense) return refuse("an interleaved layout with gaps");
        dense *= uint64_t{map.last[d]} + 1;
        if (d + 1 == batch) dense *= map.last[0] / channels + 1u;
    }
    return CUDA_SUCCESS;
}

}  // namespace

bool tensor_address_fits(uint64_t address, TensorType type, TensorInterleave interleave) {
    return address % address_granule(type, interleave) == 0;
}

CUresult make_tensor_map(const TensorMapRequest& request, TensorMap& map) {
    if (!enums_known(request) || !rank_fits(request)) return CUDA_ERROR_INVALID_VALUE;
    if (request.sizes == nullptr || request.steps == nullptr || (request.strides == nullptr && request.rank > 1) ||
        (request.mode == TensorMode::tiled && request.box == nullptr))
        return CUDA_ERROR_INVALID_VALUE;
    map = TensorMap{};
    map.mode = request.mode;
    map.type = static_cast<TensorType>(request.type);
    map.rank = static_cast<uint8_t>(request.rank);
    map.address = reinterpret_cast<uint64_t>(request.address);
    map.interleave = static_cast<TensorInterleave>(request.interleave);
    map.swizzle = static_cast<TensorSwizzle>(request.swizzle);
    map.promotion = static_cast<uint8_t>(request.promotion);
    map.fill_nan = request.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    if (map.fill_nan != 0 && !exec::is_float(map.type)) return CUDA_ERROR_INVALID_VALUE;
    if (!tensor_address_fits(map.address, map.type, map.interleave) || !read_sizes(request, map) ||
        !read_strides(request, map) || !read_steps(request, map) || !swizzle_fits(map))
        return CUDA_ERROR_INVALID_VALUE;
    if (!(request.mode == TensorMode::tiled ? read_box(request, map) : read_column(request, map)) || !inner_fits(map))
        return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(check_interleave(map));
    map.seal();
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
