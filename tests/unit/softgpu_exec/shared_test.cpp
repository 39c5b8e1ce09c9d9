// Kernels of tests/ptx/kernels/shared.cu: shared memory, barriers, atomics, warps, waiting for one another.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/softgpu_exec/harness.h"

namespace warpline::softgpu::exec::test {
namespace {

class SoftgpuShared : public ::testing::TestWithParam<const char*> {
protected:
    SoftgpuShared() : m_module(m_device.load(read_kernel(std::string(GetParam()) + "/shared.ptx"))) {}
    template <typename... Args>
    Fault run(std::string_view kernel, Device::Shape shape, Args... args) {
        return m_device.launch(*m_module, kernel, shape, args...);
    }
    Device m_device;
    std::shared_ptr<Module> m_module;
};

class SoftgpuOwnText : public ::testing::Test {
protected:
    Device m_device;
};

// Each block tells the next one its number, five times, as a ring: without waiting for all it would read an older one.
TEST_F(SoftgpuOwnText, GridGroupsOfTheDeviceRunTimeWaitForAllBlocks_A3) {
    auto module = m_device.load(R"(.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 error) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
.visible .entry ring(.param .u64 numbers, .param .u64 errors)
{
    .reg .pred %p;
    .reg .b32 %mine, %next, %blocks, %round, %value, %error, %scope, %flags, %thread;
    .reg .b64 %numbers, %errors, %offset, %at, %handle;
    ld.param.u64 %numbers, [numbers];
    ld.param.u64 %errors, [errors];
    mov.u32 %scope, 1;
    mov.u32 %flags, 0;
    { .param .b32 a; .param .b64 r; st.param.b32 [a], %scope; call.uni (r), cudaCGGetIntrinsicHandle, (a);
      ld.param.b64 %handle, [r]; }
    mov.u32 %mine, %ctaid.x;
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %thread, %tid.x;
    add.u32 %next, %mine, 1;
    rem.u32 %next, %next, %blocks;
    mov.u32 %round, 0;
AGAIN:
    mul.wide.u32 %offset, %next, 4;
    add.u64 %at, %numbers, %offset;
    ld.volatile.global.u32 %value, [%at];
    { .param .b64 a; .param .b32 b; .param .b32 r; st.param.b64 [a], %handle; st.param.b32 [b], %flags;
      call.uni (r), cudaCGSynchronize, (a, b); ld.param.b32 %error, [r]; }
    red.global.or.b32 [%errors], %error;
    mul.wide.u32 %offset, %mine, 4;
    add.u64 %at, %numbers, %offset;
    setp.eq.u32 %p, %thread, 0;
    @%p st.volatile.global.u32 [%at], %value;
    { .param .b64 a; .param .b32 b; .param .b32 r; st.param.b64 [a], %handle; st.param.b32 [b], %flags;
      call.uni (r), cudaCGSynchronize, (a, b); ld.param.b32 %error, [r]; }
    add.u32 %round, %round, 1;
    setp.lt.u32 %p, %round, 5;
    @%p bra AGAIN;
    ret;
}
)");
    const uint64_t numbers = m_device.upload(std::vector<int>{0, 1, 2, 3, 4, 5, 6}),
                   errors = m_device.upload(std::vector<int>{0});
    EXPECT_RUNS(m_device.launch(*module, "ring", {.grid = {7}, .block = {64}, .cooperative = true}, numbers, errors));
    EXPECT_EQ(m_device.download<int>(numbers, 7), (std::vector<int>{5, 6, 0, 1, 2, 3, 4}));
    EXPECT_EQ(m_device.download<int>(errors, 1)[0], 0);
    // A launch that is not cooperative has nothing to wait with.
    EXPECT_RUNS(m_device.launch(*module, "ring", {.grid = {7}, .block = {64}}, numbers, errors));
    EXPECT_EQ(m_device.download<int>(errors, 1)[0], 1);
}

TEST_P(SoftgpuShared, Reduction) {
    constexpr int n = 10000;
    std::vector<float> in(n);
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += in[i] = float(i % 100);
    uint64_t input = m_device.upload(in), out = m_device.allocate(8 * 4);
    EXPECT_RUNS(run("reduce", {.grid = {8}, .block = {256}}, input, out, n));
    double got = 0;
    for (float part : m_device.download<float>(out, 8)) got += part;
    EXPECT_EQ(got, sum);
}

TEST_P(SoftgpuShared, DynamicSharedMemory) {
    std::vector<int> data(200);
    for (int i = 0; i < 200; ++i) data[i] = i;
    uint64_t d = m_device.upload(data);
    EXPECT_RUNS(run("dynamic_reverse", {.block = {200}, .dynamic_shared = 800}, d));
    std::reverse(data.begin(), data.end());
    EXPECT_EQ(m_device.download<int>(d, 200), data);
    EXPECT_EQ(run("dynamic_reverse", {.block = {200}, .dynamic_shared = 784}, d).cu_result, 700);
}

// NVVM 13 reads 12 bytes by a vector of 16 and a pragma that says which of them count, up to behind the last variable.
TEST_F(SoftgpuOwnText, VectorsReachBehindTheLastVariable_A3) {
    auto module = m_device.load(
        ".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 words[];\n"
        ".visible .entry kernel(.param .u64 out)\n{\n.reg .b32 %r<6>;\n.reg .b64 %a;\nld.param.u64 %a, [out];\n"
        "mov.u32 %r0, 7;\nst.shared.u32 [words+24], %r0;\n.pragma \"used_bytes_mask 4095\";\n"
        "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [words+16];\nst.global.u32 [%a], %r3;\nret;\n}\n");
    const uint64_t out = m_device.allocate(4);
    EXPECT_RUNS(m_device.launch(*module, "kernel", {.dynamic_shared = 28}, out));
    EXPECT_EQ(m_device.download<int>(out, 1)[0], 7);
    EXPECT_EQ(m_device.launch(*module, "kernel", {.dynamic_shared = 16}, out).cu_result, 700);
}

TEST_P(SoftgpuShared, BarriersInDivergentCode) {
    uint64_t out = m_device.allocate(64 * 4);
    EXPECT_RUNS(run("divergent_barrier", {.block = {64}}, out));
    auto got = m_device.download<int>(out, 64);
    for (int t = 0; t < 64; ++t) EXPECT_EQ(got[t], t < 32 ? (t + 32) * 3 : (t - 32) * 2) << t;
}

TEST_P(SoftgpuShared, BarriersWithoutThreadsThatLeft) {
    uint64_t out = m_device.upload(std::vector<int>(128, -7));
    EXPECT_RUNS(run("early_exit", {.block = {128}}, out));
    auto got = m_device.download<int>(out, 128);
    for (int t = 0; t < 128; ++t) {
        int o = 127 - t;
        EXPECT_EQ(got[t], t % 5 == 4 ? -7 : o % 5 == 4 ? -1 : o) << t;
    }
}

TEST_P(SoftgpuShared, BarrierReductions) {
    uint64_t out = m_device.allocate(100 * 12);
    EXPECT_RUNS(run("barrier_reductions", {.block = {100}}, out));
    auto got = m_device.download<int>(out, 300);
    for (int t = 0; t < 100; ++t) {
        EXPECT_EQ(got[t * 3], 34);
        EXPECT_NE(got[t * 3 + 1], 0);
        EXPECT_NE(got[t * 3 + 2], 0);
    }
}

TEST_P(SoftgpuShared, AllHaveReadBeforeTheFirstWarpWritesAgain) {
    auto module = m_device.load(read_kernel(std::string(GetParam()) + "/reuse.ptx"));
    std::vector<int> in(256);
    for (int i = 0; i < 256; ++i) in[i] = i % 7 - 2;
    int sum = 0;
    for (int value : in) sum += value;
    uint64_t input = m_device.upload(in), out = m_device.allocate(256 * 4);
    EXPECT_RUNS(m_device.launch(*module, "two_sums", {.block = {256}}, input, out));
    EXPECT_EQ(m_device.download<int>(out, 256), std::vector<int>(256, sum * sum - sum));
    EXPECT_RUNS(m_device.launch(*module, "tell_all", {.block = {256}}, out));
    EXPECT_EQ(m_device.download<int>(out, 256), std::vector<int>(256, 385));
}

TEST_P(SoftgpuShared, ArriveAndSync) {
    uint64_t out = m_device.allocate(64 * 4);
    EXPECT_RUNS(run("named_barriers", {.block = {128}}, out));
    auto got = m_device.download<int>(out, 64);
    for (int t = 0; t < 64; ++t) EXPECT_EQ(got[t], t + 1000);
}

TEST_P(SoftgpuShared, Transpose) {
    constexpr int n = 50;
    std::vector<float> in(n * n);
    for (int i = 0; i < n * n; ++i) in[i] = float(i);
    uint64_t input = m_device.upload(in), out = m_device.allocate(n * n * 4);
    EXPECT_RUNS(run("transpose", {.grid = {4, 4}, .block = {16, 16}}, input, out, n));
    auto got = m_device.download<float>(out, n * n);
    for (int y = 0; y < n; ++y) {
        for (int x = 0; x < n; ++x) ASSERT_EQ(got[y * n + x], in[x * n + y]);
    }
}

TEST_P(SoftgpuShared, MatrixProduct) {
    constexpr int n = 64;
    std::vector<float> a(n * n), b(n * n);
    for (int i = 0; i < n * n; ++i) {
        a[i] = float(i % 7) - 3;
        b[i] = float(i % 5) - 2;
    }
    uint64_t da = m_device.upload(a), db = m_device.upload(b), dc = m_device.allocate(n * n * 4);
    EXPECT_RUNS(run("matmul", {.grid = {4, 4}, .block = {16, 16}}, da, db, dc, n));
    auto c = m_device.download<float>(dc, n * n);
    for (int y = 0; y < n; ++y) {
        for (int x = 0; x < n; ++x) {
            float s = 0;
            for (int k = 0; k < n; ++k) s += a[y * n + k] * b[k * n + x];
            ASSERT_EQ(c[y * n + x], s);
        }
    }
}

TEST_P(SoftgpuShared, Histogram) {
    constexpr int n = 20000;
    std::vector<unsigned char> in(n);
    std::vector<unsigned> expected(256);
    for (int i = 0; i < n; ++i) expected[in[i] = static_cast<unsigned char>(i * i % 251)]++;
    uint64_t input = m_device.upload(in), bins = m_device.upload(std::vector<unsigned>(256));
    EXPECT_RUNS(run("histogram", {.grid = {6}, .block = {256}}, input, bins, n));
    EXPECT_EQ(m_device.download<unsigned>(bins, 256), expected);
}

TEST_P(SoftgpuShared, Atomics) {
    constexpr int threads = 1000;
    std::vector<int> i = {0, 0, 1000, -1000, -1, 0, 0, 0, 0};
    std::vector<unsigned> u = {0, 0, 1000000, 0};
    std::vector<uint64_t> l = {0, 0, 7};
    uint64_t di = m_device.upload(i), du = m_device.upload(u), dl = m_device.upload(l);
    uint64_t df = m_device.upload(std::vector<float>{0}), dd = m_device.upload(std::vector<double>{0});
    EXPECT_RUNS(run("atomics", {.grid = {8}, .block = {125}}, di, du, dl, df, dd));
    int x = 0;
    unsigned inc = 0, dec = 0;
    for (int t = 0; t < threads; ++t) {
        x ^= t;
        inc = inc >= 16 ? 0 : inc + 1;
        dec = dec == 0 || dec > 16 ? 16 : dec - 1;
    }
    int sum = threads * (threads - 1) / 2;
    EXPECT_EQ(m_device.download<int>(di, 9),
              (std::vector<int>{sum, -sum, -500, 499, int(0xfff00000), 0x000fffff, x, 42, 2 * threads}));
    EXPECT_EQ(m_device.download<unsigned>(du, 4), (std::vector<unsigned>{inc, dec, 0, 999}));
    EXPECT_EQ(m_device.download<uint64_t>(dl, 3), (std::vector<uint64_t>{uint64_t(sum) << 32, uint64_t{999} << 33, 8}));
    EXPECT_EQ(m_device.download<float>(df, 1)[0], 500.0f);
    EXPECT_EQ(m_device.download<double>(dd, 1)[0], 250.0);
}

TEST_P(SoftgpuShared, WarpCollectives) {
    uint64_t out = m_device.allocate(64 * 20 * 4);
    EXPECT_RUNS(run("warp_ops", {.block = {64}}, out));
    auto got = m_device.download<int>(out, 64 * 20);
    for (int t = 0; t < 64; ++t) {
        const int* o = &got[t * 20];
        int lane = t & 31, base = t & ~31;
        unsigned thirds = 0, fifths = 0, total = 0, x = 0;
        for (int i = 0; i < 32; ++i) {
            thirds |= unsigned(i % 3 == 0) << i;
            fifths |= unsigned(i / 5 == lane / 5) << i;
            total += unsigned(base + i);
            x ^= unsigned(base + i);
        }
        EXPECT_EQ(o[0], base + 5);
        EXPECT_EQ(o[1], lane >= 3 ? t - 3 : t);
        EXPECT_EQ(o[2], lane < 29 ? t + 3 : t);
        EXPECT_EQ(o[3], t ^ 9);
        EXPECT_EQ(o[4], (t & ~7) + 2);
        EXPECT_EQ(o[5], (t & 7) >= 3 ? t - 3 : t);
        EXPECT_EQ(o[6], (t & 15) < 13 ? t + 3 : t);
        EXPECT_EQ(o[7], (t ^ 5) / 4 == t / 4 ? t ^ 5 : ((t ^ 5) & 31) <= (lane | 3) ? t ^ 5 : t) << t;
        EXPECT_EQ(unsigned(o[8]), thirds);
        EXPECT_EQ(o[9], t >= 32);
        EXPECT_EQ(o[10], t < 32);
        EXPECT_EQ(unsigned(o[11]), fifths);
        EXPECT_EQ(unsigned(o[12]), ~0u);
        EXPECT_EQ(o[13], 1);
        EXPECT_EQ(unsigned(o[14]), total);
        EXPECT_EQ(o[15], base + 31);
        EXPECT_EQ(unsigned(o[16]), x);
        EXPECT_EQ(o[17], lane < 10 ? 0x3ff : 0);
        EXPECT_EQ(unsigned(o[18]), lane < 10 ? unsigned(base + 9 - lane) : 0xaaaaaaaau & ~0x3ffu);
        EXPECT_EQ(o[19], t ^ 1);
    }
}

TEST_P(SoftgpuShared, CollectivesWaitForLateLanes) {
    uint64_t out = m_device.allocate(64 * 4);
    EXPECT_RUNS(run("late_lanes", {.block = {64}}, out));
    auto value = [](int lane) {
        int v = lane;
        for (int i = 0; i < lane; ++i) v = int(unsigned(v) * 3 + 1);
        for (int i = 0; (lane & 1) != 0 && i < 3; ++i) v ^= int(unsigned(i) << lane);
        return v;
    };
    auto got = m_device.download<int>(out, 64);
    for (int t = 0; t < 64; ++t) EXPECT_EQ(got[t], value((t & 31) ^ 1)) << t;
}

TEST_P(SoftgpuShared, LocksBetweenLanesAndBlocks) {
    for (const char* kernel : {"spin_lock", "spin_lock_inside"}) {
        uint64_t lock = m_device.upload(std::vector<int>{0}), counter = m_device.upload(std::vector<int>{0});
        EXPECT_RUNS(run(kernel, {.grid = {5}, .block = {70}}, lock, counter));
        EXPECT_EQ(m_device.download<int>(counter, 1)[0], 350) << kernel;
    }
}

TEST_P(SoftgpuShared, BlocksThatWaitForOthers) {
    constexpr int blocks = 300;
    uint64_t flags = m_device.upload(std::vector<int>(blocks)), out = m_device.upload(std::vector<int>(blocks));
    EXPECT_RUNS(run("chain", {.grid = {blocks}, .block = {64}}, flags, out));
    EXPECT_EQ(m_device.download<int>(out, blocks)[blocks - 1], blocks * (blocks - 1) / 2);
}

TEST_P(SoftgpuShared, BlocksThatMustAllBeThere) {
    constexpr int blocks = 40;
    uint64_t count = m_device.upload(std::vector<int>(1)), out = m_device.allocate(blocks * 64 * 4);
    EXPECT_RUNS(run("all_resident", {.grid = {blocks}, .block = {64}}, count, out));
    for (int v : m_device.download<int>(out, blocks * 64)) ASSERT_EQ(v, blocks);
}

INSTANTIATE_TEST_SUITE_P(Dialects, SoftgpuShared, ::testing::Values("sm_80", "sm_120"));

}  // namespace
}  // namespace warpline::softgpu::exec::test
