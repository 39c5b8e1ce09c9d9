// State spaces, vectors, constants with initialisers, managed variables, cache operators, atomics and fences.
#include <cuda/atomic>

__device__ int counter = 5;
__device__ float weights[4] = {1.0f, -2.5f, 3.25e10f, 0.0f};
__device__ double matrix[2][3] = {{1.0, 2.0, 3.0}, {4.0}};
__device__ const char* message = "hello \"world\"\n";
__device__ int* pointer_to_counter = &counter;
__device__ float* pointer_inside = &weights[2];
__constant__ unsigned char bytes[7] = {1, 2, 3, 255};
__constant__ float4 vectors[3] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
__managed__ int managed_value = 42;
__device__ __managed__ float managed_array[100];
struct alignas(16) Mixed {
    char c;
    short s;
    int* p;
    double d;
    void (*f)(int*);
};
__device__ void callee(int* x) { *x = 1; }
__device__ Mixed mixed = {'x', -3, &counter, 2.5, callee};
__device__ volatile unsigned flag;

extern __shared__ char dynamic_shared[];

extern "C" __global__ void spaces(float4* data, const float2* __restrict__ in, int n) {
    __shared__ float tile[32][33];
    __shared__ double4 wide[8];
    int x = threadIdx.x & 31, y = threadIdx.x >> 5;
    tile[y][x] = in[x].x;
    reinterpret_cast<int*>(dynamic_shared)[threadIdx.x] = n;
    __syncthreads();
    if (x < 8) wide[x].y = tile[x][y];
    __syncthreads();
    float4 v = data[threadIdx.x];
    v.x += tile[x][y] + weights[x & 3] + vectors[x % 3].z + bytes[x % 7];
    v.y += static_cast<float>(wide[x & 7].y + matrix[x & 1][y % 3]);
    v.z += reinterpret_cast<int*>(dynamic_shared)[threadIdx.x ^ 1] + message[x & 3] + *pointer_to_counter + *pointer_inside;
    v.w += managed_value + managed_array[x] + mixed.d;
    data[threadIdx.x] = v;
    mixed.f(&managed_value);
    flag = 3;
}

extern "C" __global__ void cache_operators(const int* in, int* out) {
    int i = threadIdx.x;
    out[i] = __ldg(in + i) + __ldcg(in + i + 1) + __ldcs(in + i + 2) + __ldlu(in + i + 3) + __ldcv(in + i + 4) + __ldca(in + i + 5);
    __stcg(out + i + 64, 1);
    __stcs(out + i + 128, 2);
    __stwt(out + i + 192, 3);
    __stwb(out + i + 256, 4);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(in + 512));
}

extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
    __shared__ int shared_counter;
    if (threadIdx.x == 0) shared_counter = 0;
    __syncthreads();
    atomicAdd(&shared_counter, 1);
    i[0] = atomicAdd(i, 2) + atomicSub(i + 1, 3) + atomicExch(i + 2, 4) + atomicMin(i + 3, 5) + atomicMax(i + 4, 6);
    u[0] = atomicInc(u, 7) + atomicDec(u + 1, 8) + atomicCAS(u + 2, 9u, 10u) + atomicAnd(u + 3, 11) + atomicOr(u + 4, 12) + atomicXor(u + 5, 13);
    l[0] = atomicAdd(l, 14ull) + atomicCAS(l + 1, 15ull, 16ull) + atomicMax(l + 2, 17ull) + atomicExch(l + 3, 18ull);
    atomicAdd(f, 1.0f);
    atomicAdd(d, 2.0);
    atomicAdd_system(i + 9, 1);
    atomicAdd_block(i + 10, 1);
    cuda::atomic_ref<int, cuda::thread_scope_device> ref(i[20]);
    ref.fetch_add(1, cuda::memory_order_acq_rel);
    ref.store(3, cuda::memory_order_release);
    i[21] = ref.load(cuda::memory_order_acquire) + ref.load(cuda::memory_order_relaxed);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> wide(l[5]);
    wide.fetch_or(7, cuda::memory_order_seq_cst);
    unsigned long long expected = 4;
    while (!wide.compare_exchange_weak(expected, 6, cuda::memory_order_acquire)) expected++;
    __threadfence();
    __threadfence_block();
    __threadfence_system();
    i[22] = shared_counter;
}
