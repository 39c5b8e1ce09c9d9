// Loads and stores of all numbers of lanes (A6): a few lanes go another way than a whole warp.
#include <cstdint>
#include <vector>

#include "tests/unit/softgpu_exec/harness.h"

namespace warpline::softgpu::exec::test {
namespace {

// Lanes in `m` go to the cell after next by its link, add what they find there to their sum in shared and local memory, and
// write it, alone and in a pair, to a cell of their own.
constexpr const char* k_few_lanes_ptx = R"(.version 8.1
.target sm_80
.address_size 64
.visible .entry walk(.param .u64 cells, .param .u64 out, .param .u32 m) {
  .reg .b64 %rd<9>; .reg .b32 %r<20>; .reg .b16 %h<4>; .reg .pred %p<2>;
  .shared .align 4 .b8 sums[128];
  .local .align 16 .b8 mine[16];
  ld.param.u64 %rd1, [cells]; ld.param.u64 %rd2, [out]; ld.param.u32 %r1, [m];
  mov.u32 %r2, %tid.x; mul.wide.u32 %rd3, %r2, 16; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
  shl.b32 %r3, %r2, 2; mov.u32 %r4, sums; add.u32 %r4, %r4, %r3;
  mov.u64 %rd4, mine;
  shr.u32 %r5, %r1, %r2; and.b32 %r5, %r5, 1; setp.eq.u32 %p1, %r5, 0;
  mov.u32 %r6, 7; mov.u32 %r7, 7; mov.u32 %r8, 7; mov.u32 %r9, 7;
  @%p1 bra done;
  ld.global.u64 %rd1, [%rd1];
  ld.global.u64 %rd1, [%rd1];
  ld.global.v2.u32 {%r6, %r7}, [%rd1+8];
  st.shared.u32 [%r4], %r6;
  ld.shared.u32 %r8, [%r4];
  st.local.v2.u32 [%rd4+8], {%r7, %r8};
  ld.local.u16 %h1, [%rd4+8];
  ld.local.u32 %r9, [%rd4+12];
  cvt.u32.u16 %r10, %h1; add.u32 %r9, %r9, %r10;
  st.global.v2.u32 [%rd2], {%r6, %r7};
  st.global.u32 [%rd2+8], %r8;
  st.global.u16 [%rd2+12], %h1;
  st.global.u32 [%rd2+12], %r9;
done:
  ret;
}
.visible .entry touch(.param .u64 at, .param .u32 m) {
  .reg .b64 %rd<3>; .reg .b32 %r<6>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [at]; ld.param.u32 %r1, [m];
  mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd1, %rd1, %rd2;
  shr.u32 %r3, %r1, %r2; and.b32 %r3, %r3, 1; setp.eq.u32 %p1, %r3, 0;
  @!%p1 st.global.u32 [%rd1], %r2;
  ret;
}
)";

struct FewLanesCell {
    uint64_t next;
    uint32_t first, second;
};

TEST(SoftgpuFewLanes, GoTheWayOfAllLanes) {
    Device device;
    auto module = device.load(k_few_lanes_ptx);
    /// Cells whose links lead to those at `next`.
    auto cells_before = [](uint64_t next) {
        std::vector<FewLanesCell> cells;
        for (uint32_t l = 0; l < 32; ++l)
            cells.push_back({next + (l * 5 + 3) % 32 * sizeof(FewLanesCell), 1000 + l, 0x10000 * l + 77 * l});
        return cells;
    };
    const std::vector<FewLanesCell> cells = cells_before(0);
    const uint64_t start = device.upload(cells_before(device.upload(cells_before(device.upload(cells)))));
    for (uint32_t mask : {1u, 0x80000000u, 0x00010100u, 0x000000ffu, 0x010204f8u, 0x000001ffu, 0x7fffffffu, 0xffffffffu}) {
        const uint64_t out = device.upload(std::vector<uint32_t>(32 * 4, 9));
        EXPECT_RUNS(device.launch(*module, "walk", {.block = {32}}, start, out, mask));
        auto words = device.download<uint32_t>(out, 32 * 4);
        for (uint32_t l = 0; l < 32; ++l) {
            const FewLanesCell& cell = cells[((l * 5 + 3) % 32 * 5 + 3) % 32];
            const bool on = (mask >> l & 1) != 0;
            const uint32_t sum = cell.first + (cell.second & 0xffff);
            const uint32_t expected[] = {cell.first, cell.second, cell.first, sum};
            for (uint32_t n = 0; n < 4; ++n)
                ASSERT_EQ(words[l * 4 + n], on ? expected[n] : 9) << std::hex << mask << " " << l << n;
        }
    }
}

TEST(SoftgpuFewLanes, FaultsAreThoseOfAllLanes) {
    for (uint32_t mask : {0x00000002u, 0x00f00000u, 0xffffffffu}) {
        Device device;
        auto module = device.load(k_few_lanes_ptx);
        const uint64_t at = device.allocate(256);
        EXPECT_RUNS(device.launch(*module, "touch", {.block = {32}}, at + 128, mask));
        EXPECT_EQ(device.launch(*module, "touch", {.block = {32}}, at + 2, mask).cu_result, 716) << mask;
    }
    for (uint32_t mask : {0x80000000u, 0xf0000001u, 0xffffffffu}) {
        Device device;
        auto module = device.load(k_few_lanes_ptx);
        const uint64_t at = device.allocate(256);
        EXPECT_EQ(device.launch(*module, "touch", {.block = {32}}, at + 256 - 124, mask).cu_result, 700) << mask;
        auto words = device.download<uint32_t>(at, 64);
        EXPECT_NE(words[63], 31u) << "the lane at fault has not written";
    }
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
