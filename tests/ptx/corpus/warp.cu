// Warp operations, named barriers, clocks and special registers.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void shuffles(int* data, unsigned long long* ballots, double* d) {
    int i = threadIdx.x;
    int v = data[i];
    v += __shfl_sync(0xffffffffu, v, 3) + __shfl_up_sync(0xffffffffu, v, 1) + __shfl_down_sync(0xffffffffu, v, 2, 16);
    v += __shfl_xor_sync(0xffffffffu, v, 4);
    d[i] = __shfl_sync(0xffffffffu, d[i], 5);
    ballots[i] = __ballot_sync(0xffffffffu, v > 3) + __all_sync(0xffffu, v > 4) + __any_sync(0xffffffffu, v) + __activemask();
    unsigned pred;
    ballots[i] += __match_any_sync(0xffffffffu, v);
    int all;
    ballots[i] += __match_all_sync(0xffffffffu, v, &all) + all;
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; vote.sync.uni.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q; }" : "=r"(pred) : "r"(v));
    ballots[i] += pred;
#if __CUDA_ARCH__ >= 800
    v += __reduce_add_sync(0xffffffffu, v) + __reduce_max_sync(0xffffffffu, v) + __reduce_or_sync(0xffffffffu, unsigned(v));
#endif
    __syncwarp();
    data[i] = v + __syncthreads_count(v) + __syncthreads_and(v) + __syncthreads_or(v);
    asm volatile("bar.sync 1, 64;");
    asm volatile("bar.arrive 2, 64;");
    asm volatile("barrier.sync 3;");
}

extern "C" __global__ void specials(unsigned* out, unsigned long long* wide) {
    unsigned v[12];
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(v[0]));
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(v[1]));
    asm volatile("mov.u32 %0, %%smid;" : "=r"(v[2]));
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(v[3]));
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(v[4]));
    asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(v[5]));
    asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(v[6]));
    asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(v[7]));
    asm volatile("mov.u32 %0, %%clock;" : "=r"(v[8]));
    asm volatile("mov.u32 %0, %%envreg3;" : "=r"(v[9]));
    asm volatile("mov.u32 %0, WARP_SZ;" : "=r"(v[10]));
    asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(v[11]));
    unsigned sum = 0;
    for (unsigned x : v) sum += x;
    out[threadIdx.x] = sum + blockIdx.x + blockIdx.y * gridDim.y + blockIdx.z * gridDim.z + threadIdx.z * blockDim.z + gridDim.x + warpSize;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(wide[0]));
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(wide[1]));
    wide[2] = clock64();
#if __CUDA_ARCH__ >= 700
    __nanosleep(100);
#endif
}

extern "C" __global__ void groups(int* data) {
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
    int v = data[grid.thread_rank()];
    v = cg::reduce(tile, v, cg::plus<int>());
    v += cg::inclusive_scan(tile, v);
    cg::coalesced_group active = cg::coalesced_threads();
    if (v & 1) v += active.shfl(v, 0);
    block.sync();
    grid.sync();
    data[grid.thread_rank()] = v;
}
