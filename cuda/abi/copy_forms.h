// From one of CUDA's descriptions of a copy to another.
#pragma once

#include <cstdint>

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// A copy between two contexts as one within the current context.
inline CUDA_MEMCPY3D without_contexts(const CUDA_MEMCPY3D_PEER& c) {
    CUDA_MEMCPY3D plain{};
    plain.srcXInBytes = c.srcXInBytes, plain.srcY = c.srcY, plain.srcZ = c.srcZ, plain.srcLOD = c.srcLOD;
    plain.srcMemoryType = c.srcMemoryType, plain.srcHost = c.srcHost, plain.srcDevice = c.srcDevice;
    plain.srcArray = c.srcArray, plain.srcPitch = c.srcPitch, plain.srcHeight = c.srcHeight;
    plain.dstXInBytes = c.dstXInBytes, plain.dstY = c.dstY, plain.dstZ = c.dstZ, plain.dstLOD = c.dstLOD;
    plain.dstMemoryType = c.dstMemoryType, plain.dstHost = c.dstHost, plain.dstDevice = c.dstDevice;
    plain.dstArray = c.dstArray, plain.dstPitch = c.dstPitch, plain.dstHeight = c.dstHeight;
    plain.WidthInBytes = c.WidthInBytes, plain.Height = c.Height, plain.Depth = c.Depth;
    return plain;
}

/// A copy of a batch. @param element_bytes  of the array that takes part, or 1: no number of them may overflow
inline CUDA_MEMCPY3D as_3d(const CUDA_MEMCPY3D_BATCH_OP& described, uint64_t element_bytes) {
    const CUextent3D& extent = described.extent;
    const CUmemcpy3DOperand &from = described.src, &to = described.dst;
    CUDA_MEMCPY3D out{};
    out.WidthInBytes = extent.width * element_bytes, out.Height = extent.height, out.Depth = extent.depth;
    if (from.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        out.srcMemoryType = CU_MEMORYTYPE_ARRAY, out.srcArray = from.op.array.array;
        out.srcXInBytes = from.op.array.offset.x * element_bytes;
        out.srcY = from.op.array.offset.y, out.srcZ = from.op.array.offset.z;
    } else {
        out.srcMemoryType = CU_MEMORYTYPE_UNIFIED, out.srcDevice = from.op.ptr.ptr;
        out.srcPitch = (from.op.ptr.rowLength != 0 ? from.op.ptr.rowLength : extent.width) * element_bytes;
        out.srcHeight = from.op.ptr.layerHeight != 0 ? from.op.ptr.layerHeight : extent.height;
    }
    if (to.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        out.dstMemoryType = CU_MEMORYTYPE_ARRAY, out.dstArray = to.op.array.array;
        out.dstXInBytes = to.op.array.offset.x * element_bytes;
        out.dstY = to.op.array.offset.y, out.dstZ = to.op.array.offset.z;
    } else {
        out.dstMemoryType = CU_MEMORYTYPE_UNIFIED, out.dstDevice = to.op.ptr.ptr;
        out.dstPitch = (to.op.ptr.rowLength != 0 ? to.op.ptr.rowLength : extent.width) * element_bytes;
        out.dstHeight = to.op.ptr.layerHeight != 0 ? to.op.ptr.layerHeight : extent.height;
    }
    return out;
}

}  // namespace warpline::cuda::abi
