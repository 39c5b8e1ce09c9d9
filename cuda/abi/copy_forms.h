// From one of CUDA's descriptions of a copy to another.
#pragma once

#include <cstdint>

#include "common/base/region.h"
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

/// A copy of a batch, whose widths count elements of the array that takes part; bytes, where none does.
///
/// @param element_of  is given an array and writes the bytes of its elements, or gives an error
/// @errors            invalid value: no such operand, arrays of different elements, numbers that are too large; what
///                    element_of() gives
template <typename ElementOf>
CUresult read_batch_copy(const CUDA_MEMCPY3D_BATCH_OP& described, ElementOf element_of, CUDA_MEMCPY3D& out) {
    uint64_t element = 0;
    for (const CUmemcpy3DOperand* operand : {&described.src, &described.dst}) {
        if (operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER) continue;
        if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY) return CUDA_ERROR_INVALID_VALUE;
        uint64_t bytes = 0;
        if (CUresult refused = element_of(operand->op.array.array, bytes); refused != CUDA_SUCCESS) return refused;
        if (element != 0 && bytes != element) return CUDA_ERROR_INVALID_VALUE;
        element = bytes;
    }
    if (element == 0) element = 1;
    const CUextent3D& extent = described.extent;
    for (const CUmemcpy3DOperand* operand : {&described.src, &described.dst}) {
        const bool pointer = operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER;
        const size_t elements = pointer ? operand->op.ptr.rowLength : operand->op.array.offset.x;
        if (!(Checked(elements) * element).fits()) return CUDA_ERROR_INVALID_VALUE;
    }
    if (!(Checked(extent.width) * element).fits()) return CUDA_ERROR_INVALID_VALUE;
    out = {};
    out.WidthInBytes = extent.width * element, out.Height = extent.height, out.Depth = extent.depth;
    put_end(out, CopyEnd::Which::source, end_of(described.src, extent, element));
    put_end(out, CopyEnd::Which::destination, end_of(described.dst, extent, element));
    return CUDA_SUCCESS;
}

}  // namespace warpline::cuda::abi
