// cuBLAS and cuBLASLt: products of matrices in several types.
#include <cublasLt.h>
#include <cublas_v2.h>

#include "library.h"

#define BLAS(call) check(call, CUBLAS_STATUS_SUCCESS, #call, __LINE__)

int main() {
    constexpr int k_n = 256;
    float *a = filled(k_n * k_n, 1.0f), *b = filled(k_n * k_n, 2.0f), *c = filled(k_n * k_n, 0.0f);
    const float one = 1, zero = 0;
    cublasHandle_t blas;
    BLAS(cublasCreate(&blas));
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    BLAS(cublasSetStream(blas, stream));
    for (int i = 0; i < 100; ++i) {
        BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, k_n, k_n, k_n, &one, a, k_n, b, k_n, &zero, c, k_n));
        BLAS(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, k_n, k_n, k_n, &one, a, CUDA_R_16F, k_n, b, CUDA_R_16F, k_n, &zero, c,
                          CUDA_R_32F, k_n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        BLAS(cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, 64, 64, 64, &one, a, 64, 64 * 64, b, 64, 64 * 64, &zero,
                                       c, 64, 64 * 64, 16));
        BLAS(cublasSaxpy(blas, k_n, &one, a, 1, c, 1));
        BLAS(cublasSgemv(blas, CUBLAS_OP_N, k_n, k_n, &one, a, k_n, b, 1, &zero, c, 1));
    }
    float* sum = filled(1, 0.0f);
    BLAS(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE));
    BLAS(cublasSdot(blas, k_n, a, 1, b, 1, sum));
    CUDA(cudaStreamSynchronize(stream));

    cublasLtHandle_t lt;
    BLAS(cublasLtCreate(&lt));
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t layout;
    cublasLtMatmulPreference_t preference;
    BLAS(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    BLAS(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, k_n, k_n, k_n));
    BLAS(cublasLtMatmulPreferenceCreate(&preference));
    constexpr size_t k_workspace = 4 << 20;
    size_t workspace_bytes = k_workspace;
    BLAS(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                              sizeof workspace_bytes));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    BLAS(cublasLtMatmulAlgoGetHeuristic(lt, product, layout, layout, layout, layout, preference, 1, &best, &found));
    void* workspace = nullptr;
    CUDA(cudaMalloc(&workspace, k_workspace));
    for (int i = 0; i < 100 && found != 0; ++i) {
        BLAS(cublasLtMatmul(lt, product, &one, a, layout, b, layout, &zero, c, layout, c, layout, &best.algo, workspace,
                            k_workspace, stream));
    }
    CUDA(cudaStreamSynchronize(stream));
    BLAS(cublasLtMatmulPreferenceDestroy(preference));
    BLAS(cublasLtMatrixLayoutDestroy(layout));
    BLAS(cublasLtMatmulDescDestroy(product));
    BLAS(cublasLtDestroy(lt));
    BLAS(cublasDestroy(blas));
    for (void* memory : {static_cast<void*>(a), static_cast<void*>(b), static_cast<void*>(c), workspace})
        CUDA(cudaFree(memory));
    return done("cublas");
}
