// Tensor maps: the server's driver makes them, their bytes come back, and are kept.
#include "client/call/common.h"
#include "client/gen/tensor_calls.gen.h"
#include "client/state/answers.h"

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

/// A driver makes a map of its arguments alone, without asking the device: programs make the same ones in each step. Whether
/// the memory is the session's, the server looks; of memory that is known here it has said so before.
///
/// @param ask  the call to the server @param args  of that, but for the answer
template <typename Values, typename Ask, typename... Args>
CUresult make_map(Call& call, CUtensorMap* map, void* address, Ask ask, const Args&... args) {
    Answers<CUtensorMap>& made = call.state.tensor_maps;
    const bool is_known = address == nullptr || call.state.memory.contains(address_of(address), 1);
    const auto make = [&](CUtensorMap& out) {
        Values answer;
        if (const CUresult result = ask(call, args..., answer); result != CUDA_SUCCESS) return result;
        if (answer.map.size() != sizeof out) return CUDA_ERROR_UNKNOWN;
        std::memcpy(&out, answer.map.data(), sizeof out);
        return CUDA_SUCCESS;
    };
    if (!is_known) return make(*map);
    if (made.is_full()) made.forget();  // programs go on to other memory
    return made.get(question_of(call.id, call.device(), args...), *map, make);
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
    return make_map<gen::CuTensorMapEncodeTiledValues>(
        call, tensorMap, globalAddress, gen::request_cuTensorMapEncodeTiled, static_cast<uint32_t>(tensorDataType), tensorRank,
        address_of(globalAddress), array_bytes(globalDim, tensorRank), array_bytes(globalStrides, tensorRank - 1),
        array_bytes(boxDim, tensorRank), array_bytes(elementStrides, tensorRank), static_cast<uint32_t>(interleave),
        static_cast<uint32_t>(swizzle), static_cast<uint32_t>(l2Promotion), static_cast<uint32_t>(oobFill));
}

CUresult hook_client_cuTensorMapEncodeIm2col(Call& call, CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                             cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
                                             const cuuint64_t* globalStrides, const int* pixelBoxLowerCorner,
                                             const int* pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
                                             cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides,
                                             CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                             CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill) {
    if (!well_placed(tensorMap) || !rank_fits(tensorRank, 3)) return CUDA_ERROR_INVALID_VALUE;
    return make_map<gen::CuTensorMapEncodeIm2colValues>(
        call, tensorMap, globalAddress, gen::request_cuTensorMapEncodeIm2col, static_cast<uint32_t>(tensorDataType), tensorRank,
        address_of(globalAddress), array_bytes(globalDim, tensorRank), array_bytes(globalStrides, tensorRank - 1),
        array_bytes(pixelBoxLowerCorner, tensorRank - 2), array_bytes(pixelBoxUpperCorner, tensorRank - 2), channelsPerPixel,
        pixelsPerColumn, array_bytes(elementStrides, tensorRank), static_cast<uint32_t>(interleave),
        static_cast<uint32_t>(swizzle), static_cast<uint32_t>(l2Promotion), static_cast<uint32_t>(oobFill));
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
    return make_map<gen::CuTensorMapEncodeIm2colWideValues>(
        call, tensorMap, globalAddress, gen::request_cuTensorMapEncodeIm2colWide, static_cast<uint32_t>(tensorDataType),
        tensorRank, address_of(globalAddress), array_bytes(globalDim, tensorRank), array_bytes(globalStrides, tensorRank - 1),
        pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth, channelsPerPixel, pixelsPerColumn,
        array_bytes(elementStrides, tensorRank), static_cast<uint32_t>(interleave), static_cast<uint32_t>(mode),
        static_cast<uint32_t>(swizzle), static_cast<uint32_t>(l2Promotion), static_cast<uint32_t>(oobFill));
}

CUresult hook_client_cuTensorMapReplaceAddress(Call& call, CUtensorMap* tensorMap, void* globalAddress) {
    if (!well_placed(tensorMap)) return CUDA_ERROR_INVALID_VALUE;
    const CUtensorMap before = *tensorMap;
    return make_map<gen::CuTensorMapReplaceAddressValues>(call, tensorMap, globalAddress,
                                                          gen::request_cuTensorMapReplaceAddress, struct_bytes(&before),
                                                          address_of(globalAddress));
}

}  // namespace warpline::client
