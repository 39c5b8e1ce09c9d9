// cuSOLVER: factors of dense matrices (Cholesky, LU), and what is solved with them.
#include <cusolverDn.h>

#include "library.h"

#define SOLVE(call) check(call, CUSOLVER_STATUS_SUCCESS, #call, __LINE__)

int main() {
    constexpr int k_n = 128;
    float *a = filled(k_n * k_n, 1.0f), *b = filled(k_n, 1.0f);
    int *pivots = filled(k_n, 0), *status = filled(1, 0);
    cusolverDnHandle_t solver;
    SOLVE(cusolverDnCreate(&solver));
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    SOLVE(cusolverDnSetStream(solver, stream));
    int of_cholesky = 0, of_lu = 0;
    SOLVE(cusolverDnSpotrf_bufferSize(solver, CUBLAS_FILL_MODE_LOWER, k_n, a, k_n, &of_cholesky));
    SOLVE(cusolverDnSgetrf_bufferSize(solver, k_n, k_n, a, k_n, &of_lu));
    float* workspace = filled(of_cholesky + of_lu + 1, 0.0f);
    for (int i = 0; i < 20; ++i) {
        SOLVE(cusolverDnSpotrf(solver, CUBLAS_FILL_MODE_LOWER, k_n, a, k_n, workspace, of_cholesky, status));
        SOLVE(cusolverDnSpotrs(solver, CUBLAS_FILL_MODE_LOWER, k_n, 1, a, k_n, b, k_n, status));
        SOLVE(cusolverDnSgetrf(solver, k_n, k_n, a, k_n, workspace, pivots, status));
        SOLVE(cusolverDnSgetrs(solver, CUBLAS_OP_N, k_n, 1, a, k_n, pivots, b, k_n, status));
    }
    CUDA(cudaStreamSynchronize(stream));
    SOLVE(cusolverDnDestroy(solver));
    return done("cusolver");
}
