// NPP: arithmetic, a filter, a resize, colours, a mean and sums, of images and of signals, in a stream of the program's.
#include <npp.h>

#include "library.h"

#define NPP(call) check(call, NPP_SUCCESS, #call, __LINE__)

namespace {

/// What NPP is told of a stream, and of the device that it is on.
NppStreamContext context_of(cudaStream_t stream) {
    NppStreamContext context{};
    context.hStream = stream;
    cudaDeviceProp properties;
    CUDA(cudaGetDevice(&context.nCudaDeviceId));
    CUDA(cudaGetDeviceProperties(&properties, context.nCudaDeviceId));
    context.nMultiProcessorCount = properties.multiProcessorCount;
    context.nMaxThreadsPerMultiProcessor = properties.maxThreadsPerMultiProcessor;
    context.nMaxThreadsPerBlock = properties.maxThreadsPerBlock;
    context.nSharedMemPerBlock = properties.sharedMemPerBlock;
    context.nCudaDevAttrComputeCapabilityMajor = properties.major;
    context.nCudaDevAttrComputeCapabilityMinor = properties.minor;
    CUDA(cudaStreamGetFlags(stream, &context.nStreamFlags));
    return context;
}

}  // namespace

int main() {
    constexpr int k_width = 512, k_height = 256;
    const NppiSize whole{k_width, k_height}, half{k_width / 2, k_height / 2};
    const NppiRect whole_area{0, 0, k_width, k_height}, half_area{0, 0, k_width / 2, k_height / 2};
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const NppStreamContext context = context_of(stream);
    auto* colours = filled<Npp8u>(3 * k_width * k_height, 7);
    auto* more = filled<Npp8u>(3 * k_width * k_height, 0);
    auto* grey = filled<Npp8u>(k_width * k_height, 3);
    auto* smooth = filled<Npp8u>(k_width * k_height, 0);
    auto* signal = filled<Npp32f>(1 << 16, 1.0f);
    size_t mean_bytes = 0, sum_bytes = 0;
    NPP(nppiMeanGetBufferHostSize_8u_C1R_Ctx(whole, &mean_bytes, context));
    NPP(nppsSumGetBufferSize_32f_Ctx(1 << 16, &sum_bytes, context));
    auto* scratch = filled<Npp8u>(mean_bytes > sum_bytes ? mean_bytes : sum_bytes, 0);
    auto* mean = filled<Npp64f>(1, 0);
    auto* sum = filled<Npp32f>(1, 0);
    const Npp8u added[3] = {1, 2, 3};
    for (int i = 0; i < 50; ++i) {
        NPP(nppiAddC_8u_C3RSfs_Ctx(colours, 3 * k_width, added, more, 3 * k_width, whole, 0, context));
        NPP(nppiResize_8u_C3R_Ctx(more, 3 * k_width, whole, whole_area, colours, 3 * k_width, half, half_area,
                                  NPPI_INTER_LINEAR, context));
        NPP(nppiRGBToGray_8u_C3C1R_Ctx(more, 3 * k_width, grey, k_width, whole, context));
        NPP(nppiFilterBoxBorder_8u_C1R_Ctx(grey, k_width, whole, {0, 0}, smooth, k_width, whole, {5, 5}, {2, 2},
                                           NPP_BORDER_REPLICATE, context));
        NPP(nppiMean_8u_C1R_Ctx(smooth, k_width, whole, scratch, mean, context));
        NPP(nppsMulC_32f_I_Ctx(1.5f, signal, 1 << 16, context));
        NPP(nppsSum_32f_Ctx(signal, 1 << 16, sum, scratch, context));
    }
    CUDA(cudaStreamSynchronize(stream));
    for (void* memory :
         {static_cast<void*>(colours), static_cast<void*>(more), static_cast<void*>(grey), static_cast<void*>(smooth),
          static_cast<void*>(signal), static_cast<void*>(scratch), static_cast<void*>(mean), static_cast<void*>(sum)})
        CUDA(cudaFree(memory));
    CUDA(cudaStreamDestroy(stream));
    return done("npp");
}
