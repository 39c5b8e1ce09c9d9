// cp.async, cp.async.bulk, cp.reduce.async.bulk (A6).
#include "tests/unit/softgpu_isa/cluster_launch.h"

namespace warpline::softgpu::exec::test {
namespace {

constexpr const char* k_small = R"(
.visible .entry k(.param .u64 in, .param .u64 out) {
  .reg .b64 %rd<5>; .reg .b32 %r<12>; .reg .pred %p<3>;
  .shared .align 16 .b8 tile[1024];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 4;
  cvt.u64.u32 %rd3, %r2;
  add.s64 %rd1, %rd1, %rd3;
  mov.u32 %r3, tile;
  add.u32 %r3, %r3, %r2;
  mov.b32 %r4, -1;
  st.shared.v4.b32 [%r3], {%r4, %r4, %r4, %r4};
  rem.u32 %r5, %r1, 6;
  setp.ne.u32 %p1, %r5, 0;
  @%p1 bra not0;
  cp.async.cg.shared.global [%r3], [%rd1], 16;
  bra.uni wait;
not0:
  setp.ne.u32 %p1, %r5, 1;
  @%p1 bra not1;
  cp.async.ca.shared.global [%r3], [%rd1], 4;
  cp.async.ca.shared.global.L2::128B [%r3+8], [%rd1+8], 8;
  bra.uni wait;
not1:
  setp.ne.u32 %p1, %r5, 2;
  @%p1 bra not2;
  // Reads as many bytes as the lane's number says.
  min.u32 %r6, %r1, 16;
  cp.async.cg.shared.global [%r3], [%rd1], 16, %r6;
  bra.uni wait;
not2:
  setp.ne.u32 %p1, %r5, 3;
  @%p1 bra not3;
  setp.gt.u32 %p2, %r1, 10;
  cp.async.ca.shared.global [%r3], [%rd1], 16, %p2;
  bra.uni wait;
not3:
  // A source that is not read may be anywhere.
  mov.u64 %rd4, 16;
  cp.async.ca.shared.global [%r3], [%rd4], 8, 0;
  cp.async.ca.shared::cta.global [%r3+8], [%rd1], 8, 3;
wait:
  cp.async.commit_group;
  cp.async.wait_group 0;
  cp.async.wait_all;
  ld.shared.v4.b32 {%r7, %r8, %r9, %r10}, [%r3];
  add.s64 %rd2, %rd2, %rd3;
  st.global.v4.b32 [%rd2], {%r7, %r8, %r9, %r10};
  ret;
}
)";

TEST(SoftgpuAsync, CopiesOf4And8And16Bytes) {
    Device device;
    auto module = load_checked(device, k_small, "sm_80", "8.0");
    ASSERT_NE(module, nullptr);
    std::vector<uint8_t> in(512);
    for (size_t i = 0; i < in.size(); ++i) in[i] = uint8_t(i * 7 + 1);
    uint64_t di = device.upload(in), dout = device.allocate(512);
    EXPECT_RUNS(device.launch(*module, "k", {.block = {32}}, di, dout));
    auto out = device.download<uint8_t>(dout, 512);
    for (size_t lane = 0; lane < 32; ++lane) {
        for (size_t byte = 0; byte < 16; ++byte) {
            uint8_t from = in[lane * 16 + byte], expected = from;
            switch (lane % 6) {
                case 1: expected = byte >= 4 && byte < 8 ? 0xff : from; break;
                case 2: expected = byte < lane ? from : 0; break;
                case 3: expected = lane > 10 ? 0 : from; break;
                case 4:
                case 5: expected = byte < 8 || byte >= 11 ? 0 : in[lane * 16 + byte - 8]; break;
                default: break;
            }
            ASSERT_EQ(out[lane * 16 + byte], expected) << lane << " " << byte;
        }
    }
}

TEST(SoftgpuAsync, CopiesOutsideOfMemoryFault) {
    Device device;
    auto module = load_checked(device, k_small, "sm_80", "8.0");
    ASSERT_NE(module, nullptr);
    uint64_t small = device.allocate(256), out = device.allocate(512);
    EXPECT_EQ(device.launch(*module, "k", {.block = {32}}, small, out).cu_result, 700);
    EXPECT_EQ(device.launch(*module, "k", {.block = {4}}, small + 1, out).cu_result, 716);
}

constexpr const char* k_bulk = R"(
.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 sum) {
  .reg .b64 %rd<6>; .reg .b32 %r<12>; .reg .pred %p<3>;
  .shared .align 128 .b8 tile[4096]; .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [sum];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, bar; mov.u32 %r3, tile;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra all;
  mbarrier.init.shared.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster;
  // Two copies, one before and one after the bytes are announced.
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 3072, [%r2];
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 4096;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+3072], [%rd1+3072], 1024, [%r2];
all:
  bar.sync 0;
again:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
  @!%p2 bra again;
  // Every thread adds its number to its word of the tile.
  shl.b32 %r4, %r1, 2;
  add.u32 %r4, %r4, %r3;
  ld.shared.u32 %r5, [%r4];
  add.u32 %r5, %r5, %r1;
  st.shared.u32 [%r4], %r5;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%p1 bra done;
  cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r3], 4096;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd3], [%r3], 4096;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32 [%rd3+4096], [%r3], 4096;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%rd3+8192], [%r3], 16;
  cp.async.bulk.prefetch.L2.global [%rd1], 4096;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
  cp.async.bulk.wait_group 0;
done:
  ret;
}
)";

TEST(SoftgpuAsync, BulkCopiesAndReductions) {
    Device device;
    auto module = load_checked(device, k_bulk);
    ASSERT_NE(module, nullptr);
    std::vector<uint32_t> in(1024), sums(2052, 5);
    for (size_t i = 0; i < in.size(); ++i) in[i] = uint32_t(i * i);
    sums[2048] = 0x3c003c00u;
    in[0] = 0x40004200u;
    sums[1024 + 7] = 1000000;
    uint64_t di = device.upload(in), dout = device.allocate(4096), ds = device.upload(sums);
    EXPECT_RUNS(device.launch(*module, "k", {.block = {1024}}, di, dout, ds));
    auto out = device.download<uint32_t>(dout, 1024), sum = device.download<uint32_t>(ds, 2052);
    for (size_t i = 0; i < in.size(); ++i) {
        uint32_t value = in[i] + uint32_t(i);
        ASSERT_EQ(out[i], value) << i;
        ASSERT_EQ(sum[i], value + 5) << i;
        ASSERT_EQ(sum[1024 + i], i == 7 ? 1000000u : std::max<uint32_t>(value, 5)) << i;
    }
    EXPECT_EQ(sum[2048], 0x42004400u);  // 1 + 2, 1 + 3
}

TEST(SoftgpuAsync, BulkCopiesCheckTheirRanges) {
    Device device;
    auto module = load_checked(device, k_bulk);
    ASSERT_NE(module, nullptr);
    uint64_t small = device.allocate(4096 - 16), out = device.allocate(4096), sums = device.allocate(8208);
    EXPECT_EQ(device.launch(*module, "k", {.block = {1024}}, small, out, sums).cu_result, 700);
    uint64_t large = device.allocate(8192);
    EXPECT_EQ(device.launch(*module, "k", {.block = {1024}}, large + 4, out, sums).cu_result, 716);
}

/// What only targets with a suffix have, and multimem, are refused by name.
TEST(SoftgpuAsync, RefusesByName) {
    const std::vector<std::string> instructions{
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd0, {%r1, %r1, %r1, %r1, %r1}], [%r0];",
        "multimem.ld_reduce.relaxed.sys.global.add.u32 %r0, [%rd0];",
        "tensormap.replace.tile.rank.global.b1024.b32 [%rd0], 3;",
    };
    for (const auto& instruction : instructions) {
        Device device;
        auto module = device.load(
            ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k() {\n .reg .b32 %r<4>; .reg .b64 %rd<1>;\n " +
            instruction + "\n ret;\n}\n");
        ASSERT_NE(module, nullptr) << instruction;
        ModuleError error = module->function("k")->ensure_ready();
        EXPECT_EQ(error.cu_result, 801) << instruction << error.log;
        EXPECT_NE(error.log.find(instruction.substr(0, instruction.find(' '))), std::string::npos) << error.log;
    }
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
