// What of this process's memory can be read.
#include "common/base/mappings.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace warpline {
namespace {

constexpr uint64_t k_page = 4096;

TEST(Mappings, TellsWhatCanBeRead) {
    void* memory = ::mmap(nullptr, 4 * k_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const auto base = reinterpret_cast<uint64_t>(memory);
    EXPECT_TRUE(is_readable(base, 4 * k_page));
    // Two entries of the list, and the range crosses from one to the other.
    ASSERT_EQ(::mprotect(memory, k_page, PROT_READ), 0);
    EXPECT_TRUE(is_readable(base + 10, 2 * k_page));
    ASSERT_EQ(::mprotect(reinterpret_cast<void*>(base + 2 * k_page), k_page, PROT_NONE), 0);
    EXPECT_TRUE(is_readable(base, 2 * k_page));
    EXPECT_FALSE(is_readable(base, 2 * k_page + 1));
    EXPECT_FALSE(is_readable(base + 2 * k_page, 1));
    EXPECT_TRUE(is_readable(base + 3 * k_page, k_page));
    ASSERT_EQ(::munmap(reinterpret_cast<void*>(base + k_page), k_page), 0);
    EXPECT_FALSE(is_readable(base, k_page + 1));
    EXPECT_FALSE(is_readable(16, 1));
    const int local = 0;
    EXPECT_TRUE(is_readable(reinterpret_cast<uint64_t>(&local), sizeof local));
    EXPECT_TRUE(is_writable(reinterpret_cast<uint64_t>(&local), sizeof local));
    ::munmap(memory, 4 * k_page);
}

}  // namespace
}  // namespace warpline
