// cuRAND's host interface: numbers that are made on the device, by several generators.
#include <curand.h>

#include "library.h"

#define RANDOM(call) check(call, CURAND_STATUS_SUCCESS, #call, __LINE__)

int main() {
    constexpr size_t k_count = 1 << 16;
    float* data = filled(k_count, 0.0f);
    auto* words = reinterpret_cast<unsigned*>(data);
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    for (curandRngType_t type : {CURAND_RNG_PSEUDO_XORWOW, CURAND_RNG_PSEUDO_MRG32K3A, CURAND_RNG_PSEUDO_PHILOX4_32_10,
                                 CURAND_RNG_PSEUDO_MT19937, CURAND_RNG_PSEUDO_MTGP32}) {
        curandGenerator_t generator;
        RANDOM(curandCreateGenerator(&generator, type));
        RANDOM(curandSetStream(generator, stream));
        RANDOM(curandSetPseudoRandomGeneratorSeed(generator, 1234));
        for (int i = 0; i < 100; ++i) {
            RANDOM(curandGenerateUniform(generator, data, k_count));
            RANDOM(curandGenerateNormal(generator, data, k_count, 0, 1));
            RANDOM(curandGenerate(generator, words, k_count));
        }
        RANDOM(curandDestroyGenerator(generator));
    }
    curandGenerator_t sobol;
    RANDOM(curandCreateGenerator(&sobol, CURAND_RNG_QUASI_SOBOL32));
    RANDOM(curandSetQuasiRandomGeneratorDimensions(sobol, 4));
    RANDOM(curandGenerateUniform(sobol, data, k_count));
    CUDA(cudaDeviceSynchronize());
    RANDOM(curandDestroyGenerator(sobol));
    CUDA(cudaFree(data));
    return done("curand");
}
