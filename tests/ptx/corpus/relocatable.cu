// Linked with relocatable_other.cu by -rdc=true: external symbols, weak functions, private names that clash.
extern __device__ int elsewhere;
extern __device__ float defined_elsewhere(float x);
__device__ int here = 7;
__device__ float defined_here(float x) { return x + here; }
template <typename T>
__device__ __noinline__ T weak_one(T x) {
    return x * x;
}
static __device__ __noinline__ int private_one(int x) { return x ^ 0x55; }
extern "C" __global__ void caller(float* x) {
#ifdef __CUDACC_RDC__
    x[threadIdx.x] = defined_elsewhere(x[threadIdx.x]) + elsewhere;
#endif
    x[threadIdx.x] += defined_here(weak_one(x[threadIdx.x])) + private_one(threadIdx.x);
}
