// atom and red on halves and vectors (A6).
#include "tests/unit/softgpu_isa/half_reference.h"
#include "tests/unit/softgpu_isa/operation.h"

namespace warpline::softgpu::exec::test {
namespace {

constexpr const char* k_ptx = R"(.version 8.1
.target sm_90
.address_size 64
.visible .entry sums(.param .u64 p) {
  .reg .b64 %rd<3>; .reg .b16 %h<4>; .reg .b32 %r<10>;
  ld.param.u64 %rd1, [p];
  mov.b16 %h1, 0x3c00;
  atom.global.add.noftz.f16 %h2, [%rd1], %h1;
  mov.b32 %r1, 0x40003c00;
  red.global.add.noftz.f16x2 [%rd1+4], %r1;
  mov.b16 %h1, 0x3f80;
  atom.add.noftz.bf16 %h2, [%rd1+8], %h1;
  mov.b32 %r1, 0x40003f80;
  atom.global.add.noftz.bf16x2 %r2, [%rd1+12], %r1;
  red.global.add.f32 [%rd1+16], 0f3F800000;
  ret;
}
.visible .entry vectors(.param .u64 p) {
  .reg .b64 %rd<3>; .reg .f32 %f<9>; .reg .b16 %h<9>; .reg .b32 %r<9>;
  ld.param.u64 %rd1, [p];
  mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; mov.f32 %f3, 0f40400000; mov.f32 %f4, 0f40800000;
  red.global.add.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};
  atom.global.add.v2.f32 {%f5, %f6}, [%rd1+16], {%f1, %f2};
  mov.b16 %h1, 0x3c00; mov.b16 %h2, 0x4000;
  red.global.add.noftz.v2.f16 [%rd1+32], {%h1, %h2};
  mov.b32 %r1, 0x3c003c00; mov.b32 %r2, 0x40003c00; mov.b32 %r3, 0; mov.b32 %r4, 0x3c00;
  red.global.add.noftz.v4.f16x2 [%rd1+48], {%r1, %r2, %r3, %r4};
  red.global.max.noftz.v2.bf16 [%rd1+64], {%h1, %h2};
  ret;
}
)";

TEST(SoftgpuHalf, AtomicSums) {
    std::string messages;
    Device device;
    std::string ptx = k_ptx;
    ASSERT_TRUE(ptxas_accepts(ptx, "sm_90", messages)) << messages;
    auto module = device.load(ptx);
    ASSERT_NE(module, nullptr);
    std::vector<uint32_t> zeros(8, 0);
    uint64_t at = device.upload(zeros);
    EXPECT_RUNS(device.launch(*module, "sums", {.grid = {4}, .block = {64}}, at));
    auto got = device.download<uint32_t>(at, 5);
    EXPECT_EQ(got[0], 0x5c00u);      // 256 in f16
    EXPECT_EQ(got[1], 0x60005c00u);  // 512, 256
    EXPECT_EQ(got[2], 0x4380u);      // 256 in bf16
    EXPECT_EQ(got[3], 0x44004380u);
    EXPECT_EQ(got[4], 0x43800000u);
    std::vector<uint32_t> more(20, 0);
    uint64_t vectors = device.upload(more);
    EXPECT_RUNS(device.launch(*module, "vectors", {.grid = {1}, .block = {32}}, vectors));
    auto f = device.download<float>(vectors, 6);
    EXPECT_EQ(f, (std::vector<float>{32, 64, 96, 128, 32, 64}));
    auto w = device.download<uint32_t>(vectors, 17);
    EXPECT_EQ(w[8], 0x54005000u);
    EXPECT_EQ(w[12], 0x50005000u);
    EXPECT_EQ(w[13], 0x54005000u);
    EXPECT_EQ(w[14], 0u);
    EXPECT_EQ(w[15], 0x5000u);
    EXPECT_EQ(w[16], 0x40003c00u);
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
