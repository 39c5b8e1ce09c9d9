// Tests of page-locked and registered memory.
#include "client/state/host_memory.h"

#include <gtest/gtest.h>

#include <cstring>

namespace warpline::client {
namespace {

TEST(HostMemory, is_page_aligned_zeroed_and_known) {
    HostMemory memory;
    auto* p = static_cast<char*>(memory.allocate(5000, 3, 1, 2));
    ASSERT_NE(p, nullptr);
    auto address = reinterpret_cast<uint64_t>(p);
    EXPECT_EQ(address % 4096, 0u);
    for (int i = 0; i < 5000; ++i) ASSERT_EQ(p[i], 0);
    std::memset(p, 1, 5000);
    auto range = memory.find(address + 4999);
    ASSERT_TRUE(range);
    EXPECT_EQ(range->base, address);
    EXPECT_EQ(range->flags, 2u);
    EXPECT_EQ(range->device, 1);
    EXPECT_FALSE(memory.find(address + 5000));
    EXPECT_FALSE(memory.free(p + 1));
    EXPECT_FALSE(memory.unregister(p)) << "it was allocated, not registered";
    EXPECT_TRUE(memory.free(p));
    EXPECT_FALSE(memory.free(p));
    EXPECT_FALSE(memory.find(address));
}

TEST(HostMemory, refuses_what_cannot_be) {
    HostMemory memory;
    EXPECT_EQ(memory.allocate(UINT64_MAX, 0, 0, 0), nullptr);
    EXPECT_EQ(memory.allocate(1ull << 60, 0, 0, 0), nullptr);
}

TEST(HostMemory, registered_ranges_do_not_overlap) {
    HostMemory memory;
    auto range = [](uint64_t base, uint64_t size) {
        HostRange made;
        made.base = base;
        made.size_bytes = size;
        return made;
    };
    EXPECT_EQ(memory.register_range(range(0x10000, 0x1000)), HostMemory::Registered::ok);
    EXPECT_EQ(memory.register_range(range(0x10800, 0x10)), HostMemory::Registered::overlaps);
    EXPECT_EQ(memory.register_range(range(0xf000, 0x1001)), HostMemory::Registered::overlaps);
    EXPECT_EQ(memory.register_range(range(0xf000, 0x1000)), HostMemory::Registered::ok);
    EXPECT_EQ(memory.register_range(range(0x11000, 0x1000)), HostMemory::Registered::ok);
    EXPECT_FALSE(memory.unregister(reinterpret_cast<void*>(0x10001)));
    EXPECT_TRUE(memory.unregister(reinterpret_cast<void*>(0x10000)));
    EXPECT_EQ(memory.register_range(range(0x10800, 0x10)), HostMemory::Registered::ok);
}

}  // namespace
}  // namespace warpline::client
