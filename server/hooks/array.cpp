// Making arrays: their memory counts, by the bytes of their elements; how a driver lays them out it does not say.
#include "server/gen/array_calls.gen.h"

#include "cuda/abi/array_format.h"
#include "server/hooks/common.h"
#include "server/session/struct_bytes.h"

namespace warpline::server {

namespace {

/// Takes what an array needs from the session's limit, makes it, and has its token keep both.
/// @param make  `make(Handle*)` asks the driver
template <typename Handle, typename Make>
CUresult make_array(ServerCall& call, HandleKind kind, uint64_t token, uint64_t bytes, Make&& make) {
    if (!call.may_bind(kind, token)) return CUDA_ERROR_INVALID_HANDLE;
    CUdevice device = 0;
    if (!call.session().contexts().device_of(call.context(), device)) return CUDA_ERROR_INVALID_CONTEXT;
    MemoryChargePtr charge;
    Handle handle{};
    WL_CUDA(make_charged(call, device, bytes, charge, [&] { return make(&handle); }));
    call.bind(kind, token, handle, call.context(), std::move(charge));
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_server_cuArrayCreate_v2(ServerCall& call, const CuArrayCreateV2Args& args) {
    const auto create = WL_DRIVER(call, cuArrayCreate_v2);
    CUDA_ARRAY_DESCRIPTOR flat{};
    if (!read_struct(args.pAllocateArray, flat)) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_ARRAY3D_DESCRIPTOR whole{flat.Width, flat.Height, 0, flat.Format, flat.NumChannels, 0};
    return make_array<CUarray>(call, HandleKind::array, args.pHandle, cuda::abi::array_bytes(whole, 1),
                               [&](CUarray* out) { return create(out, &flat); });
}

CUresult hook_server_cuArray3DCreate_v2(ServerCall& call, const CuArray3DCreateV2Args& args) {
    const auto create = WL_DRIVER(call, cuArray3DCreate_v2);
    CUDA_ARRAY3D_DESCRIPTOR array{};
    if (!read_struct(args.pAllocateArray, array)) return CUDA_ERROR_INVALID_VALUE;
    return make_array<CUarray>(call, HandleKind::array, args.pHandle, cuda::abi::array_bytes(array, 1),
                               [&](CUarray* out) { return create(out, &array); });
}

CUresult hook_server_cuMipmappedArrayCreate(ServerCall& call, const CuMipmappedArrayCreateArgs& args) {
    const auto create = WL_DRIVER(call, cuMipmappedArrayCreate);
    CUDA_ARRAY3D_DESCRIPTOR base{};
    if (!read_struct(args.pMipmappedArrayDesc, base)) return CUDA_ERROR_INVALID_VALUE;
    return make_array<CUmipmappedArray>(call, HandleKind::mipmapped_array, args.pHandle,
                                        cuda::abi::array_bytes(base, args.numMipmapLevels),
                                        [&](CUmipmappedArray* out) { return create(out, &base, args.numMipmapLevels); });
}

}  // namespace warpline::server
