// Arrays: what they are is known here, so that copies beyond their end are refused at the call, before any of the program's
// memory is read for them.
#include "client/hooks/array.h"

#include <algorithm>
#include <bit>

#include "client/gen/array_calls.gen.h"
#include "client/hooks/common.h"
#include "cuda/abi/array_format.h"

namespace warpline::client {

namespace {

ArrayExtent extent_of(const CUDA_ARRAY3D_DESCRIPTOR& array) {
    ArrayExtent extent;
    extent.row_bytes = uint64_t{array.Width} * cuda::abi::element_bytes(array.Format, array.NumChannels);
    extent.rows = std::max<uint64_t>(array.Height, 1);
    extent.layers = std::max<uint64_t>(array.Depth, 1);
    return extent;
}

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
    {
        MutexLock lock(made.object->mutex);
        made.object->extent = extent_of(array);
    }
    *out = to_handle<CUarray>(made.token);
    return CUDA_SUCCESS;
}

CUresult ask_extent(Call& call, uint64_t token, Array& array, ArrayExtent& extent) {
    {
        MutexLock lock(array.mutex);
        if (array.extent) {
            extent = *array.extent;
            return CUDA_SUCCESS;
        }
    }
    gen::CuArray3DGetDescriptorV2Values values;
    if (CUresult result = gen::request_cuArray3DGetDescriptor_v2(call, token, values); result != CUDA_SUCCESS) return result;
    CUDA_ARRAY3D_DESCRIPTOR descriptor{};
    copy_struct(&descriptor, values.pArrayDescriptor);
    extent = extent_of(descriptor);
    MutexLock lock(array.mutex);
    array.extent = extent;
    return CUDA_SUCCESS;
}

bool fits(uint64_t first, uint64_t count, uint64_t all) { return first <= all && count <= all - first; }

}  // namespace

CUresult check_in_array(Call& call, CUarray handle, const ArrayPart& part) {
    Array* array = call.state.arrays.find(to_token(handle));
    if (!array) return CUDA_ERROR_INVALID_HANDLE;
    ArrayExtent extent;
    if (CUresult result = ask_extent(call, to_token(handle), *array, extent); result != CUDA_SUCCESS) return result;
    if (extent.row_bytes == 0) return CUDA_SUCCESS;
    return fits(part.x, part.width, extent.row_bytes) && fits(part.y, part.height, extent.rows) &&
                   fits(part.z, part.depth, extent.layers)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

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
    }
    *pLevelArray = to_handle<CUarray>(made.token);
    return gen::issue_cuMipmappedArrayGetLevel(call, made.token, to_token(hMipmappedArray), level);
}

}  // namespace warpline::client
