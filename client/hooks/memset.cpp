// Fills are stream-ordered in all forms; the forms without a stream mean the default one, which the _ptds symbols turn into the thread's.
#include "client/gen/memset_calls.gen.h"
#include "client/hooks/common.h"

namespace warpline::client {

namespace {

CUresult check_fill(const Call& call, CUdeviceptr address, uint64_t bytes, unsigned element_bytes) {
    if (address % element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
    return check_device_range(call, address, bytes);
}

CUresult check_fill_2d(const Call& call, CUdeviceptr address, size_t pitch, size_t width, size_t height, unsigned element_bytes) {
    if (pitch % element_bytes != 0 || (height > 1 && pitch < width * element_bytes)) return CUDA_ERROR_INVALID_VALUE;
    return check_fill(call, address, (height - 1) * pitch + width * element_bytes, element_bytes);
}

}  // namespace

// clang-format off
#define WL_FILL(bits, type)                                                                                                              \
    CUresult hook_client_cuMemsetD##bits##Async(Call& call, CUdeviceptr dstDevice, type value, size_t N, CUstream hStream) {              \
        if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;                                     \
        if (N == 0) return CUDA_SUCCESS;                                                                                                 \
        if (N > UINT64_MAX / (bits / 8)) return CUDA_ERROR_INVALID_VALUE;                                                                \
        if (CUresult refused = check_fill(call, dstDevice, N * (bits / 8), bits / 8); refused != CUDA_SUCCESS) return refused;           \
        return gen::issue_cuMemsetD##bits##Async(call, dstDevice, value, N, stream_token(call, hStream));                                \
    }                                                                                                                                    \
    CUresult hook_client_cuMemsetD##bits##_v2(Call& call, CUdeviceptr dstDevice, type value, size_t N) {                                  \
        return hook_client_cuMemsetD##bits##Async(call, dstDevice, value, N, nullptr);                                                   \
    }                                                                                                                                    \
    CUresult hook_client_cuMemsetD2D##bits##Async(Call& call, CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width,           \
                                                  size_t Height, CUstream hStream) {                                                     \
        if (CUresult refused = check_stream(call, hStream); refused != CUDA_SUCCESS) return refused;                                     \
        if (Width == 0 || Height == 0) return CUDA_SUCCESS;                                                                              \
        if (CUresult refused = check_fill_2d(call, dstDevice, dstPitch, Width, Height, bits / 8); refused != CUDA_SUCCESS) return refused; \
        return gen::issue_cuMemsetD2D##bits##Async(call, dstDevice, dstPitch, value, Width, Height, stream_token(call, hStream));        \
    }                                                                                                                                    \
    CUresult hook_client_cuMemsetD2D##bits##_v2(Call& call, CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width,             \
                                                size_t Height) {                                                                         \
        return hook_client_cuMemsetD2D##bits##Async(call, dstDevice, dstPitch, value, Width, Height, nullptr);                           \
    }
// clang-format on

WL_FILL(8, unsigned char)
WL_FILL(16, unsigned short)
WL_FILL(32, unsigned int)

}  // namespace warpline::client
