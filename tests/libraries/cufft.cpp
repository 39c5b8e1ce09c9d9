// cuFFT: plans of one, two and three dimensions, many at once, and a callback-free round trip.
#include <cufft.h>

#include "library.h"

#define FFT(call) check(call, CUFFT_SUCCESS, #call, __LINE__)

int main() {
    constexpr int k_n = 1 << 16;
    auto* data = reinterpret_cast<cufftComplex*>(filled(2 * k_n, 1.0f));
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    cufftHandle line, square, cube, many, real;
    FFT(cufftPlan1d(&line, k_n, CUFFT_C2C, 1));
    FFT(cufftPlan2d(&square, 256, 256, CUFFT_C2C));
    FFT(cufftPlan3d(&cube, 32, 32, 64, CUFFT_C2C));
    int length = 100;
    FFT(cufftPlanMany(&many, 1, &length, nullptr, 1, length, nullptr, 1, length, CUFFT_C2C, 600));
    FFT(cufftPlan1d(&real, k_n, CUFFT_R2C, 1));
    for (cufftHandle plan : {line, square, cube, many, real}) FFT(cufftSetStream(plan, stream));
    for (int i = 0; i < 100; ++i) {
        for (cufftHandle plan : {line, square, cube, many}) {
            FFT(cufftExecC2C(plan, data, data, CUFFT_FORWARD));
            FFT(cufftExecC2C(plan, data, data, CUFFT_INVERSE));
        }
        FFT(cufftExecR2C(real, reinterpret_cast<cufftReal*>(data), data));
    }
    CUDA(cudaStreamSynchronize(stream));
    for (cufftHandle plan : {line, square, cube, many, real}) FFT(cufftDestroy(plan));
    CUDA(cudaFree(data));
    return done("cufft");
}
