// Clusters: mapa, shared::cluster accesses, barrier.cluster, st.async, red.async, multicast (A6).
#include "tests/unit/softgpu_isa/cluster_launch.h"

namespace warpline::softgpu::exec::test {
namespace {

constexpr const char* k_exchange = R"(
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<9>; .reg .b32 %r<16>; .reg .pred %p<3>;
  .shared .align 16 .b8 tile[256];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %cluster_nctarank; mov.u32 %r4, %ctaid.x;
  // tile[tid] = ctaid * 100 + tid
  mad.lo.u32 %r5, %r4, 100, %r1;
  shl.b32 %r6, %r1, 2;
  mov.u32 %r7, tile;
  add.u32 %r7, %r7, %r6;
  st.shared.u32 [%r7], %r5;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  // What the next block of the cluster has there, three ways.
  add.u32 %r8, %r2, 1;
  rem.u32 %r8, %r8, %r3;
  mapa.shared::cluster.u32 %r9, %r7, %r8;
  ld.shared::cluster.u32 %r10, [%r9];
  cvt.u64.u32 %rd2, %r7;
  cvta.shared.u64 %rd2, %rd2;
  mapa.u64 %rd3, %rd2, %r8;
  ld.u32 %r11, [%rd3];
  getctarank.shared::cluster.u32 %r12, %r9;
  getctarank.u64 %r13, %rd3;
  // Block 0 of the cluster gets a sum from all.
  mapa.shared::cluster.u32 %r14, %r7, 0;
  barrier.cluster.arrive.relaxed;
  barrier.cluster.wait;
  atom.shared::cluster.add.u32 %r15, [%r14], 1;
  barrier.cluster.arrive;
  barrier.cluster.wait.acquire;
  ld.shared.u32 %r15, [%r7];
  mov.u32 %r5, %ntid.x;
  mad.lo.u32 %r5, %r4, %r5, %r1;
  mul.wide.u32 %rd4, %r5, 20;
  add.s64 %rd1, %rd1, %rd4;
  st.global.u32 [%rd1], %r10;
  st.global.u32 [%rd1+4], %r11;
  st.global.u32 [%rd1+8], %r12;
  st.global.u32 [%rd1+12], %r13;
  st.global.u32 [%rd1+16], %r15;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
}
)";

TEST(SoftgpuCluster, BlocksSeeEachOthersSharedMemory) {
    Device device;
    auto module = load_checked(device, k_exchange);
    ASSERT_NE(module, nullptr);
    for (uint32_t cluster : {1u, 2u, 4u, 8u}) {
        uint64_t out = device.allocate(8 * 48 * 20);
        EXPECT_RUNS(launch_clusters(device, *module, "k", 8, 48, cluster, {out}));
        auto words = device.download<uint32_t>(out, 8 * 48 * 5);
        for (uint32_t block = 0; block < 8; ++block) {
            uint32_t rank = block % cluster, next = block - rank + (rank + 1) % cluster;
            for (uint32_t thread = 0; thread < 48; ++thread) {
                const uint32_t* got = &words[size_t(block * 48 + thread) * 5];
                ASSERT_EQ(got[0], next * 100 + thread) << cluster << " " << block << " " << thread;
                ASSERT_EQ(got[1], next * 100 + thread);
                ASSERT_EQ(got[2], (rank + 1) % cluster);
                ASSERT_EQ(got[3], (rank + 1) % cluster);
                ASSERT_EQ(got[4], block * 100 + thread + (rank == 0 ? cluster : 0));
            }
        }
    }
}

/// Threads that leave do not keep the others at the barrier.
constexpr const char* k_leavers = R"(
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<3>; .reg .b32 %r<6>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank;
  and.b32 %r3, %r1, 1;
  setp.eq.u32 %p1, %r3, %r2;
  @%p1 exit;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  red.global.add.u32 [%rd1], 1;
  ret;
}
)";

TEST(SoftgpuCluster, ThreadsThatLeaveAreNotWaitedFor) {
    Device device;
    auto module = load_checked(device, k_leavers);
    ASSERT_NE(module, nullptr);
    uint64_t out = device.upload(std::vector<uint32_t>{0});
    EXPECT_RUNS(launch_clusters(device, *module, "k", 6, 80, 2, {out}));
    EXPECT_EQ(device.download<uint32_t>(out, 1)[0], 3u * 80u);
}

