// Shared memory that is written again without a barrier after it was read. Not allowed, and common: it works on GPUs because
// the warps of a block go on side by side after a barrier.
__device__ int block_sum(int value) {
    __shared__ int part[32];
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(~0u, value, offset);
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) part[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = lane < blockDim.x / 32 ? part[lane] : 0;
        for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(~0u, value, offset);
        if (lane == 0) part[0] = value;
    }
    __syncthreads();
    return part[0];
}

// Two sums, one directly after the other.
extern "C" __global__ void two_sums(const int* in, int* out) {
    int first = block_sum(in[threadIdx.x]);
    int second = block_sum(in[threadIdx.x] * first);
    out[threadIdx.x] = second - first;
}

// The first thread tells all others something new, ten times.
extern "C" __global__ void tell_all(int* out) {
    __shared__ volatile int word;
    int sum = 0;
    for (int round = 1; round <= 10; ++round) {
        if (threadIdx.x == 0) word = round * round;
        __syncthreads();
        sum += word;
    }
    out[threadIdx.x] = sum;
}
