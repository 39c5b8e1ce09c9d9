// Kernels of tests/ptx/kernels/control.cu, compiled by nvcc for two generations of its PTX dialect.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/softgpu_exec/harness.h"

namespace warpline::softgpu::exec::test {
namespace {

class SoftgpuControl : public ::testing::TestWithParam<const char*> {
protected:
    std::shared_ptr<Module> load(const std::string& name) {
        return m_device.load(read_kernel(std::string(GetParam()) + "/" + name));
    }
    Device m_device;
};

TEST_P(SoftgpuControl, DivergentBranchesAndLoops) {
    auto module = load("control.ptx");
    constexpr int n = 1000;
    uint64_t out = m_device.allocate(n * 4);
    EXPECT_RUNS(m_device.launch(*module, "divergence", {.grid = {8}, .block = {128}}, out, n));
    auto got = m_device.download<int>(out, n);
    for (int i = 0; i < n; ++i) {
        int v = i;
        if (i % 3 == 0) {
            v = i % 2 == 0 ? v * 5 + 1 : v - 7;
            for (int k = 0; k < i % 11; ++k) v += k * i;
        } else if (i % 3 == 1) {
            while (v > 3) v = v / 2 + (v & 1);
        } else {
            do {
                v = v * 3 + 1;
            } while (v % 7 != 0 && v < 100000);
        }
        ASSERT_EQ(got[i], v) << i;
    }
}

TEST_P(SoftgpuControl, LoopsOfDifferentLength) {
    auto module = load("control.ptx");
    constexpr int n = 3001;
    std::vector<unsigned> in(n);
    for (int i = 0; i < n; ++i) in[i] = unsigned(i) + 1;
    uint64_t input = m_device.upload(in), out = m_device.allocate(n * 4);
    EXPECT_RUNS(m_device.launch(*module, "collatz", {.grid = {24}, .block = {128}}, input, out, n));
    auto got = m_device.download<int>(out, n);
    for (int i = 0; i < n; ++i) {
        unsigned long long v = in[i];
        int steps = 0;
        for (; v != 1; ++steps) v = (v & 1) != 0 ? 3 * v + 1 : v / 2;
        ASSERT_EQ(got[i], steps) << i;
    }
}

TEST_P(SoftgpuControl, Switch) {
    auto module = load("control.ptx");
    std::vector<int> in(64), expected(64, 12345);
    for (int i = 0; i < 64; ++i) {
        int v = in[i] = (i * 7) % 13, r = 0;
        switch (v) {
            case 0: r = i + 10; break;
            case 1: r = i * i; break;
            case 2: r = i - 100; break;
            case 3: r = i ^ 0x55; break;
            case 4: r = (i << 3) + 3; break;
            case 5: r = 3; break;
            case 6: r = -i; break;
            case 7: r = 12345; break;
            case 8: r = i % 5; break;
            case 9: r = 99; break;
            default: r = -1;
        }
        expected[i] = r;
    }
    uint64_t input = m_device.upload(in), out = m_device.upload(std::vector<int>(64, 12345));
    EXPECT_RUNS(m_device.launch(*module, "choose", {.block = {64}}, input, out));
    EXPECT_EQ(m_device.download<int>(out, 64), expected);
}

TEST_P(SoftgpuControl, Recursion) {
    auto module = load("control.ptx");
    uint64_t out = m_device.allocate(64 * 8);
    EXPECT_RUNS(m_device.launch(*module, "fibonacci", {.block = {64}}, out));
    auto got = m_device.download<int64_t>(out, 64);
    const int64_t fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377};
    for (int i = 0; i < 64; ++i) EXPECT_EQ(got[i], fib[i % 15]) << i;
}

TEST_P(SoftgpuControl, StackOverflowIsAFault) {
    auto module = load("control.ptx");
    uint64_t out = m_device.allocate(32 * 4);
    EXPECT_RUNS(m_device.launch(*module, "recurse", {.block = {32}}, out, 50));
    EXPECT_EQ(m_device.download<int>(out, 1)[0], 50 * 51 / 2);
    Fault fault = m_device.launch(*module, "recurse", {.block = {32}}, out, 1000000);
    EXPECT_EQ(fault.cu_result, 714) << fault.text;
}

TEST_P(SoftgpuControl, FunctionPointers) {
    auto module = load("control.ptx");
    uint64_t out = m_device.allocate(96 * 4);
    EXPECT_RUNS(m_device.launch(*module, "pointers", {.block = {96}}, out));
    auto got = m_device.download<int>(out, 96);
    for (int i = 0; i < 96; ++i) {
        int expected = i % 3 == 0 ? i + 7 : i % 3 == 1 ? i - 7 : (i & 1) != 0 ? i * 7 : i * 7 + 1;
        EXPECT_EQ(got[i], expected) << i;
    }
}

TEST_P(SoftgpuControl, VirtualCallsAndTheDeviceHeap) {
    auto module = load("control.ptx");
    uint64_t out = m_device.allocate(100 * 4);
    EXPECT_RUNS(m_device.launch(*module, "virtuals", {.block = {100}}, out));
    auto got = m_device.download<int>(out, 100);
    for (int i = 0; i < 100; ++i) {
        int expected = (i % 3 == 0 ? i : i % 3 == 1 ? i * i : i * i * i) + i;
        EXPECT_EQ(got[i], expected) << i;
    }
}

TEST_P(SoftgpuControl, StructuresByValue) {
    struct Big {
        int values[10];
        double d;
        char c;
    };
    auto module = load("control.ptx");
    Big in{};
    for (int i = 0; i < 10; ++i) in.values[i] = i * i;
    in.d = 1.25;
    in.c = 'x';
    uint64_t out = m_device.allocate(40 * sizeof(Big));
    EXPECT_RUNS(m_device.launch(*module, "structs", {.block = {40}}, in, out));
    auto got = m_device.download<Big>(out, 40);
    for (int t = 0; t < 40; ++t) {
        for (int i = 0; i < 10; ++i) EXPECT_EQ(got[t].values[i], i * i + t);
        EXPECT_EQ(got[t].d, 2.5);
        EXPECT_EQ(got[t].c, 'y');
    }
}

TEST_P(SoftgpuControl, LocalArrays) {
    auto module = load("control.ptx");
    uint64_t out = m_device.allocate(64 * 4);
    EXPECT_RUNS(m_device.launch(*module, "local_array", {.block = {64}}, out, 100));
    auto got = m_device.download<int>(out, 64);
    for (int t = 0; t < 64; ++t) {
        int s = 0;
        for (int i = 0; i < 100; ++i) s += t * ((i * 7 + t) & 31);
        EXPECT_EQ(got[t], s) << t;
    }
}

INSTANTIATE_TEST_SUITE_P(Dialects, SoftgpuControl, ::testing::Values("sm_80", "sm_120"));

}  // namespace
}  // namespace warpline::softgpu::exec::test
