// Tests of launches by the engine.
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>

#include "tests/unit/softgpu_exec/harness.h"

namespace warpline::softgpu::exec::test {
namespace {

TEST(SoftgpuLaunch, VectorAddition) {
    Device device;
    auto module = device.load(read_kernel("sm_80/vecadd.ptx"));
    ASSERT_NE(module, nullptr);
    constexpr int n = 10001;
    std::vector<float> a(n), b(n);
    for (int i = 0; i < n; ++i) {
        a[i] = float(i) * 0.5f;
        b[i] = float(n - i);
    }
    uint64_t da = device.upload(a), db = device.upload(b), dc = device.allocate(n * sizeof(float));
    EXPECT_RUNS(device.launch(*module, "vecadd", {.grid = {40}, .block = {256}}, da, db, dc, n));
    auto c = device.download<float>(dc, n);
    for (int i = 0; i < n; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i;
}

/// Threads that help with a long launch may be moved to another core once; where they may run stays as it was, and every
/// block is run, with more threads than there are cores too.
TEST(SoftgpuLaunch, HelpersKeepTheirCores) {
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    EngineOptions options;
    options.workers = 5;
    Device device(options);
    auto module = device.load(with_head(R"(
.visible .entry k(.param .u64 out)
{
    .reg .b64 %a, %o; .reg .b32 %i, %x, %b; .reg .pred %p;
    ld.param.u64 %a, [out]; mov.u32 %b, %ctaid.x; mul.wide.u32 %o, %b, 4; add.s64 %a, %a, %o;
    mov.u32 %i, 0; mov.u32 %x, %b;
LOOP:
    mad.lo.u32 %x, %x, 1664525, 1013904223; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 3000;
    @%p bra LOOP;
    st.global.u32 [%a], %x;
    ret;
}
)"));
    ASSERT_NE(module, nullptr);
    constexpr uint32_t k_blocks = 200;
    for (int round = 0; round < 3; ++round) {
        uint64_t out = device.upload(std::vector<uint32_t>(k_blocks, 0));
        EXPECT_RUNS(device.launch(*module, "k", {.grid = {k_blocks}, .block = {32}}, out));
        auto got = device.download<uint32_t>(out, k_blocks);
        for (uint32_t block = 0; block < k_blocks; ++block) {
            uint32_t x = block;
            for (int i = 0; i < 3000; ++i) x = x * 1664525 + 1013904223;
            ASSERT_EQ(got[block], x) << block;
        }
        for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
            cpu_set_t now;
            const int id = std::stoi(task.path().filename());
            // A thread that is being moved just now has its old cores back a moment later.
            for (int tries = 0; tries < 100000; ++tries) {
                ASSERT_EQ(sched_getaffinity(id, sizeof now, &now), 0);
                if (CPU_EQUAL(&now, &before)) break;
            }
            EXPECT_TRUE(CPU_EQUAL(&now, &before)) << id;
        }
    }
}

}  // namespace
}  // namespace warpline::softgpu::exec::test
