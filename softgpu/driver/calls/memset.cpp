// Fills.
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/graph/enqueue.h"
#include "softgpu/driver/memory/reach.h"
#include "softgpu/driver/operations/copy.h"
#include "softgpu/driver/operations/operation.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// Fills `height` rows of `width` elements of `element_bytes`.
CUresult fill(CUdeviceptr to, size_t pitch, unsigned int value, unsigned int element_bytes, size_t width, size_t height,
              CUstream handle, CopyMode mode = CopyMode::asynchronous) {
    StreamPtr stream;
    CU_TRY(find_stream(handle, stream));
    MemsetOperation operation;
    operation.params = {to, height > 1 ? pitch : width * element_bytes, value, element_bytes, width, height};
    CU_TRY(check_memset(operation.params));
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    const uint64_t span = operation.params.pitch * (height - 1) + width * element_bytes;
    if (!reaches(stream->context().device(), to, span)) return CUDA_ERROR_INVALID_VALUE;
    return enqueue(*stream, operation, mode);
}

}  // namespace

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
    return fill(dstDevice, 0, uc, 1, N, 1, nullptr, CopyMode::synchronous);
}
CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
    return fill(dstDevice, 0, us, 2, N, 1, nullptr, CopyMode::synchronous);
}
CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
    return fill(dstDevice, 0, ui, 4, N, 1, nullptr, CopyMode::synchronous);
}
CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height) {
    return fill(dstDevice, dstPitch, uc, 1, Width, Height, nullptr, CopyMode::synchronous);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height) {
    return fill(dstDevice, dstPitch, us, 2, Width, Height, nullptr, CopyMode::synchronous);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height) {
    return fill(dstDevice, dstPitch, ui, 4, Width, Height, nullptr, CopyMode::synchronous);
}
CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
    return fill(dstDevice, 0, uc, 1, N, 1, hStream);
}
CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
    return fill(dstDevice, 0, us, 2, N, 1, hStream);
}
CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
    return fill(dstDevice, 0, ui, 4, N, 1, hStream);
}
CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height,
                           CUstream hStream) {
    return fill(dstDevice, dstPitch, uc, 1, Width, Height, hStream);
}
CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height,
                            CUstream hStream) {
    return fill(dstDevice, dstPitch, us, 2, Width, Height, hStream);
}
CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height,
                            CUstream hStream) {
    return fill(dstDevice, dstPitch, ui, 4, Width, Height, hStream);
}

}  // namespace warpline::softgpu::driver
