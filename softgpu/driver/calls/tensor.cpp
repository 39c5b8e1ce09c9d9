// Tensor maps.
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/process/cu_try.h"
#include "softgpu/driver/texture/tensor_map.h"

namespace warpline::softgpu::driver {

namespace {

bool well_placed(const CUtensorMap* map) {
    constexpr uintptr_t k_alignment = 64;
    return map != nullptr && reinterpret_cast<uintptr_t>(map) % k_alignment == 0;
}

CUresult encode(CUtensorMap* out, const TensorMapRequest& request) {
    if (!well_placed(out)) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    exec::TensorMap map;
    CU_TRY(make_tensor_map(request, map));
    *out = __builtin_bit_cast(CUtensorMap, map);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
                                const cuuint32_t* boxDim, const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                CUtensorMapFloatOOBfill oobFill) {
    return encode(tensorMap, {.mode = exec::TensorMode::tiled,
                              .type = tensorDataType,
                              .rank = tensorRank,
                              .address = globalAddress,
                              .sizes = globalDim,
                              .strides = globalStrides,
                              .steps = elementStrides,
                              .interleave = interleave,
                              .swizzle = swizzle,
                              .promotion = l2Promotion,
                              .fill = oobFill,
                              .box = boxDim,
                              .lower = {},
                              .upper = {}});
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                 void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
                                 const int* pixelBoxLowerCorner, const int* pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
                                 cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                 CUtensorMapFloatOOBfill oobFill) {
    if (pixelBoxLowerCorner == nullptr || pixelBoxUpperCorner == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (tensorRank < 3 || tensorRank > exec::k_max_tensor_rank) return CUDA_ERROR_INVALID_VALUE;
    return encode(tensorMap, {.mode = exec::TensorMode::im2col,
                              .type = tensorDataType,
                              .rank = tensorRank,
                              .address = globalAddress,
                              .sizes = globalDim,
                              .strides = globalStrides,
                              .steps = elementStrides,
                              .interleave = interleave,
                              .swizzle = swizzle,
                              .promotion = l2Promotion,
                              .fill = oobFill,
                              .lower = {pixelBoxLowerCorner, tensorRank - 2},
                              .upper = {pixelBoxUpperCorner, tensorRank - 2},
                              .channels = channelsPerPixel,
                              .pixels = pixelsPerColumn});
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                     void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
                                     int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
                                     cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides,
                                     CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
                                     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                     CUtensorMapFloatOOBfill oobFill) {
    if (mode != CU_TENSOR_MAP_IM2COL_WIDE_MODE_W && mode != CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128)
        return CUDA_ERROR_INVALID_VALUE;
    const bool all = mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128;
    return encode(tensorMap, {.mode = all ? exec::TensorMode::im2col_w_128 : exec::TensorMode::im2col_w,
                              .type = tensorDataType,
                              .rank = tensorRank,
                              .address = globalAddress,
                              .sizes = globalDim,
                              .strides = globalStrides,
                              .steps = elementStrides,
                              .interleave = interleave,
                              .swizzle = swizzle,
                              .promotion = l2Promotion,
                              .fill = oobFill,
                              .lower = {&pixelBoxLowerCornerWidth, 1},
                              .upper = {&pixelBoxUpperCornerWidth, 1},
                              .channels = channelsPerPixel,
                              .pixels = pixelsPerColumn});
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* tensorMap, void* globalAddress) {
    if (!well_placed(tensorMap)) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    auto map = __builtin_bit_cast(exec::TensorMap, *tensorMap);
    const auto address = reinterpret_cast<uint64_t>(globalAddress);
    if (!map.sound() || !tensor_address_fits(address, map.type, map.interleave)) return CUDA_ERROR_INVALID_VALUE;
    map.address = address;
    map.seal();
    *tensorMap = __builtin_bit_cast(CUtensorMap, map);
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
