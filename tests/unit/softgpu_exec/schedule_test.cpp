// Tests of launches in a random order.
#include <set>

#include "tests/unit/softgpu_exec/harness.h"

namespace warpline::softgpu::exec::test {
namespace {

/// What a kernel leaves in `count` words, by the seed of its schedule.
class SoftgpuSchedule : public testing::Test {
protected:
    std::vector<uint32_t> run(uint64_t seed, const std::string& ptx, Device::Shape shape, size_t count) {
        EngineOptions options;
        options.schedule_seed = seed;
        Device device(options);
        auto module = device.load(with_head(ptx));
        uint64_t out = device.upload(std::vector<uint32_t>(count, 0));
        EXPECT_RUNS(device.launch(*module, "kernel", shape, out));
        return device.download<uint32_t>(out, count);
    }
    static constexpr uint64_t k_seeds = 24;
};

/// Every thread adds 1 to a word of its own block's, with or without atomics; blocks then add theirs to the last word.
std::string counters(bool atomic) {
    std::string add =
        atomic ? "red.global.add.u32 [%a], 1;\n" : "ld.global.u32 %v, [%a];\nadd.u32 %v, %v, 1;\nst.global.u32 [%a], %v;\n";
    return ".visible .entry kernel(.param .u64 out)\n{\n.reg .b64 %a, %o;\n.reg .b32 %v, %c, %i;\n.reg .pred %p;\n"
           "ld.param.u64 %a, [out];\nmov.u32 %c, %ctaid.x;\nand.b32 %c, %c, 3;\nmul.wide.u32 %o, %c, 4;\nadd.s64 %a, %a, %o;\n"
           "mov.u32 %i, 0;\nLOOP:\n" +
           add + "add.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, 8;\n@%p bra LOOP;\nret;\n}\n";
}

/// Threads of odd and even number go different ways, meet in a sum over shared memory, and thread 0 writes it.
const char* const k_divergent_sum = R"(
.visible .entry kernel(.param .u64 out)
{
    .reg .b64 %a, %o;
    .reg .b32 %x, %v, %s, %t, %d, %m, %b;
    .reg .pred %p;
    .shared .align 4 .b8 words[512];
    ld.param.u64 %a, [out];
    mov.u32 %x, %tid.x;
    and.b32 %v, %x, 1;
    setp.eq.u32 %p, %v, 0;
    @%p bra EVEN;
    mul.lo.u32 %v, %x, 3;
    bra BOTH;
EVEN:
    add.u32 %v, %x, 7;
BOTH:
    shfl.sync.bfly.b32 %t, %v, 1, 31, 0xffffffff;
    add.u32 %v, %v, %t;
    mov.u32 %m, words;
    shl.b32 %s, %x, 2;
    add.u32 %s, %m, %s;
    st.shared.u32 [%s], %v;
    mov.u32 %d, 64;
STEP:
    bar.sync 0;
    setp.ge.u32 %p, %x, %d;
    @%p bra SKIP;
    shl.b32 %b, %d, 2;
    add.u32 %b, %s, %b;
    ld.shared.u32 %t, [%b];
    ld.shared.u32 %v, [%s];
    add.u32 %v, %v, %t;
    st.shared.u32 [%s], %v;
SKIP:
    shr.u32 %d, %d, 1;
    setp.ne.u32 %p, %d, 0;
    @%p bra STEP;
    setp.ne.u32 %p, %x, 0;
    @%p ret;
    mov.u32 %d, %ctaid.x;
    mul.wide.u32 %o, %d, 4;
    add.s64 %a, %a, %o;
    ld.shared.u32 %v, [words];
    st.global.u32 [%a], %v;
    ret;
}
)";

/// Block n waits for block n - 1: a chain over all blocks, as look-back scans have.
const char* const k_chain = R"(
.visible .entry kernel(.param .u64 out)
{
    .reg .b64 %a, %o;
    .reg .b32 %x, %c, %v;
    .reg .pred %p;
    mov.u32 %x, %tid.x;
    setp.ne.u32 %p, %x, 0;
    @%p ret;
    ld.param.u64 %a, [out];
    mov.u32 %c, %ctaid.x;
    mul.wide.u32 %o, %c, 4;
    add.s64 %a, %a, %o;
    mov.u32 %v, 1;
    setp.eq.u32 %p, %c, 0;
    @%p bra FIRST;
WAIT:
    ld.acquire.gpu.global.u32 %v, [%a+-4];
    setp.eq.u32 %p, %v, 0;
    @%p bra WAIT;
    add.u32 %v, %v, %c;
FIRST:
    st.release.gpu.global.u32 [%a], %v;
    ret;
}
)";

TEST_F(SoftgpuSchedule, CorrectKernelsGiveTheSameInEveryOrder) {
    const Device::Shape many{.grid = {16}, .block = {96}}, sum{.grid = {6}, .block = {128}},
        chain{.grid = {200}, .block = {64}};
    const auto counted = run(0, counters(true), many, 4), summed = run(0, k_divergent_sum, sum, 6);
    const auto chained = run(0, k_chain, chain, 200);
    EXPECT_EQ(counted, std::vector<uint32_t>(4, 16 / 4 * 96 * 8));
    EXPECT_EQ(chained.back(), 1u + 199 * 200 / 2);
    for (uint64_t seed = 1; seed <= k_seeds; ++seed) {
        EXPECT_EQ(run(seed, counters(true), many, 4), counted) << seed;
        EXPECT_EQ(run(seed, k_divergent_sum, sum, 6), summed) << seed;
        EXPECT_EQ(run(seed, k_chain, chain, 200), chained) << seed;
    }
}

TEST_F(SoftgpuSchedule, RacesShow) {
    const Device::Shape shape{.grid = {16}, .block = {96}};
    std::set<std::vector<uint32_t>> seen;
    for (uint64_t seed = 1; seed <= k_seeds; ++seed) seen.insert(run(seed, counters(false), shape, 4));
    EXPECT_GT(seen.size(), k_seeds / 2);
}

TEST_F(SoftgpuSchedule, ASeedRepeatsItself) {
    const Device::Shape shape{.grid = {16}, .block = {96}};
    for (uint64_t seed = 1; seed <= 4; ++seed) {
        EXPECT_EQ(run(seed, counters(false), shape, 4), run(seed, counters(false), shape, 4)) << seed;
    }
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
