// Tests of page-locked and registered memory.
#include "client/state/host_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

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

/// What kernels may use later has addresses that the server has reserved as well (A7).
TEST(HostMemory, takes_addresses_of_its_window_and_gives_them_back) {
    constexpr uint64_t k_block = 2ull << 20;
    void* reserved = ::mmap(nullptr, 4 * k_block, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(reserved, MAP_FAILED);
    const uint64_t base = (reinterpret_cast<uint64_t>(reserved) + k_block - 1) / k_block * k_block;
    HostMemory memory;
    memory.set_window(base, 2 * k_block);
    EXPECT_FALSE(memory.may_be_passed());
    void* first = memory.allocate(5000, 3, 0, 0);
    void* second = memory.allocate(k_block, 3, 0, 0);
    EXPECT_TRUE(memory.in_window(reinterpret_cast<uint64_t>(first)) && memory.in_window(reinterpret_cast<uint64_t>(second)));
    void* beyond = memory.allocate(1, 3, 0, 0);
    EXPECT_FALSE(memory.in_window(reinterpret_cast<uint64_t>(beyond))) << "where there is no room it is ordinary memory";
    EXPECT_TRUE(memory.may_be_passed());
    std::memset(first, 1, 5000);
    EXPECT_TRUE(memory.free(first));
    EXPECT_EQ(memory.allocate(1, 3, 0, 0), first);
    EXPECT_EQ(*static_cast<char*>(first), 0);
    const auto at = reinterpret_cast<uint64_t>(second);
    memory.set_device_base(at, at);
    EXPECT_EQ(memory.find_mapped(at + 5)->base, at);
    EXPECT_FALSE(memory.free(second)) << "its pages are another's business";
    EXPECT_FALSE(memory.forget_mapped(at, HostOrigin::registered));
    EXPECT_TRUE(memory.forget_mapped(at, HostOrigin::allocated));
    memory.return_block({at, k_block});
    EXPECT_TRUE(memory.free(first));
    EXPECT_FALSE(memory.may_be_passed());
}

TEST(HostMemory, that_no_kernel_uses_is_named_by_words_that_lie_in_it_A7) {
    constexpr uint64_t k_block = 2ull << 20;
    void* reserved = ::mmap(nullptr, 3 * k_block, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(reserved, MAP_FAILED);
    HostMemory memory;
    memory.set_window((reinterpret_cast<uint64_t>(reserved) + k_block - 1) / k_block * k_block, 2 * k_block);
    const auto first = reinterpret_cast<uint64_t>(memory.allocate(100, 3, 0, 0));
    const auto second = reinterpret_cast<uint64_t>(memory.allocate(k_block, 3, 0, 0));
    const auto note = [&](std::vector<uint64_t> words) { memory.note_named(as_bytes(words.data(), words.size() * 8)); };
    note({0, 1, first - 1, first + 100, second + k_block, ~uint64_t{0}});
    EXPECT_FALSE(memory.any_named());
    note({5, second + 77, second, first + 99});
    EXPECT_TRUE(memory.any_named());
    ASSERT_EQ(memory.named().size(), 2u);
    const HostMemory::Named one = memory.named()[0], other = memory.named()[1];
    EXPECT_EQ(one.base, first);
    EXPECT_EQ(other.base, second);
    memory.set_device_base(second, second);
    memory.forget_named(other);
    note({second});
    ASSERT_EQ(memory.named().size(), 1u);
    // Named again meanwhile, it may be other memory.
    note({first});
    memory.forget_named(one);
    ASSERT_EQ(memory.named().size(), 1u);
    EXPECT_EQ(memory.named()[0].base, first);
    // Wherever it stands among others.
    for (size_t at = 0; at < 21; ++at) {
        for (const HostMemory::Named& named : memory.named()) memory.forget_named(named);
        std::vector<uint64_t> words(21, 7);
        words[at] = first;
        note(words);
        EXPECT_TRUE(memory.any_named()) << at;
    }
    // What lies where kernels have used other memory may be what the device has an address of.
    for (const HostMemory::Named& named : memory.named()) memory.forget_named(named);
    ASSERT_TRUE(memory.forget_mapped(second, HostOrigin::allocated));
    memory.return_block({second, k_block});
    EXPECT_FALSE(memory.any_named());
    EXPECT_EQ(reinterpret_cast<uint64_t>(memory.allocate(5, 3, 0, 0)), second);
    ASSERT_EQ(memory.named().size(), 1u);
    EXPECT_EQ(memory.named()[0].base, second);
    // A word that is cut off names nothing.
    for (const HostMemory::Named& named : memory.named()) memory.forget_named(named);
    memory.note_named(as_bytes(&first, 7));
    EXPECT_FALSE(memory.any_named());
}

}  // namespace
}  // namespace warpline::client
