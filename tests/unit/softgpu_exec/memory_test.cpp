// Tests of the memory that kernels may touch.
#include "softgpu/exec/memory.h"

#include <gtest/gtest.h>

namespace warpline::softgpu::exec {
namespace {

TEST(SoftgpuMemory, ReservesAlignedAddressesAndTakesThemBack) {
    MemoryImpl memory;
    auto a = memory.reserve(4096, 1 << 21, 0);
    ASSERT_TRUE(a.ok());
    EXPECT_EQ(*a % (1 << 21), 0u);
    auto b = memory.reserve(4096, 4096, *a);
    EXPECT_FALSE(b.ok());
    EXPECT_EQ(b.error().code, Code::alloc_failed);
    ASSERT_TRUE(memory.release(*a, 4096).ok());
    EXPECT_FALSE(memory.release(*a, 4096).ok());
    auto c = memory.reserve(4096, 4096, *a);
    ASSERT_TRUE(c.ok());
    EXPECT_EQ(*c, *a);
}

TEST(SoftgpuMemory, HintOutsideTheWindow) {
    MemoryImpl memory;
#if defined(WARPLINE_THREAD_SANITIZER)
    uint64_t hint = 0x10'0000'0000;  // among the few addresses that the thread sanitizer leaves to programs
#else
    uint64_t hint = 0x5000'0000'0000;  // neither a window of ours nor where the address sanitizer allocates
#endif
    auto a = memory.reserve(1 << 20, 4096, hint);
    ASSERT_TRUE(a.ok());
    EXPECT_EQ(*a, hint);
    EXPECT_FALSE(memory.reserve(1 << 20, 4096, hint).ok());
    ASSERT_TRUE(memory.map(hint, 1 << 20).ok());
    *reinterpret_cast<int*>(hint) = 7;
    EXPECT_TRUE(memory.release(hint, 1 << 20).ok());
}

TEST(SoftgpuMemory, RangesAreExactToTheByte) {
    MemoryImpl memory;
    uint64_t a = memory.allocate(100, 4096);
    ASSERT_NE(a, 0u);
    EXPECT_TRUE(memory.contains(a, 100));
    EXPECT_TRUE(memory.contains(a + 99, 1));
    EXPECT_FALSE(memory.contains(a, 101));
    EXPECT_FALSE(memory.contains(a + 100, 1));
    EXPECT_FALSE(memory.contains(a - 1, 2));
    EXPECT_FALSE(memory.add_range(a + 50, 100).ok());
    ASSERT_TRUE(memory.add_range(a + 100, 28).ok());
    EXPECT_FALSE(memory.contains(a + 90, 20)) << "an access must not reach over two ranges";
    EXPECT_TRUE(memory.remove_range(a + 100, 28).ok());
    EXPECT_FALSE(memory.remove_range(a + 100, 28).ok());
    memory.free(a, 100);
    EXPECT_FALSE(memory.contains(a, 1));
}

TEST(SoftgpuMemory, HostMemoryCanBeRegistered) {
    MemoryImpl memory;
    int host[4] = {};
    auto address = reinterpret_cast<uint64_t>(host);
    ASSERT_TRUE(memory.add_range(address, sizeof(host)).ok());
    RangeCache range;
    EXPECT_TRUE(memory.find(address + 5, range));
    EXPECT_EQ(range.begin, address);
    EXPECT_EQ(range.end, address + sizeof(host));
    EXPECT_FALSE(memory.find(address + sizeof(host), range));
    EXPECT_TRUE(memory.remove_range(address, sizeof(host)).ok());
}

}  // namespace
}  // namespace warpline::softgpu::exec
