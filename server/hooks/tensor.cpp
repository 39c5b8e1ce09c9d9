// Tensor maps: the driver makes them. It does not look at the memory that their addresses name; kernels do, as with any other
// pointer that they are given.
#include "server/gen/tensor_calls.gen.h"
#include "server/hooks/common.h"
#include "server/session/struct_bytes.h"

namespace warpline::server {

namespace {

constexpr uint32_t k_most_dimensions = 5;

/// An array of the program's. False: it did not come with `count` elements.
template <typename T>
bool read_dimensions(BytesView bytes, size_t count, T (&out)[k_most_dimensions]) {
    if (count > k_most_dimensions || bytes.size() != count * sizeof(T)) return false;
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    return true;
}

/// What the tensors of all modes have.
struct Tensor {
    cuuint64_t sizes[k_most_dimensions] = {}, strides[k_most_dimensions] = {};
    cuuint32_t steps[k_most_dimensions] = {};
    void* address = nullptr;

    template <typename Args>
    bool read(const Args& args, uint32_t least_rank) {
        address = reinterpret_cast<void*>(args.address);
        return args.rank >= least_rank && args.rank <= k_most_dimensions && read_dimensions(args.sizes, args.rank, sizes) &&
               read_dimensions(args.strides, args.rank - 1, strides) && read_dimensions(args.steps, args.rank, steps);
    }
};

}  // namespace

CUresult hook_server_cuTensorMapEncodeTiled(ServerCall& call, const CuTensorMapEncodeTiledArgs& args,
                                            CuTensorMapEncodeTiledValues& values) {
    const auto encode = WL_DRIVER(call, cuTensorMapEncodeTiled);
    Tensor tensor;
    cuuint32_t box[k_most_dimensions] = {};
    if (!tensor.read(args, 1) || !read_dimensions(args.box, args.rank, box)) return CUDA_ERROR_INVALID_VALUE;
    CUtensorMap map{};
    WL_CUDA(encode(&map, static_cast<CUtensorMapDataType>(args.type), args.rank, tensor.address, tensor.sizes, tensor.strides,
                   box, tensor.steps, static_cast<CUtensorMapInterleave>(args.interleave),
                   static_cast<CUtensorMapSwizzle>(args.swizzle), static_cast<CUtensorMapL2promotion>(args.promotion),
                   static_cast<CUtensorMapFloatOOBfill>(args.fill)));
    values.map = bytes_of(map);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuTensorMapEncodeIm2col(ServerCall& call, const CuTensorMapEncodeIm2colArgs& args,
                                             CuTensorMapEncodeIm2colValues& values) {
    const auto encode = WL_DRIVER(call, cuTensorMapEncodeIm2col);
    Tensor tensor;
    int lower[k_most_dimensions] = {}, upper[k_most_dimensions] = {};
    if (!tensor.read(args, 3) || !read_dimensions(args.lower, args.rank - 2, lower) ||
        !read_dimensions(args.upper, args.rank - 2, upper))
        return CUDA_ERROR_INVALID_VALUE;
    CUtensorMap map{};
    WL_CUDA(encode(&map, static_cast<CUtensorMapDataType>(args.type), args.rank, tensor.address, tensor.sizes, tensor.strides,
                   lower, upper, args.channels, args.pixels, tensor.steps, static_cast<CUtensorMapInterleave>(args.interleave),
                   static_cast<CUtensorMapSwizzle>(args.swizzle), static_cast<CUtensorMapL2promotion>(args.promotion),
                   static_cast<CUtensorMapFloatOOBfill>(args.fill)));
    values.map = bytes_of(map);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuTensorMapEncodeIm2colWide(ServerCall& call, const CuTensorMapEncodeIm2colWideArgs& args,
                                                 CuTensorMapEncodeIm2colWideValues& values) {
    const auto encode = WL_DRIVER(call, cuTensorMapEncodeIm2colWide);
    Tensor tensor;
    if (!tensor.read(args, 3)) return CUDA_ERROR_INVALID_VALUE;
    CUtensorMap map{};
    WL_CUDA(encode(&map, static_cast<CUtensorMapDataType>(args.type), args.rank, tensor.address, tensor.sizes, tensor.strides,
                   args.lower, args.upper, args.channels, args.pixels, tensor.steps,
                   static_cast<CUtensorMapInterleave>(args.interleave), static_cast<CUtensorMapIm2ColWideMode>(args.mode),
                   static_cast<CUtensorMapSwizzle>(args.swizzle), static_cast<CUtensorMapL2promotion>(args.promotion),
                   static_cast<CUtensorMapFloatOOBfill>(args.fill)));
    values.map = bytes_of(map);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuTensorMapReplaceAddress(ServerCall& call, const CuTensorMapReplaceAddressArgs& args,
                                               CuTensorMapReplaceAddressValues& values) {
    const auto replace = WL_DRIVER(call, cuTensorMapReplaceAddress);
    CUtensorMap map{};
    if (args.map.size() != sizeof map) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&map, args.map.data(), sizeof map);
    WL_CUDA(replace(&map, reinterpret_cast<void*>(args.address)));
    values.map = bytes_of(map);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
