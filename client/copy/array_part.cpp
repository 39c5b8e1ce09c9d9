// What arrays are is known here, so that copies beyond their end are refused at the call, before any of the program's memory
// is read for them.
#include "client/copy/array_part.h"

#include <algorithm>

#include "client/call/common.h"
#include "client/gen/array_calls.gen.h"
#include "cuda/abi/array_format.h"

namespace warpline::client {

namespace {

/// @param ask  the call to the server
template <typename Values, typename Descriptor, typename Ask>
CUresult describe(Call& call, CUarray handle, std::optional<Descriptor> Array::*kept, Descriptor& descriptor, Ask ask) {
    Array* array = call.state.arrays.find(to_token(handle));
    if (!array) return unknown_handle<HandleKind::array>(to_token(handle));
    // Whether another context is still there, the server knows.
    const bool is_own = array->context == call.context;
    if (is_own) {
        MutexLock lock(array->mutex);
        if (array->*kept) {
            descriptor = *(array->*kept);
            return CUDA_SUCCESS;
        }
    }
    Values answer;
    if (const CUresult result = ask(call, to_token(handle), answer); result != CUDA_SUCCESS) return result;
    copy_struct(&descriptor, answer.pArrayDescriptor);
    if (!is_own) return CUDA_SUCCESS;
    MutexLock lock(array->mutex);
    array->*kept = descriptor;
    return CUDA_SUCCESS;
}

CUresult find_extent(Call& call, CUarray handle, ArrayExtent& extent) {
    Array* array = call.state.arrays.find(to_token(handle));
    if (!array) return CUDA_ERROR_INVALID_VALUE;
    {
        MutexLock lock(array->mutex);
        if (array->extent) {
            extent = *array->extent;
            return CUDA_SUCCESS;
        }
    }
    CUDA_ARRAY3D_DESCRIPTOR descriptor{};
    if (const CUresult result = describe_array(call, handle, descriptor); result != CUDA_SUCCESS) return result;
    extent = extent_of(descriptor);
    MutexLock lock(array->mutex);
    array->extent = extent;
    return CUDA_SUCCESS;
}

bool fits(uint64_t first, uint64_t count, uint64_t all) { return first <= all && count <= all - first; }

}  // namespace

ArrayExtent extent_of(const CUDA_ARRAY3D_DESCRIPTOR& array) {
    ArrayExtent extent;
    extent.element_bytes = cuda::abi::element_bytes(array.Format, array.NumChannels);
    extent.row_bytes = array.Width * extent.element_bytes;
    extent.rows = std::max<uint64_t>(array.Height, 1);
    extent.layers = std::max<uint64_t>(array.Depth, 1);
    return extent;
}

CUresult describe_array(Call& call, CUarray handle, CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
    return describe<gen::CuArray3DGetDescriptorV2Values>(call, handle, &Array::descriptor, descriptor,
                                                         gen::request_cuArray3DGetDescriptor_v2);
}

CUresult describe_array(Call& call, CUarray handle, CUDA_ARRAY_DESCRIPTOR& descriptor) {
    return describe<gen::CuArrayGetDescriptorV2Values>(call, handle, &Array::flat_descriptor, descriptor,
                                                       gen::request_cuArrayGetDescriptor_v2);
}

CUresult check_in_array(Call& call, CUarray handle, const ArrayPart& part) {
    ArrayExtent extent;
    if (CUresult result = find_extent(call, handle, extent); result != CUDA_SUCCESS) return result;
    if (extent.row_bytes == 0) return CUDA_SUCCESS;
    return fits(part.x, part.width, extent.row_bytes) && fits(part.y, part.height, extent.rows) &&
                   fits(part.z, part.depth, extent.layers)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult find_element_bytes(Call& call, CUarray handle, uint64_t& bytes) {
    ArrayExtent extent;
    if (CUresult result = find_extent(call, handle, extent); result != CUDA_SUCCESS) return result;
    bytes = extent.element_bytes;
    return bytes != 0 ? CUDA_SUCCESS
                      : WL_REFUSE_CALL("cuMemcpy3DBatchAsync", "batches with arrays of formats that have planes or blocks");
}

}  // namespace warpline::client
