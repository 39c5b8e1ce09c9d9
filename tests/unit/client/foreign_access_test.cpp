// Memory to which the program has taken access away, or all of it (A7).
#include "client/managed/foreign_access.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>

namespace warpline::client {
namespace {

TEST(ForeignAccessTest, WritesWhereAccessWasTakenAway_A7) {
    constexpr size_t k_page = 4096;
    auto* memory = static_cast<char*>(::mmap(nullptr, 2 * k_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    memory[k_page] = 1;
    ASSERT_EQ(::mprotect(memory + k_page, k_page, PROT_READ), 0);
    const std::array<std::byte, 4> bytes{std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};
    const auto at = reinterpret_cast<uint64_t>(memory);
    EXPECT_EQ(write_over({{at + 5, 2}, {at + k_page, 1}, {at + 9, 1}}, {&bytes[0], &bytes[2], &bytes[3]}), 0u);
    EXPECT_EQ(memory[5], 2);
    EXPECT_EQ(memory[6], 3);
    EXPECT_EQ(memory[k_page], 4);
    EXPECT_EQ(memory[9], 5);
    ASSERT_EQ(::munmap(memory + k_page, k_page), 0);
    EXPECT_EQ(write_over({{at + k_page, 1}, {at + 5, 1}}, {&bytes[0], &bytes[3]}), 1u);
    EXPECT_EQ(memory[5], 5);
    ::munmap(memory, k_page);
}

TEST(ForeignAccessTest, ReadsAsFarAsThereIsMemory_A7) {
    constexpr size_t k_page = 4096;
    auto* memory = static_cast<char*>(::mmap(nullptr, 2 * k_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    memory[k_page - 1] = 3;
    memory[k_page] = 4;
    const auto at = reinterpret_cast<uint64_t>(memory);
    std::array<std::byte, 2> found{};
    EXPECT_EQ(read_as_far({at + k_page - 1, 2}, found.data()), 2u);
    EXPECT_TRUE(found[0] == std::byte{3} && found[1] == std::byte{4});
    ASSERT_EQ(::mprotect(memory + k_page, k_page, PROT_NONE), 0);
    found = {};
    EXPECT_EQ(read_as_far({at + k_page - 1, 2}, found.data()), 1u);
    EXPECT_TRUE(found[0] == std::byte{3} && found[1] == std::byte{0});
    ::munmap(memory, 2 * k_page);
    EXPECT_EQ(read_as_far({at, 2}, found.data()), 0u);
}

}  // namespace
}  // namespace warpline::client
