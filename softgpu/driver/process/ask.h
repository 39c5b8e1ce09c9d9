// Answering what is asked of one object.
#pragma once

#include <memory>

#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/process/cu_try.h"

namespace warpline::softgpu::driver {

/// Writes one value of the object with a handle.
/// @param find  finds it: find_stream, find_node, …
/// @param tell  the value
/// @errors      invalid value: nowhere to write it; as find()
template <typename Object, typename Handle, typename Value, typename Tell>
CUresult ask(CUresult (*find)(Handle, std::shared_ptr<Object>&), Handle handle, Value* out, Tell tell) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Object> object;
    CU_TRY(find(handle, object));
    *out = tell(*object);
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
