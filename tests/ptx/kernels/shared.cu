// Shared memory, barriers, atomics, warps.
extern "C" __global__ void reduce(const float* in, float* out, int n) {
    __shared__ float part[256];
    float s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += in[i];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void dynamic_reverse(int* data) {
    extern __shared__ int box[];
    box[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = box[blockDim.x - 1 - threadIdx.x];
}

// Barriers in branches that different warps take at different places.
extern "C" __global__ void divergent_barrier(int* out) {
    __shared__ int box[64];
    int t = threadIdx.x;
    if (t < 32) {
        box[t] = t * 2;
        __syncthreads();
        out[t] = box[t + 32];
    } else {
        box[t] = t * 3;
        __syncthreads();
        out[t] = box[t - 32];
    }
}
// Within a warp, with lanes that left before.
extern "C" __global__ void early_exit(int* out) {
    __shared__ int box[128];
    int t = threadIdx.x;
    if (t % 5 == 4) return;
    box[t] = t;
    __syncthreads();
    int o = 127 - t;
    out[t] = o % 5 == 4 ? -1 : box[o];
}
extern "C" __global__ void barrier_reductions(int* out) {
    int t = threadIdx.x;
    out[t * 3 + 0] = __syncthreads_count(t % 3 == 0);
    out[t * 3 + 1] = __syncthreads_and(t < 1000);
    out[t * 3 + 2] = __syncthreads_or(t == 77);
}
extern "C" __global__ void named_barriers(int* out) {
    __shared__ volatile int box[64];
    int t = threadIdx.x;
    if (t < 64) {  // producers
        box[t] = t + 1000;
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        out[t - 64] = box[t - 64];
    }
}

extern "C" __global__ void transpose(const float* in, float* out, int n) {
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    if (x < n && y < n) out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
    __shared__ float as[16][16], bs[16][16];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float s = 0;
    for (int k = 0; k < n; k += 16) {
        as[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
        __syncthreads();
        for (int i = 0; i < 16; ++i) s += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = s;
}

extern "C" __global__ void histogram(const unsigned char* in, unsigned* bins, int n) {
    __shared__ unsigned local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[in[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&i[0], t);
    atomicSub(&i[1], t);
    atomicMin(&i[2], t - 500);
    atomicMax(&i[3], t - 500);
    atomicAnd(&i[4], ~(1 << (t % 20)));
    atomicOr(&i[5], 1 << (t % 20));
    atomicXor(&i[6], t);
    atomicExch(&i[7], 42);
    atomicInc(&u[0], 16);
    atomicDec(&u[1], 16);
    atomicMin(&u[2], unsigned(t));
    atomicMax(&u[3], unsigned(t));
    atomicAdd(&l[0], (unsigned long long)t << 32);
    atomicMax(&l[1], (unsigned long long)t << 33);
    atomicCAS(&l[2], 7ull, 8ull);
    atomicAdd(&f[0], 0.5f);
    atomicAdd(&d[0], 0.25);
    int old = i[8], seen;
    do {
        seen = old;
        old = atomicCAS(&i[8], seen, seen + 2);
    } while (old != seen);
}

extern "C" __global__ void warp_ops(int* out) {
    int t = threadIdx.x, lane = t & 31;
    int* o = out + t * 20;
    o[0] = __shfl_sync(~0u, t, 5);
    o[1] = __shfl_up_sync(~0u, t, 3);
    o[2] = __shfl_down_sync(~0u, t, 3);
    o[3] = __shfl_xor_sync(~0u, t, 9);
    o[4] = __shfl_sync(~0u, t, 2, 8);
    o[5] = __shfl_up_sync(~0u, t, 3, 8);
    o[6] = __shfl_down_sync(~0u, t, 3, 16);
    o[7] = __shfl_xor_sync(~0u, t, 5, 4);
    o[8] = __ballot_sync(~0u, lane % 3 == 0);
    o[9] = __any_sync(~0u, t == 40);
    o[10] = __all_sync(~0u, t < 40);
    o[11] = __match_any_sync(~0u, lane / 5);
    int pred;
    o[12] = __match_all_sync(~0u, t / 32, &pred);
    o[13] = pred;
    o[14] = __reduce_add_sync(~0u, t);
    o[15] = __reduce_max_sync(~0u, t);
    o[16] = __reduce_xor_sync(~0u, (unsigned)t);
    if (lane < 10) {
        o[17] = __activemask();
        o[18] = __shfl_sync(0x3ff, t, 9 - lane);
    } else {
        o[17] = 0;
        o[18] = __ballot_sync(~0x3ffu, lane & 1);
    }
    __syncwarp();
    long long big = (long long)t << 40;
    o[19] = (int)(__shfl_xor_sync(~0u, big, 1) >> 40);
}
// Lanes arrive at a collective at different times.
extern "C" __global__ void late_lanes(int* out) {
    int lane = threadIdx.x & 31, v = lane;
    for (int i = 0; i < lane; ++i) v = v * 3 + 1;
    if (lane & 1) {
        for (int i = 0; i < 3; ++i) v ^= i << lane;
    }
    out[threadIdx.x] = __shfl_xor_sync(~0u, v, 1);
}

// A spin lock that every lane of every warp takes: needs forward progress of lanes.
extern "C" __global__ void spin_lock(int* lock, int* counter) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            int v = *(volatile int*)counter;
            *(volatile int*)counter = v + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
extern "C" __global__ void spin_lock_inside(int* lock, int* counter) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    *(volatile int*)counter = *(volatile int*)counter + 1;
    __threadfence();
    atomicExch(lock, 0);
}
// Each block waits for the one before it, and for the last one to be there.
extern "C" __global__ void chain(volatile int* flags, int* out) {
    int b = blockIdx.x;
    if (threadIdx.x == 0) {
        if (b > 0) while (flags[b - 1] == 0) {}
        out[b] = b > 0 ? out[b - 1] + b : 0;
        __threadfence();
        flags[b] = 1;
    }
}
extern "C" __global__ void all_resident(int* count, int* out) {
    if (threadIdx.x == 0) {
        atomicAdd(count, 1);
        while (*(volatile int*)count < (int)gridDim.x) {}
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = *(volatile int*)count;
}
