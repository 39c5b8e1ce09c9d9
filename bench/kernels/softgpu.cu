// The five shapes of work that the design of the software GPU was measured with. The build makes PTX of it:
// nvcc -ptx -arch=compute_80. Checked against bench/scalar.cpp.
extern "C" __global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

template <int T>
__device__ void tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float as[T][T], bs[T][T];
    int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * T + tx, y = blockIdx.y * T + ty;
    float s = 0;
    for (int k = 0; k < n; k += T) {
        as[ty][tx] = a[y * n + k + tx];
        bs[ty][tx] = b[(k + ty) * n + x];
        __syncthreads();
        for (int i = 0; i < T; ++i) s += as[ty][i] * bs[i][tx];
        __syncthreads();
    }
    c[y * n + x] = s;
}
extern "C" __global__ void mm16(const float* a, const float* b, float* c, int n) { tiled<16>(a, b, c, n); }
extern "C" __global__ void mm32(const float* a, const float* b, float* c, int n) { tiled<32>(a, b, c, n); }

// 64 x 64 elements of c for each block of 64 threads, 8 x 8 for each thread.
extern "C" __global__ void mmr(const float* a, const float* b, float* c, int n) {
    __shared__ float as[8][64], bs[8][64];
    int t = threadIdx.x, tx = t % 8, ty = t / 8, x0 = blockIdx.x * 64, y0 = blockIdx.y * 64;
    float s[8][8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) s[i][j] = 0;
    for (int k = 0; k < n; k += 8) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            as[i][t] = a[(y0 + t) * n + k + i];
            bs[i][t] = b[(k + i) * n + x0 + t];
        }
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 8; ++q) {
            float ra[8], rb[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                ra[i] = as[q][ty * 8 + i];
                rb[i] = bs[q][tx + 8 * i];
            }
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) s[i][j] += ra[i] * rb[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) c[(y0 + ty * 8 + i) * n + x0 + tx + 8 * j] = s[i][j];
}

extern "C" __global__ void collatz(unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned v = i + 1, c = 0;
    while (v != 1u) {
        v = (v & 1) ? 3 * v + 1 : v >> 1;
        ++c;
    }
    out[i] = c;
}
