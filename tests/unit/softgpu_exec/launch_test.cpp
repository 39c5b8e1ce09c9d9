#include <gtest/gtest.h>

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

}  // namespace
}  // namespace warpline::softgpu::exec::test
