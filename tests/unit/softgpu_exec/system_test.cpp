// Kernels of tests/ptx/kernels/system.cu: printf, heap, assert, faults, constants, special registers.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "tests/unit/softgpu_exec/harness.h"

namespace warpline::softgpu::exec::test {
namespace {

class SoftgpuSystem : public ::testing::TestWithParam<const char*> {
protected:
    SoftgpuSystem() { open({}); }
    void open(EngineOptions options) {
        m_module.reset();
        m_device = std::make_unique<Device>(options);
        m_module = m_device->load(read_kernel(std::string(GetParam()) + "/system.ptx"));
    }
    template <typename... Args>
    Fault run(std::string_view kernel, Device::Shape shape, Args... args) {
        return m_device->launch(*m_module, kernel, shape, args...);
    }
    std::unique_ptr<Device> m_device;
    std::shared_ptr<Module> m_module;
};

TEST_P(SoftgpuSystem, ConstantsAndGlobals) {
    uint64_t out = m_device->allocate(64);
    EXPECT_RUNS(run("globals", {.block = {16}}, out));
    auto got = m_device->download<int>(out, 16);
    for (int t = 0; t < 16; ++t) EXPECT_EQ(got[t], (1 << (t % 8)) + 6) << t;
    const GlobalInfo* matrix = m_module->global("matrix");
    ASSERT_NE(matrix, nullptr);
    EXPECT_EQ(matrix->size_bytes, 64u);
    EXPECT_FALSE(matrix->constant);
    EXPECT_EQ(m_device->download<float>(matrix->address, 16)[6], 3.5f);
    ASSERT_NE(m_module->global("table"), nullptr);
    EXPECT_TRUE(m_module->global("table")->constant);
    EXPECT_EQ(m_module->global("no such name"), nullptr);
}

TEST_P(SoftgpuSystem, PrintfInBlockOrder) {
    EXPECT_RUNS(run("hello", {.grid = {20}, .block = {3}}, 2));
    std::string expected;
    for (int b = 0; b < 20; ++b) {
        for (int t = 0; t < 3; ++t) {
            char line[200];
            std::snprintf(line, sizeof(line), "block %d thread %d: %s %5.2f %c %lld %x %%\n", b, t, "many", 1.0, 'a' + t,
                          1234567890123LL * 2, 255 + t);
            expected += line;
        }
    }
    EXPECT_EQ(m_device->printed(), expected);
    EXPECT_TRUE(m_module->function("hello")->info().uses_printf);
}

TEST_P(SoftgpuSystem, AFullPrintfFifoLosesTheOldest) {
    EXPECT_RUNS(run("hello", {.block = {96}}, 2));
    const std::string all = m_device->printed();
    Limits limits = m_device->engine().limits();
    limits.printf_fifo_bytes = 1000;
    m_device->engine().set_limits(limits);
    EXPECT_RUNS(run("hello", {.block = {96}}, 2));
    const std::string kept = m_device->printed().substr(all.size());
    EXPECT_LE(kept.size(), 1000u);
    EXPECT_GT(kept.size(), 900u);
    EXPECT_TRUE(all.ends_with("\n" + kept)) << kept;
}

TEST_P(SoftgpuSystem, DeviceHeap) {
    uint64_t out = m_device->allocate(128 * 4);
    EXPECT_RUNS(run("heap", {.block = {128}}, out));
    auto got = m_device->download<int>(out, 128);
    for (int t = 0; t < 128; ++t) EXPECT_EQ(got[t], t * (t + 1) / 2);
}

TEST_P(SoftgpuSystem, Assert) {
    EXPECT_RUNS(run("checked", {.block = {32}}, 32));
    Fault fault = run("checked", {.block = {32}}, 30);
    EXPECT_EQ(fault.cu_result, 710);
    EXPECT_NE(fault.text.find("thread: [30,0,0] Assertion"), std::string::npos) << fault.text;
}

TEST_P(SoftgpuSystem, OutOfBoundsIsExactToTheElement) {
    uint64_t out = m_device->allocate(100 * 4);
    EXPECT_RUNS(run("write_at", {.block = {50}}, out, int64_t{50}));
    Fault fault = run("write_at", {.block = {51}}, out, int64_t{50});
    EXPECT_EQ(fault.cu_result, 700);
    EXPECT_NE(fault.text.find("thread (50,0,0)"), std::string::npos) << fault.text;
    EXPECT_NE(fault.text.find("write_at"), std::string::npos) << fault.text;
    EXPECT_EQ(run("write_at", {.block = {1}}, out, int64_t{-1}).cu_result, 700);
    EXPECT_EQ(run("write_at", {.block = {32}}, uint64_t{0}, int64_t{0}).cu_result, 700);
    EXPECT_RUNS(run("write_at", {.block = {50}}, out, int64_t{0}));  // a fault is the launch's, not the engine's
}

TEST_P(SoftgpuSystem, Misaligned) {
    uint64_t out = m_device->allocate(16);
    EXPECT_EQ(run("read_unaligned", {.block = {1}}, out, out).cu_result, 716);
}

TEST_P(SoftgpuSystem, Trap) {
    EXPECT_RUNS(run("trapping", {.block = {3}}));
    Fault fault = run("trapping", {.block = {4}});
    EXPECT_EQ(fault.cu_result, 719);
    EXPECT_NE(fault.text.find("thread (3,0,0)"), std::string::npos) << fault.text;
}

TEST_P(SoftgpuSystem, SharedMemoryHasBounds) {
    uint64_t out = m_device->allocate(4);
    EXPECT_RUNS(run("shared_oob", {.block = {8}}, out, 7));
    EXPECT_EQ(run("shared_oob", {.block = {8}}, out, 8).cu_result, 700);
}

TEST_P(SoftgpuSystem, Watchdog) {
    EngineOptions options;
    options.watchdog_ms = 50;
    open(options);
    uint64_t flag = m_device->upload(std::vector<int>{0});
    EXPECT_EQ(run("forever", {.grid = {3}, .block = {64}}, flag).cu_result, 702);
}

TEST_P(SoftgpuSystem, AKernelWaitsForAnother) {
    uint64_t flag = m_device->upload(std::vector<int>{0});
    Fault first;
    std::thread waiting([&] { first = run("forever", {.grid = {3}, .block = {64}}, flag); });
    EXPECT_RUNS(run("write_at", {.block = {1}}, flag, int64_t{0}));
    waiting.join();
    EXPECT_EQ(first.cu_result, 0) << first.text;
}

TEST_P(SoftgpuSystem, ThreadAndBlockNumbers) {
    Dim3 grid{3, 2, 2}, block{5, 4, 3};
    uint64_t count = grid.count() * block.count();
    uint64_t out = m_device->allocate(count * 24);
    EXPECT_RUNS(run("ids", {.grid = grid, .block = block}, out));
    auto got = m_device->download<uint32_t>(out, count * 6);
    for (uint32_t b = 0; b < grid.count(); ++b) {
        for (uint32_t t = 0; t < block.count(); ++t) {
            const uint32_t* o = &got[(b * block.count() + t) * 6];
            ASSERT_EQ(o[0], t % 5);
            ASSERT_EQ(o[1], t / 5 % 4);
            ASSERT_EQ(o[2], t / 20);
            ASSERT_EQ(o[3], b % 3);
            ASSERT_EQ(o[4], b / 3 % 2);
            ASSERT_EQ(o[5], b / 6);
        }
    }
}

TEST_P(SoftgpuSystem, ClocksRun) {
    uint64_t out = m_device->allocate(16);
    EXPECT_RUNS(run("clocks", {.block = {32}}, out));
    auto got = m_device->download<int64_t>(out, 2);
    EXPECT_GT(got[0], 0);
    EXPECT_GT(got[1], 1600000000000000000);
}

TEST_P(SoftgpuSystem, ParametersHaveAddresses) {
    struct alignas(16) Packet {
        int values[8];
    };
    uint64_t out = m_device->allocate(64);
    EXPECT_RUNS(run("grid_constant", {.block = {16}}, Packet{{9, 8, 7, 6, 5, 4, 3, 2}}, out));
    auto got = m_device->download<int>(out, 16);
    for (int t = 0; t < 16; ++t) EXPECT_EQ(got[t], 9 - (t & 7));
}

TEST_P(SoftgpuSystem, GenericAddresses) {
    std::vector<int> in(32);
    int doubled = 0;
    for (int i = 0; i < 32; ++i) doubled += 2 * (in[i] = i * i);
    uint64_t input = m_device->upload(in), out = m_device->allocate(128);
    EXPECT_RUNS(run("generic_addresses", {.block = {32}}, input, out));
    auto got = m_device->download<int>(out, 32);
    for (int t = 0; t < 32; ++t) EXPECT_EQ(got[t], 0 + 1 + 4 + 9 + doubled + 4 * t + 6) << t;
}

INSTANTIATE_TEST_SUITE_P(Dialects, SoftgpuSystem, ::testing::Values("sm_80", "sm_120"));

}  // namespace
}  // namespace warpline::softgpu::exec::test
