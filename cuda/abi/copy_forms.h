// From one of CUDA's descriptions of a copy to another.
#pragma once

#include <cstdint>

#include "cuda/abi/copy_end.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// A copy between two contexts as one within the current context.
inline CUDA_MEMCPY3D without_contexts(const CUDA_MEMCPY3D_PEER& copy) {
    CUDA_MEMCPY3D plain{};
    plain.WidthInBytes = copy.WidthInBytes, plain.Height = copy.Height, plain.Depth = copy.Depth;
    for (auto which : {CopyEnd::Which::source, CopyEnd::Which::destination}) put_end(plain, which, end_of(copy, which));
    return plain;
}

/// An operand of a batch's. @param element_bytes  of the array that takes part, or 1: no number of them may overflow
inline CopyEnd end_of(const CUmemcpy3DOperand& operand, const CUextent3D& extent, uint64_t element_bytes) {
    CopyEnd end;
    if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        const auto& at = operand.op.array.offset;
        end.type = CU_MEMORYTYPE_ARRAY, end.array = operand.op.array.array;
        end.x = at.x * element_bytes, end.y = at.y, end.z = at.z;
    } else {
        const auto& memory = operand.op.ptr;
        end.type = CU_MEMORYTYPE_UNIFIED, end.device = memory.ptr;
        end.pitch = (memory.rowLength != 0 ? memory.rowLength : extent.width) * element_bytes;
        end.height = memory.layerHeight != 0 ? memory.layerHeight : extent.height;
    }
    return end;
}

/// A copy of a batch. @param element_bytes  as above
inline CUDA_MEMCPY3D as_3d(const CUDA_MEMCPY3D_BATCH_OP& described, uint64_t element_bytes) {
    const CUextent3D& extent = described.extent;
    CUDA_MEMCPY3D out{};
    out.WidthInBytes = extent.width * element_bytes, out.Height = extent.height, out.Depth = extent.depth;
    put_end(out, CopyEnd::Which::source, end_of(described.src, extent, element_bytes));
    put_end(out, CopyEnd::Which::destination, end_of(described.dst, extent, element_bytes));
    return out;
}

}  // namespace warpline::cuda::abi
