// Fills are stream-ordered in all forms; the forms without a stream mean the default one, which the _ptds symbols turn into the
// thread's.
#include "client/call/common.h"
#include "client/gen/memset_calls.gen.h"

namespace warpline::client {

namespace {

CUresult check_fill(const Call& call, CUdeviceptr address, uint64_t bytes, unsigned element_bytes) {
    if (address % element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
    return check_device_range(call, address, bytes);
}

CUresult check_fill_2d(const Call& call, CUdeviceptr address, size_t pitch, size_t width, size_t height,
                       unsigned element_bytes) {
    if (pitch % element_bytes != 0 || (height > 1 && pitch < width * element_bytes)) return CUDA_ERROR_INVALID_VALUE;
    return check_fill(call, address, (height - 1) * pitch + width * element_bytes, element_bytes);
}

}  // namespace

// The formatter would spread the continuation marks over the whole width.
// clang-format off
#define WL_REFUSE_UNLESS(check) if (CUresult refused = (check); refused != CUDA_SUCCESS) return refused
#define WL_FILL(bits, type) \
    CUresult hook_client_cuMemsetD##bits##Async(Call& call, CUdeviceptr dst, type value, size_t n, CUstream s) { \
        WL_REFUSE_UNLESS(check_stream(call, s)); \
        if (n == 0) return CUDA_SUCCESS; \
        if (n > UINT64_MAX / (bits / 8)) return CUDA_ERROR_INVALID_VALUE; \
        WL_REFUSE_UNLESS(check_fill(call, dst, n * (bits / 8), bits / 8)); \
        return gen::issue_cuMemsetD##bits##Async(call, dst, value, n, stream_token(call, s)); \
    } \
    CUresult hook_client_cuMemsetD##bits##_v2(Call& call, CUdeviceptr dst, type value, size_t n) { \
        return hook_client_cuMemsetD##bits##Async(call, dst, value, n, nullptr); \
    } \
    CUresult hook_client_cuMemsetD2D##bits##Async(Call& call, CUdeviceptr dst, size_t pitch, type value, \
                                                  size_t width, size_t height, CUstream s) { \
        WL_REFUSE_UNLESS(check_stream(call, s)); \
        if (width == 0 || height == 0) return CUDA_SUCCESS; \
        WL_REFUSE_UNLESS(check_fill_2d(call, dst, pitch, width, height, bits / 8)); \
        return gen::issue_cuMemsetD2D##bits##Async(call, dst, pitch, value, width, height, stream_token(call, s)); \
    } \
    CUresult hook_client_cuMemsetD2D##bits##_v2(Call& call, CUdeviceptr dst, size_t pitch, type value, \
                                                size_t width, size_t height) { \
        return hook_client_cuMemsetD2D##bits##Async(call, dst, pitch, value, width, height, nullptr); \
    }
// clang-format on

WL_FILL(8, unsigned char)
WL_FILL(16, unsigned short)
WL_FILL(32, unsigned int)

}  // namespace warpline::client
