// Tensor maps: the server's driver makes them, their bytes come back.
#include "client/call/common.h"
#include "client/gen/tensor_calls.gen.h"

namespace warpline::client {

namespace {

constexpr cuuint32_t k_most_dimensions = 5;

bool well_placed(const CUtensorMap* map) {
    constexpr uintptr_t k_alignment = 64;
    return reinterpret_cast<uintptr_t>(map) % k_alignment == 0;
}

/// As many dimensions as there are elements to read in the program's arrays.
bool rank_fits(cuuint32_t rank, cuuint32_t least) { return rank >= least && rank <= k_most_dimensions; }

uint64_t address_of(const void* address) { return reinterpret_cast<uint64_t>(address); }

template <typename Values>
CUresult finish(CUresult result, const Values& answer, CUtensorMap* map) {
    if (result != CUDA_SUCCESS) return result;
    if (answer.map.size() != sizeof *map) return CUDA_ERROR_UNKNOWN;
    std::memcpy(map, answer.map.data(), sizeof *map);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_client_cuTensorMapEncodeTiled(Call& call, CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                            cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
                                            const cuuint64_t* globalStrides, const cuuint32_t* boxDim,
                                            const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
                                            CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                            CUtensorMapFloatOOBfill oobFill) {
    if (!well_placed(tensorMap) || !rank_fits(tensorRank, 1) || (globalStrides == nullptr && tensorRank > 1))
        return CUDA_ERROR_INVALID_VALUE;
    gen::CuTensorMapEncodeTiledValues answer;
    CUresult result = gen::request_cuTensorMapEncodeTiled(
        call, static_cast<uint32_t>(tensorDataType), tensorRank, address_of(globalAddress), array_bytes(globalDim, tensorRank),
        array_bytes(globalStrides, tensorRank - 1), array_bytes(boxDim, tensorRank), array_bytes(elementStrides, tensorRank),
        static_cast<uint32_t>(interleave), static_cast<uint32_t>(swizzle), static_cast<uint32_t>(l2Promotion),
        static_cast<uint32_t>(oobFill), answer);
    return finish(result, answer, tensorMap);
}

CUresult hook_client_cuTensorMapEncodeIm2col(Call& call, CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                             cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
                                             const cuuint64_t* globalStrides, const int* pixelBoxLowerCorner,
                                             const int* pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
                                             cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides,
                                             CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                             CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill) {
    if (!well_placed(tensorMap) || !rank_fits(tensorRank, 3)) return CUDA_ERROR_INVALID_VALUE;
    gen::CuTensorMapEncodeIm2colValues answer;
    CUresult result = gen::request_cuTensorMapEncodeIm2col(
        call, static_cast<uint32_t>(tensorDataType), tensorRank, address_of(globalAddress), array_bytes(globalDim, tensorRank),
        array_bytes(globalStrides, tensorRank - 1), array_bytes(pixelBoxLowerCorner, tensorRank - 2),
        array_bytes(pixelBoxUpperCorner, tensorRank - 2), channelsPerPixel, pixelsPerColumn,
        array_bytes(elementStrides, tensorRank), static_cast<uint32_t>(interleave), static_cast<uint32_t>(swizzle),
        static_cast<uint32_t>(l2Promotion), static_cast<uint32_t>(oobFill), answer);
    return finish(result, answer, tensorMap);
}

CUresult hook_client_cuTensorMapEncodeIm2colWide(Call& call, CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                                 cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
                                                 const cuuint64_t* globalStrides, int pixelBoxLowerCornerWidth,
                                                 int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
                                                 cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides,
                                                 CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
                                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                                 CUtensorMapFloatOOBfill oobFill) {
    if (!well_placed(tensorMap) || !rank_fits(tensorRank, 3)) return CUDA_ERROR_INVALID_VALUE;
    gen::CuTensorMapEncodeIm2colWideValues answer;
    CUresult result = gen::request_cuTensorMapEncodeIm2colWide(
        call, static_cast<uint32_t>(tensorDataType), tensorRank, address_of(globalAddress), array_bytes(globalDim, tensorRank),
        array_bytes(globalStrides, tensorRank - 1), pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth, channelsPerPixel,
        pixelsPerColumn, array_bytes(elementStrides, tensorRank), static_cast<uint32_t>(interleave),
        static_cast<uint32_t>(mode), static_cast<uint32_t>(swizzle), static_cast<uint32_t>(l2Promotion),
        static_cast<uint32_t>(oobFill), answer);
    return finish(result, answer, tensorMap);
}

CUresult hook_client_cuTensorMapReplaceAddress(Call& call, CUtensorMap* tensorMap, void* globalAddress) {
    if (!well_placed(tensorMap)) return CUDA_ERROR_INVALID_VALUE;
    gen::CuTensorMapReplaceAddressValues answer;
    CUresult result = gen::request_cuTensorMapReplaceAddress(call, struct_bytes(tensorMap), address_of(globalAddress), answer);
    return finish(result, answer, tensorMap);
}

}  // namespace warpline::client
