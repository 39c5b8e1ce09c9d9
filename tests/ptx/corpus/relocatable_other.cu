// The other half of relocatable.cu: what it takes from elsewhere, and names of its own that clash with private ones there.
__device__ int elsewhere = 11;
extern __device__ int here;
extern __device__ float defined_here(float x);
__device__ float defined_elsewhere(float x) { return x * here; }
template <typename T>
__device__ __noinline__ T weak_one(T x) {
    return x * x;
}
static __device__ __noinline__ int private_one(int x) { return x + 77; }
static __device__ float (*table[2])(float) = {defined_elsewhere, defined_here};
extern "C" __global__ void other_caller(float* x) {
    x[threadIdx.x] = weak_one(table[threadIdx.x & 1](x[threadIdx.x])) + private_one(threadIdx.x);
}
