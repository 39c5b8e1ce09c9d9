// printf, malloc, assert, faults, constants, globals, special registers.
#include <cassert>
#include <cstdio>
__constant__ int table[8] = {1, 2, 4, 8, 16, 32, 64, 128};
__device__ int counter = 5;
__device__ int* pointer_to_counter = &counter;
__device__ float matrix[4][4];

extern "C" __global__ void globals(int* out) {
    out[threadIdx.x] = table[threadIdx.x % 8] + counter + (pointer_to_counter == &counter);
    if (threadIdx.x == 0) matrix[1][2] = 3.5f;
}
extern "C" __global__ void hello(int n) {
    printf("block %d thread %d: %s %5.2f %c %lld %x %%\n", blockIdx.x, threadIdx.x, n > 1 ? "many" : "one", n * 0.5, 'a' + threadIdx.x,
           1234567890123ll * n, 255 + threadIdx.x);
}
extern "C" __global__ void heap(int* out) {
    int* a = (int*)malloc(sizeof(int) * (threadIdx.x + 1));
    for (int i = 0; i <= threadIdx.x; ++i) a[i] = i;
    int s = 0;
    for (int i = 0; i <= threadIdx.x; ++i) s += a[i];
    free(a);
    out[threadIdx.x] = s;
}
extern "C" __global__ void checked(int limit) { assert(int(threadIdx.x) < limit); }
extern "C" __global__ void write_at(int* p, long index) { p[index + threadIdx.x] = 1; }
extern "C" __global__ void read_unaligned(char* p, int* out) { *out = *(int*)(p + 1); }
extern "C" __global__ void trapping() {
    if (threadIdx.x == 3) asm("trap;");
}
extern "C" __global__ void shared_oob(int* out, int index) {
    __shared__ int box[8];
    box[threadIdx.x % 8] = 1;
    __syncthreads();
    out[0] = ((volatile int*)box)[index];
}
extern "C" __global__ void forever(volatile int* flag) {
    while (*flag == 0) {}
}
extern "C" __global__ void ids(uint3* out) {
    unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned n = blockDim.x * blockDim.y * blockDim.z;
    out[(b * n + t) * 2] = threadIdx;
    out[(b * n + t) * 2 + 1] = blockIdx;
}
extern "C" __global__ void clocks(long long* out) {
    long long a = clock64();
    unsigned long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    __nanosleep(100);
    out[0] = clock64() - a;
    out[1] = t;
}
struct alignas(16) Packet {
    int values[8];
};
extern "C" __global__ void grid_constant(const __grid_constant__ Packet p, int* out) {
    const int* q = p.values;
    out[threadIdx.x] = q[threadIdx.x & 7];
}
__device__ __noinline__ int sum(const int* p, int n) {
    int s = 0;
    for (int i = 0; i < n; ++i) s += p[i];
    return s;
}
extern "C" __global__ void generic_addresses(const int* in, int* out) {
    __shared__ int s[32];
    int l[4];
    s[threadIdx.x] = in[threadIdx.x] * 2;
    for (int i = 0; i < 4; ++i) l[i] = threadIdx.x + i;
    __syncthreads();
    out[threadIdx.x] = sum(in, 4) + sum(s, 32) + sum(l, 4);
}
