// mbarrier (A6).
#include "tests/unit/softgpu_isa/cluster_launch.h"

namespace warpline::softgpu::exec::test {
namespace {

/// One thread goes through the life of a barrier; each answer is a word of the output.
constexpr const char* k_life = R"(
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<3>;
  .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [out];
  mbarrier.init.shared.b64 [bar], 3;
  mbarrier.arrive.shared.b64 %rd2, [bar];
  mbarrier.pending_count.b64 %r1, %rd2;
  st.global.u32 [%rd1], %r1;                       // 0: 3 before the arrival
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd2;
  selp.u32 %r1, 1, 0, %p1;
  st.global.u32 [%rd1+4], %r1;                     // 1: not complete
  mbarrier.arrive.shared.b64 %rd3, [bar], 2;
  mbarrier.pending_count.b64 %r1, %rd3;
  st.global.u32 [%rd1+8], %r1;                     // 2: 2
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd2;
  selp.u32 %r1, 1, 0, %p1;
  st.global.u32 [%rd1+12], %r1;                    // 3: complete
  mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;
  selp.u32 %r1, 1, 0, %p1;
  mbarrier.try_wait.parity.shared.b64 %p2, [bar], 1;
  selp.u32 %r2, 2, 0, %p2;
  or.b32 %r1, %r1, %r2;
  st.global.u32 [%rd1+16], %r1;                    // 4: phase 0 is complete, phase 1 is not
  // Phase 1: bytes, announced after some of them came.
  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;
  mbarrier.arrive.expect_tx.shared.b64 %rd4, [bar], 48;
  mbarrier.arrive_drop.shared.b64 %rd5, [bar];
  mbarrier.arrive.shared.b64 %rd6, [bar];
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd4;
  selp.u32 %r1, 1, 0, %p1;
  st.global.u32 [%rd1+20], %r1;                    // 5: all threads, not all bytes
  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 8;
  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 40;
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd4;
  selp.u32 %r1, 1, 0, %p1;
  st.global.u32 [%rd1+24], %r1;                    // 6: complete
  // Phase 2 expects one less.
  mbarrier.arrive.shared.b64 %rd7, [bar];
  mbarrier.pending_count.b64 %r1, %rd7;
  st.global.u32 [%rd1+28], %r1;                    // 7: 2
  cp.async.mbarrier.arrive.shared.b64 [bar];
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd7;
  selp.u32 %r1, 1, 0, %p1;
  st.global.u32 [%rd1+32], %r1;                    // 8: not complete: that arrival was not counted
  cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
  mbarrier.test_wait.shared.b64 %p1, [bar], %rd7;
  selp.u32 %r1, 1, 0, %p1;
  st.global.u32 [%rd1+36], %r1;                    // 9: complete
  mbarrier.inval.shared.b64 [bar];
  ret;
}
)";

TEST(SoftgpuMbarrier, LifeOfABarrier) {
    Device device;
    auto module = load_checked(device, k_life);
    ASSERT_NE(module, nullptr);
    uint64_t out = device.allocate(40);
    EXPECT_RUNS(device.launch(*module, "k", {}, out));
    EXPECT_EQ(device.download<uint32_t>(out, 10), (std::vector<uint32_t>{3, 0, 2, 1, 1, 0, 1, 2, 0, 1}));
}

/// Producers and consumers hand a buffer to and fro; lanes of one warp are on both sides.
constexpr const char* k_ping_pong = R"(
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<4>; .reg .b32 %r<9>; .reg .pred %p<3>;
  .shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .align 4 .b32 slot;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra ready;
  mbarrier.init.shared.b64 [full], 1;
  mbarrier.init.shared.b64 [empty], 1;
ready:
  bar.sync 0;
  mov.u32 %r2, 0;
  mov.u32 %r5, 0;
  setp.eq.u32 %p1, %r1, 40;
  @%p1 bra consume;
  setp.ne.u32 %p1, %r1, 3;
  @%p1 bra done;
produce:
  and.b32 %r3, %r2, 1;
  xor.b32 %r3, %r3, 1;
full_wait:
  mbarrier.try_wait.parity.shared.b64 %p2, [empty], %r3;
  @!%p2 bra full_wait;
  mul.lo.u32 %r4, %r2, %r2;
  st.shared.u32 [slot], %r4;
  mbarrier.arrive.release.cta.shared.b64 %rd2, [full];
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 100;
  @%p1 bra produce;
  bra.uni done;
consume:
  and.b32 %r3, %r2, 1;
empty_wait:
  mbarrier.test_wait.parity.shared.b64 %p2, [full], %r3;
  @!%p2 bra empty_wait;
  ld.shared.u32 %r4, [slot];
  add.u32 %r5, %r5, %r4;
  mbarrier.arrive.shared.b64 %rd2, [empty];
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 100;
  @%p1 bra consume;
  st.global.u32 [%rd1], %r5;
done:
  ret;
}
)";

TEST(SoftgpuMbarrier, ProducerAndConsumer) {
    Device device;
    auto module = load_checked(device, k_ping_pong);
    ASSERT_NE(module, nullptr);
    uint64_t out = device.allocate(4);
    // Once in two warps, once with both roles in one warp (block of 64, lanes 3 and 40; the text decides by thread).
    EXPECT_RUNS(device.launch(*module, "k", {.block = {64}}, out));
    EXPECT_EQ(device.download<uint32_t>(out, 1)[0], 328350u);
    std::string same_warp = k_ping_pong;
    same_warp.replace(same_warp.find("%r1, 40"), 7, "%r1, 20");
    auto together = load_checked(device, same_warp);
    ASSERT_NE(together, nullptr);
    uint64_t second = device.allocate(4);
    EXPECT_RUNS(device.launch(*together, "k", {.block = {32}}, second));
    EXPECT_EQ(device.download<uint32_t>(second, 1)[0], 328350u);
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
