// Matrix products of whole warps: half with float sums, signed bytes with integer sums, doubles.
#include <mma.h>

#include "check.h"

using namespace nvcuda;

__global__ void half_product(const __half* a, const __half* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 1.0f);
    for (int k = 0; k < 32; k += 16) {
        wmma::load_matrix_sync(fa, a + k, 32);
        wmma::load_matrix_sync(fb, b + k, 32);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

__global__ void byte_product(const signed char* a, const signed char* b, int* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
    wmma::fill_fragment(fc, 0);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; ++i) fc.x[i] *= 2;
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_col_major);
}

#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
__global__ void double_product(const double* a, const double* b, double* c) {
#if __CUDA_ARCH__ >= 800
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> fc;
    wmma::fill_fragment(fc, 0.0);
    wmma::load_matrix_sync(fa, a, 4);
    wmma::load_matrix_sync(fb, b, 4);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
#endif
}
#endif

int main() {
    Random random(23);
    auto small = [&] { return static_cast<int>(random.next() % 9) - 4; };
    std::vector<float> fa(16 * 32), fb(16 * 32);
    std::vector<__half> ha(16 * 32), hb(16 * 32);
    for (size_t i = 0; i < fa.size(); ++i) {
        fa[i] = static_cast<float>(small()), fb[i] = static_cast<float>(small());
        ha[i] = __float2half(fa[i]), hb[i] = __float2half(fb[i]);
    }
    DeviceArray<__half> da(ha), db(hb);
    DeviceArray<float> dc(256);
    half_product<<<1, 32>>>(da.data(), db.data(), dc.data());
    CHECK(cudaGetLastError());
    auto c = dc.download();
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) {
            float expected = 1;
            for (int k = 0; k < 32; ++k) expected += fa[i * 32 + k] * fb[j * 32 + k];
            EXPECT_EQ(c[i * 16 + j], expected);
        }
    std::vector<signed char> ba(256), bb(256);
    for (size_t i = 0; i < 256; ++i) ba[i] = static_cast<signed char>(small() * 17), bb[i] = static_cast<signed char>(small() * 13);
    DeviceArray<signed char> dba(ba), dbb(bb);
    DeviceArray<int> dbc(256);
    byte_product<<<1, 32>>>(dba.data(), dbb.data(), dbc.data());
    CHECK(cudaGetLastError());
    auto bc = dbc.download();
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) {
            int expected = 0;
            for (int k = 0; k < 16; ++k) expected += ba[i * 16 + k] * bb[j * 16 + k];
            EXPECT_EQ(bc[j * 16 + i], 2 * expected);
        }
    std::vector<double> xa(32), xb(32);
    for (size_t i = 0; i < 32; ++i) xa[i] = small() * 0.125, xb[i] = small() * 3.0;
    DeviceArray<double> dxa(xa), dxb(xb), dxc(64);
    double_product<<<1, 32>>>(dxa.data(), dxb.data(), dxc.data());
    CHECK(cudaGetLastError());
    auto xc = dxc.download();
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) {
            double expected = 0;
            for (int k = 0; k < 4; ++k) expected += xa[i * 4 + k] * xb[j * 4 + k];
            EXPECT_EQ(xc[i * 8 + j], expected);
        }
    return passed("tensor cores");
}
