// Clusters, distributed shared memory, transaction barriers, bulk copies: compute capability 9.0 and later. Older targets get the
// asynchronous barrier of 8.0, or nothing.
#include <cooperative_groups.h>
#include <cuda/barrier>
namespace cg = cooperative_groups;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 1, 1) fixed_cluster(int* data) {
    __shared__ int box[32];
    cg::cluster_group cluster = cg::this_cluster();
    box[threadIdx.x & 31] = data[threadIdx.x];
    cluster.sync();
    int* other = cluster.map_shared_rank(box, cluster.block_rank() ^ 1);
    data[threadIdx.x] = other[threadIdx.x & 31] + cluster.num_blocks();
    cluster.sync();
}

extern "C" __global__ void free_cluster(float* data) {
    cg::cluster_group cluster = cg::this_cluster();
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.acquire.aligned;");
    data[threadIdx.x] = float(rank + cluster.dim_blocks().x);
}

extern "C" __global__ void bulk_copy(const int* in, int* out) {
    __shared__ alignas(128) int tile[1024];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    if (threadIdx.x == 0) {
        init(&barrier, blockDim.x);
        asm volatile("fence.proxy.async.shared::cta;");
    }
    __syncthreads();
    cuda::barrier<cuda::thread_scope_block>::arrival_token token;
    if (threadIdx.x == 0) {
        cuda::memcpy_async(tile, in, cuda::aligned_size_t<16>(sizeof(tile)), barrier);
        token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof(tile));
    } else {
        token = barrier.arrive();
    }
    barrier.wait(std::move(token));
    out[threadIdx.x] = tile[threadIdx.x * 3];
    asm volatile("fence.proxy.async.shared::cta;");
    __syncthreads();
    unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out), "r"(shared), "r"(4096));
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], %2;" ::"l"(out), "r"(shared), "r"(4096));
    asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group.read 0;");
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;");
}

extern "C" __global__ void tensor_map(const __grid_constant__ int4 map[8 + 0], int* out) {
    __shared__ alignas(128) int tile[1024];
    __shared__ alignas(8) unsigned long long bar;
    unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(&bar));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
    asm volatile(
        "{\n\t.reg .b64 state;\n\t.reg .pred done;\n\t"
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];\n\t"
        "mbarrier.arrive.expect_tx.shared::cta.b64 state, [%4], 4096;\n\t"
        "again: mbarrier.try_wait.shared::cta.b64 done, [%4], state;\n\t@!done bra again;\n\t}" ::"r"(shared),
        "l"(map), "r"(0), "r"(4), "r"(barrier));
    asm volatile(
        "{\n\t.reg .pred done;\n\tagain:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 1;\n\t@!done bra again;\n\t}" ::"r"(barrier));
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(0), "r"(0), "r"(shared));
    unsigned remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(barrier), "r"(1));
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(remote), "r"(7), "r"(remote));
    unsigned elected;
    asm volatile("{ .reg .pred p; .reg .b32 r; elect.sync r|p, 0xffffffff; selp.b32 %0, 1, 0, p; }" : "=r"(elected));
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared), "r"(1), "r"(2));
    out[threadIdx.x] = tile[threadIdx.x] + elected;
}
extern "C" __global__ void tensor_copies(const __grid_constant__ int4 map[8 + 0], short tap, short blocks, long long policy) {
    __shared__ alignas(128) int tile[1024];
    __shared__ alignas(8) unsigned long long bar;
    unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    unsigned barrier = static_cast<unsigned>(__cvta_generic_to_shared(&bar));
#define COMPLETES "mbarrier::complete_tx::bytes"
    asm volatile("prefetch.tensormap [%0];" ::"l"(map));
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map));
    asm volatile("cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%0, {%1}];" ::"l"(map), "r"(-1));
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.im2col.L2::cache_hint [%0, {0, %1, 2}], {%2}, %3;" ::"l"(map), "r"(-1),
                 "h"(tap), "l"(policy));
    asm volatile("cp.async.bulk.tensor.1d.shared::cta.global.tile." COMPLETES " [%0], [%1, {3}], [%2];" ::"r"(shared), "l"(map),
                 "r"(barrier));
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile." COMPLETES
                 ".multicast::cluster.L2::cache_hint [%0], [%1, {0, 1, %2}], [%3], %4, %5;" ::"r"(shared),
                 "l"(map), "r"(-2), "r"(barrier), "h"(blocks), "l"(policy));
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col." COMPLETES
                 ".multicast::cluster [%0], [%1, {0, 1, 2, %2}], [%3], {%4, 1}, %5;" ::"r"(shared),
                 "l"(map), "r"(3), "r"(barrier), "h"(tap), "h"(blocks));
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col." COMPLETES
                 " [%0], [%1, {0, 1, 2, 3, %2}], [%3], {%4, 1, 2};" ::"r"(shared),
                 "l"(map), "r"(3), "r"(barrier), "h"(tap));
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%0, {0, 0, %1}], [%2];" ::"l"(map), "r"(1),
                 "r"(shared));
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.tile.bulk_group.L2::cache_hint [%0, {0, %1}], [%2], %3;" ::"l"(
                     map),
                 "r"(1), "r"(shared), "l"(policy));
    asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta.xor.im2col_no_offs.bulk_group [%0, {0, 0, 1, 2, %1}], [%2];" ::"l"(
                     map),
                 "r"(1), "r"(shared));
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4." COMPLETES " [%0], [%1, {0, 9, 3, %2, 5}], [%3];" ::"r"(
                     shared),
                 "l"(map), "r"(7), "r"(barrier));
    asm volatile("cp.async.bulk.tensor.3d.shared::cta.global.im2col::w." COMPLETES " [%0], [%1, {0, 9, %2}], [%3], {%4, 1};" ::"r"(
                     shared),
                 "l"(map), "r"(7), "r"(barrier), "h"(tap));
#endif
#undef COMPLETES
    asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;");
}
#endif

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
extern "C" __global__ void asynchronous_barrier(const int* in, int* out) {
    __shared__ int tile[256];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(tile + threadIdx.x, in + threadIdx.x, sizeof(int), barrier);
    barrier.arrive_and_wait();
    out[threadIdx.x] = tile[255 - threadIdx.x];
}
#endif