constexpr const char* k_remote = R"(
.visible .entry k(.param .u64 out, .param .u64 in) {
  .reg .b64 %rd<9>; .reg .b32 %r<16>; .reg .pred %p<3>; .reg .b16 %h<2>;
  .shared .align 16 .b8 tile[64]; .shared .align 8 .b64 bar; .shared .align 8 .b64 count; .shared .align 16 .b8 cast[32]; .shared .align 8 .b64 cast_bar;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd6, [in];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank;
  mov.u32 %r3, tile; mov.u32 %r4, bar; mov.u32 %r10, count; mov.u32 %r11, cast; mov.u32 %r12, cast_bar;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra ready;
  mbarrier.init.shared.b64 [%r4], 1;
  mbarrier.init.shared.b64 [%r10], 2;
  mbarrier.init.shared.b64 [%r12], 1;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 28;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r12], 32;
  st.shared.u32 [%r3+24], 50;
  fence.mbarrier_init.release.cluster;
ready:
  barrier.cluster.arrive.release;
  barrier.cluster.wait.acquire;
  @%p1 bra waiting;
  // To the other block: 24 bytes stored, 4 added; then an arrival at its counter.
  xor.b32 %r5, %r2, 1;
  mapa.shared::cluster.u32 %r6, %r3, %r5;
  mapa.shared::cluster.u32 %r7, %r4, %r5;
  mapa.shared::cluster.u32 %r13, %r10, %r5;
  add.u32 %r8, %r2, 70;
  add.u32 %r9, %r2, 80;
  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r6], {%r8, %r9, %r8, %r9}, [%r7];
  mov.u64 %rd2, 0x123456789abcdef0;
  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%r6+16], %rd2, [%r7];
  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r6+24], %r9, [%r7];
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r13];
  mbarrier.arrive.shared.b64 _, [%r10];
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra waiting;
  mov.u16 %h1, 3;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r11], [%rd6], 32, [%r12], %h1;
waiting:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0;
  @!%p2 bra waiting;
counting:
  mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [%r10], 0;
  @!%p2 bra counting;
casting:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r12], 0, 1000;
  @!%p2 bra casting;
  setp.ge.u32 %p1, %r1, 8;
  @%p1 bra done;
  shl.b32 %r5, %r1, 2;
  add.u32 %r3, %r3, %r5;
  add.u32 %r11, %r11, %r5;
  ld.shared.u32 %r6, [%r3];
  ld.shared.u32 %r7, [%r11];
  shl.b32 %r8, %r2, 6;
  add.u32 %r8, %r8, %r5;
  cvt.u64.u32 %rd3, %r8;
  add.s64 %rd1, %rd1, %rd3;
  st.global.u32 [%rd1], %r6;
  st.global.u32 [%rd1+32], %r7;
done:
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
}
)";

TEST(SoftgpuCluster, StoresAndArrivalsInOtherBlocks) {
    Device device;
    auto module = load_checked(device, k_remote);
    ASSERT_NE(module, nullptr);
    std::vector<uint32_t> in{1, 2, 3, 4, 5, 6, 7, 8};
    uint64_t out = device.allocate(128), di = device.upload(in);
    EXPECT_RUNS(launch_clusters(device, *module, "k", 2, 40, 2, {out, di}));
    auto words = device.download<uint32_t>(out, 32);
    for (uint32_t block = 0; block < 2; ++block) {
        const uint32_t* got = &words[size_t{block} * 16];
        uint32_t other = block ^ 1;
        EXPECT_EQ(got[0], 70 + other);
        EXPECT_EQ(got[1], 80 + other);
        EXPECT_EQ(got[2], 70 + other);
        EXPECT_EQ(got[3], 80 + other);
        EXPECT_EQ(got[4], 0x9abcdef0u);
        EXPECT_EQ(got[5], 0x12345678u);
        EXPECT_EQ(got[6], 50 + 80 + other);
        for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(got[8 + i], i + 1) << block;
    }
}

TEST(SoftgpuCluster, AddressesBeyondTheClusterFault) {
    Device device;
    auto module = load_checked(device, R"(
.visible .entry rank(.param .u64 out) {
  .reg .b32 %r<3>;
  .shared .align 16 .b8 tile[64];
  mov.u32 %r1, tile;
  mapa.shared::cluster.u32 %r2, %r1, 2;
  ret;
}
.visible .entry place(.param .u64 out) {
  .reg .b64 %rd<3>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [out];
  mapa.u64 %rd2, %rd1, 0;
  ret;
}
)");
    ASSERT_NE(module, nullptr);
    uint64_t out = device.allocate(16);
    EXPECT_EQ(launch_clusters(device, *module, "rank", 2, 1, 2, {out}).cu_result, 715);
    EXPECT_EQ(launch_clusters(device, *module, "place", 2, 1, 2, {out}).cu_result, 717);
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
