// From one of CUDA's descriptions of a copy to another.
#pragma once

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

}  // namespace warpline::cuda::abi
