// Tiled matrix multiplication in shared memory, sizes that do not divide the tile, checked exactly (integers in floats).
#include "check.h"

constexpr int k_tile = 16;

__global__ void matmul(const float* a, const float* b, float* c, int rows, int inner, int columns) {
    __shared__ float tile_a[k_tile][k_tile], tile_b[k_tile][k_tile + 1];
    int row = blockIdx.y * k_tile + threadIdx.y, column = blockIdx.x * k_tile + threadIdx.x;
    float sum = 0;
    for (int start = 0; start < inner; start += k_tile) {
        int x = start + threadIdx.x, y = start + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < rows && x < inner ? a[row * inner + x] : 0;
        tile_b[threadIdx.y][threadIdx.x] = y < inner && column < columns ? b[y * columns + column] : 0;
        __syncthreads();
        for (int k = 0; k < k_tile; ++k) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        __syncthreads();
    }
    if (row < rows && column < columns) c[row * columns + column] = sum;
}

// The same through dynamic shared memory.
__global__ void row_sums(const float* a, float* sums, int columns) {
    extern __shared__ float partial[];
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += a[blockIdx.x * columns + i];
    partial[threadIdx.x] = sum;
    for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

int main() {
    const int rows = 77, inner = 130, columns = 53;
    std::vector<float> a(rows * inner), b(inner * columns);
    Random random(2);
    for (auto& x : a) x = static_cast<float>(random.next() % 17) - 8;
    for (auto& x : b) x = static_cast<float>(random.next() % 17) - 8;
    DeviceArray<float> da(a), db(b), dc(rows * columns), ds(rows);
    dim3 grid((columns + k_tile - 1) / k_tile, (rows + k_tile - 1) / k_tile), block(k_tile, k_tile);
    matmul<<<grid, block>>>(da.data(), db.data(), dc.data(), rows, inner, columns);
    CHECK(cudaGetLastError());
    row_sums<<<rows, 64, 64 * sizeof(float)>>>(dc.data(), ds.data(), columns);
    CHECK(cudaGetLastError());
    auto c = dc.download();
    auto sums = ds.download();
    for (int i = 0; i < rows; ++i) {
        float row_sum = 0;
        for (int j = 0; j < columns; ++j) {
            float expected = 0;
            for (int k = 0; k < inner; ++k) expected += a[i * inner + k] * b[k * columns + j];
            EXPECT_EQ(c[i * columns + j], expected);
            row_sum += expected;
        }
        EXPECT_EQ(sums[i], row_sum);
    }
    return passed("matrix multiplication");
}
