// What the image tests read: kernels whose parameters are hard to get right, and variables of all kinds. The layouts expected are
// in kernels.h, which the tests include too.
#include <cstdio>

#include "kernels.h"

__device__ int device_int = 3;
__device__ char device_bytes[13];
__constant__ float constant_table[17];
__managed__ double managed_value;
__device__ static short static_shorts[5];
extern __shared__ char dynamic_shared[];

extern "C" {
__global__ void no_params() { device_int = 1; }
__global__ void scalars(char c, double d, short s, int* p, float f, long long l) {
    *p = static_cast<int>(c + d + s + f + l) + device_bytes[*p] + static_shorts[*p];
}
__global__ void odd_struct(Odd13 o, int* p, Odd3 t) { *p = o.bytes[*p] + t.bytes[1]; }
__global__ void aligned_struct(char c, Aligned128 a, int* p) { *p = static_cast<int>(a.values[c] + constant_table[c]); }
__global__ void big_struct(Big20000 b, int* p) { *p = b.bytes[*p]; }
__global__ void empty_struct(Empty, int* p) { *p = 1; }
__global__ void many(Many m, char last) { m.pointers[7][0] = m.tail + last; }
__global__ void __launch_bounds__(256, 2) bounded(float* p) {
    __shared__ float tile[100];
    __shared__ char flag;
    tile[threadIdx.x] = *p;
    flag = static_cast<char>(*p);
    __syncthreads();
    *p = tile[5] + dynamic_shared[3] + flag;
    managed_value = 1;
}
__global__ void prints(int x) { printf("%d\n", x); }
__global__ void uses_local(int* p) {
    int table[100];
    for (int i = 0; i < *p; i++) table[i % 100] = p[i];
    *p = table[p[1] % 100];
}
}

template <typename T>
__global__ void templated(T* out, T value) {
    *out = value;
}
template __global__ void templated<int>(int*, int);
template __global__ void templated<double>(double*, double);
