// mov of vectors, for all lanes and for some (A6).
#include <cstdint>
#include <vector>

#include "tests/unit/softgpu_isa/operation.h"

namespace warpline::softgpu::exec::test {
namespace {

// A lane in `m` takes its value apart and puts the parts together again in another order; others keep what they had.
constexpr const char* k_ptx = R"(.version 8.1
.target sm_80
.address_size 64
.visible .entry turn(.param .u64 data, .param .u32 m) {
  .reg .b64 %rd<9>; .reg .b32 %r<20>; .reg .b16 %h<9>; .reg .pred %p<2>; .reg .f64 %fd<3>; .reg .b32 %lo, %hi; .reg .b8 %b<5>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [m];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, 32;
  add.u64 %rd1, %rd1, %rd2;
  shr.u32 %r3, %r1, %r2;
  and.b32 %r3, %r3, 1;
  setp.ne.u32 %p1, %r3, 0;
  ld.global.f64 %fd1, [%rd1];
  ld.global.u64 %rd3, [%rd1+8];
  ld.global.u32 %r4, [%rd1+16];
  ld.global.u32 %r10, [%rd1+20];
  mov.u32 %lo, 7; mov.u32 %hi, 9;
  mov.b16 %h1, 1; mov.b16 %h2, 2; mov.b16 %h3, 3; mov.b16 %h4, 4; mov.b16 %h5, 5; mov.b16 %h6, 6;
  @%p1 mov.b64 {%lo, %hi}, %fd1;
  @%p1 mov.b64 %fd1, {%hi, %lo};
  @%p1 mov.b64 {%h1, %h2, %h3, %h4}, %rd3;
  @%p1 mov.b64 %rd3, {%h4, %h3, %h2, %h1};
  @%p1 mov.b32 {%h5, %h6}, %r4;
  @%p1 mov.b32 %r4, {%h6, %h5};
  @%p1 mov.b32 {%b1, %b2, %b3, %b4}, %r10;
  @%p1 mov.b32 %r10, {%b4, %b3, %b2, %b1};
  mov.b32 %r13, {%h5, %h1};
  st.global.f64 [%rd1], %fd1;
  st.global.u64 [%rd1+8], %rd3;
  st.global.u32 [%rd1+16], %r4;
  st.global.u32 [%rd1+20], %r10;
  st.global.u32 [%rd1+24], %r13;
  st.global.u32 [%rd1+28], %lo;
  ret;
}
)";

struct Cell {
    uint64_t f, q;
    uint32_t w, wide, parts, low;
    bool operator==(const Cell&) const = default;
};

uint64_t turned(uint64_t q) { return q << 48 | (q & 0xffff0000) << 16 | (q >> 16 & 0xffff0000) | q >> 48; }

TEST(SoftgpuPacking, ForAllLanesAndForSome) {
    Device device;
    std::string ptx = k_ptx, messages;
    ASSERT_TRUE(ptxas_accepts(ptx, "sm_80", messages)) << messages;
    auto module = device.load(ptx);
    ASSERT_NE(module, nullptr);
    for (uint32_t mask : {0xffffffffu, 0x00000001u, 0x8000f00fu, 0u}) {
        std::vector<Cell> cells(32), expected(32);
        for (uint32_t t = 0; t < 32; ++t) {
            cells[t] = {
                0x0123456789abcdefu * (t + 1), 0xfedcba9876543210u * (2 * t + 1), 0x89abcdefu * (t + 3), 0x1234567u * t, 0, 0};
            Cell c = expected[t] = cells[t];
            expected[t].parts = 1u << 16 | 5u;
            expected[t].low = 7;
            if ((mask >> t & 1) == 0) continue;
            expected[t] = {c.f << 32 | c.f >> 32,
                           turned(c.q),
                           c.w << 16 | c.w >> 16,
                           __builtin_bswap32(c.wide),
                           uint32_t((c.w & 0xffff) | c.q << 16),
                           uint32_t(c.f)};
        }
        uint64_t at = device.upload(cells);
        EXPECT_RUNS(device.launch(*module, "turn", {.block = {32}}, at, mask));
        EXPECT_EQ(device.download<Cell>(at, 32), expected) << std::hex << mask;
    }
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
