// cuSPARSE: a sparse matrix by a vector and by a matrix.
#include <cusparse.h>

#include "library.h"

#define SPARSE(call) check(call, CUSPARSE_STATUS_SUCCESS, #call, __LINE__)

int main() {
    constexpr int k_rows = 1000, k_each = 4, k_columns = 16;
    std::vector<int> starts(k_rows + 1), columns(k_rows * k_each);
    for (int i = 0; i <= k_rows; ++i) starts[i] = i * k_each;
    for (int i = 0; i < k_rows * k_each; ++i) columns[i] = (i / k_each + i % k_each * 7) % k_rows;
    int *d_starts = filled(starts.size(), 0), *d_columns = filled(columns.size(), 0);
    CUDA(cudaMemcpy(d_starts, starts.data(), starts.size() * sizeof(int), cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(d_columns, columns.data(), columns.size() * sizeof(int), cudaMemcpyHostToDevice));
    float *values = filled(columns.size(), 1.0f), *x = filled(k_rows * k_columns, 1.0f), *y = filled(k_rows * k_columns, 0.0f);
    cusparseHandle_t sparse;
    SPARSE(cusparseCreate(&sparse));
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    SPARSE(cusparseSetStream(sparse, stream));
    cusparseSpMatDescr_t matrix;
    cusparseDnVecDescr_t from, to;
    cusparseDnMatDescr_t many_from, many_to;
    SPARSE(cusparseCreateCsr(&matrix, k_rows, k_rows, k_rows * k_each, d_starts, d_columns, values, CUSPARSE_INDEX_32I,
                             CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    SPARSE(cusparseCreateDnVec(&from, k_rows, x, CUDA_R_32F));
    SPARSE(cusparseCreateDnVec(&to, k_rows, y, CUDA_R_32F));
    SPARSE(cusparseCreateDnMat(&many_from, k_rows, k_columns, k_rows, x, CUDA_R_32F, CUSPARSE_ORDER_COL));
    SPARSE(cusparseCreateDnMat(&many_to, k_rows, k_columns, k_rows, y, CUDA_R_32F, CUSPARSE_ORDER_COL));
    const float one = 1, zero = 0;
    size_t vector_bytes = 0, matrix_bytes = 0;
    constexpr auto k_plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
    SPARSE(cusparseSpMV_bufferSize(sparse, k_plain, &one, matrix, from, &zero, to, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT,
                                   &vector_bytes));
    SPARSE(cusparseSpMM_bufferSize(sparse, k_plain, k_plain, &one, matrix, many_from, &zero, many_to, CUDA_R_32F,
                                   CUSPARSE_SPMM_ALG_DEFAULT, &matrix_bytes));
    void *vector_buffer = nullptr, *matrix_buffer = nullptr;
    CUDA(cudaMalloc(&vector_buffer, vector_bytes + 1));
    CUDA(cudaMalloc(&matrix_buffer, matrix_bytes + 1));
    for (int i = 0; i < 100; ++i) {
        SPARSE(
            cusparseSpMV(sparse, k_plain, &one, matrix, from, &zero, to, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, vector_buffer));
        SPARSE(cusparseSpMM(sparse, k_plain, k_plain, &one, matrix, many_from, &zero, many_to, CUDA_R_32F,
                            CUSPARSE_SPMM_ALG_DEFAULT, matrix_buffer));
    }
    CUDA(cudaStreamSynchronize(stream));
    SPARSE(cusparseDestroySpMat(matrix));
    SPARSE(cusparseDestroyDnVec(from));
    SPARSE(cusparseDestroyDnVec(to));
    SPARSE(cusparseDestroyDnMat(many_from));
    SPARSE(cusparseDestroyDnMat(many_to));
    SPARSE(cusparseDestroy(sparse));
    return done("cusparse");
}
