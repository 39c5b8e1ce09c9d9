// Arrays and mipmapped arrays: their making waits, because memory that runs out is told by the call that asks for it.
#include <algorithm>
#include <bit>

#include "client/call/allocate.h"
#include "client/call/common.h"
#include "client/copy/array_part.h"
#include "client/gen/array_calls.gen.h"

namespace warpline::client {

namespace {

/// Layers and the faces of cubes are as many at each level.
bool layers_shrink(const CUDA_ARRAY3D_DESCRIPTOR& array) {
    return (array.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) == 0;
}

/// A side at a level of a mipmapped array; 0, a side that there is not, stays.
size_t smaller(size_t side, unsigned level) { return side == 0 ? 0 : std::max<size_t>(side >> level, 1); }

/// Waits, because memory that runs out is told by the call that asks for it.
template <typename Request>
CUresult create_array(Call& call, CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& array, Request&& request) {
    auto made = make_object<HandleKind::array>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    if (CUresult result = request(made.token); result != CUDA_SUCCESS) {
        call.state.arrays.remove(made.token);
        return result;
    }
    took_memory(call, call.device());
    {
        MutexLock lock(made.object->mutex);
        made.object->extent = extent_of(array);
    }
    *out = to_handle<CUarray>(made.token);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_client_cuArrayCreate_v2(Call& call, CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
    const CUDA_ARRAY_DESCRIPTOR& flat = *pAllocateArray;
    return create_array(call, pHandle, {flat.Width, flat.Height, 0, flat.Format, flat.NumChannels, 0}, [&](uint64_t token) {
        return gen::request_cuArrayCreate_v2(call, token, struct_bytes(pAllocateArray));
    });
}

CUresult hook_client_cuArray3DCreate_v2(Call& call, CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
    return create_array(call, pHandle, *pAllocateArray, [&](uint64_t token) {
        return gen::request_cuArray3DCreate_v2(call, token, struct_bytes(pAllocateArray));
    });
}

CUresult hook_client_cuArrayGetDescriptor_v2(Call& call, CUDA_ARRAY_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
    return describe_array(call, hArray, *pArrayDescriptor);
}

CUresult hook_client_cuArray3DGetDescriptor_v2(Call& call, CUDA_ARRAY3D_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
    return describe_array(call, hArray, *pArrayDescriptor);
}

CUresult hook_client_cuArrayDestroy(Call& call, CUarray hArray) {
    Array* array = call.state.arrays.find(to_token(hArray));
    if (!array) return unknown_handle<HandleKind::array>(to_token(hArray));
    {
        MutexLock lock(array->mutex);
        if (array->is_part) return CUDA_ERROR_INVALID_HANDLE;
    }
    const CUresult result = gen::issue_cuArrayDestroy(call, to_token(hArray));
    if (result == CUDA_SUCCESS) call.state.arrays.remove(to_token(hArray));
    return result;
}

/// Waits, because the driver alone knows which formats have which planes.
CUresult hook_client_cuArrayGetPlane(Call& call, CUarray* pPlaneArray, CUarray hArray, unsigned int planeIdx) {
    if (!call.state.arrays.find(to_token(hArray))) return CUDA_ERROR_INVALID_HANDLE;
    auto made = make_object<HandleKind::array>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = gen::request_cuArrayGetPlane(call, made.token, to_token(hArray), planeIdx);
    if (result != CUDA_SUCCESS) {
        call.state.arrays.remove(made.token);
        return result;
    }
    {
        MutexLock lock(made.object->mutex);
        made.object->is_part = true;
    }
    *pPlaneArray = to_handle<CUarray>(made.token);  // how large it is, is asked when it is copied
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMipmappedArrayCreate(Call& call, CUmipmappedArray* pHandle,
                                            const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc, unsigned int numMipmapLevels) {
    auto made = make_object<HandleKind::mipmapped_array>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result =
        gen::request_cuMipmappedArrayCreate(call, made.token, struct_bytes(pMipmappedArrayDesc), numMipmapLevels);
    if (result != CUDA_SUCCESS) {
        call.state.mipmapped_arrays.remove(made.token);
        return result;
    }
    took_memory(call, call.device());
    {
        const CUDA_ARRAY3D_DESCRIPTOR& base = *pMipmappedArrayDesc;
        MutexLock lock(made.object->mutex);
        made.object->base = base;
        const auto longest = std::max({uint64_t{base.Width}, uint64_t{base.Height}, layers_shrink(base) ? base.Depth : 0});
        made.object->levels = std::min(numMipmapLevels, static_cast<unsigned>(std::bit_width(longest)));
    }
    *pHandle = to_handle<CUmipmappedArray>(made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuMipmappedArrayGetLevel(Call& call, CUarray* pLevelArray, CUmipmappedArray hMipmappedArray,
                                              unsigned int level) {
    MipmappedArray* mipmapped = call.state.mipmapped_arrays.find(to_token(hMipmappedArray));
    if (!mipmapped) return CUDA_ERROR_INVALID_HANDLE;
    CUDA_ARRAY3D_DESCRIPTOR size;
    {
        MutexLock lock(mipmapped->mutex);
        if (level >= mipmapped->levels) return CUDA_ERROR_INVALID_VALUE;
        size = mipmapped->base;
    }
    size.Width = smaller(size.Width, level);
    size.Height = smaller(size.Height, level);
    if (layers_shrink(size)) size.Depth = smaller(size.Depth, level);
    auto made = make_object<HandleKind::array>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    {
        MutexLock lock(made.object->mutex);
        made.object->extent = extent_of(size);
        made.object->is_part = true;
    }
    *pLevelArray = to_handle<CUarray>(made.token);
    return gen::issue_cuMipmappedArrayGetLevel(call, made.token, to_token(hMipmappedArray), level);
}

}  // namespace warpline::client
