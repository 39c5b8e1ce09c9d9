// Tests of a heap of addresses.
#include "client/state/range_heap.h"

#include <gtest/gtest.h>

#include <random>

namespace warpline::client {
namespace {

TEST(RangeHeap, gives_aligned_ranges_and_joins_what_comes_back) {
    RangeHeap heap;
    heap.add(0x1000, 0x1000);
    auto a = heap.take(0x10, 0x100);
    auto b = heap.take(0x10, 0x100);
    ASSERT_TRUE(a && b);
    EXPECT_EQ(*a % 0x100, 0u);
    EXPECT_EQ(*b % 0x100, 0u);
    EXPECT_NE(*a, *b);
    heap.give(*a, 0x10);
    auto whole = heap.give(*b, 0x10);
    EXPECT_EQ(whole.base, 0x1000u);
    EXPECT_EQ(whole.size_bytes, 0x1000u);
    EXPECT_EQ(heap.free_bytes(), 0x1000u);
}

TEST(RangeHeap, refuses_what_does_not_fit) {
    RangeHeap heap;
    heap.add(0x1008, 0x100);
    EXPECT_FALSE(heap.take(0x101, 1));
    EXPECT_FALSE(heap.take(0x100, 0x100)) << "large enough, but not at an aligned place";
    EXPECT_FALSE(heap.take(0, 1));
    EXPECT_FALSE(heap.take_at(0x1000, 0x10));
    EXPECT_FALSE(heap.take_at(0x1100, 0x10));
    EXPECT_FALSE(heap.take_at(0x1008, UINT64_MAX));
    EXPECT_TRUE(heap.take_at(0x1008, 0x100));
    EXPECT_EQ(heap.free_bytes(), 0u);
}

TEST(RangeHeap, keeps_ranges_apart_at_boundaries) {
    RangeHeap heap(0x1000);
    heap.add(0x1000, 0x1000);
    heap.add(0x2000, 0x1000);
    EXPECT_FALSE(heap.take(0x1800, 1)) << "no range lies in two blocks";
    EXPECT_TRUE(heap.take(0x1000, 1));
}

TEST(RangeHeap, never_gives_the_same_bytes_twice) {
    RangeHeap heap;
    heap.add(1 << 20, 1 << 20);
    std::mt19937 random(1);
    std::map<uint64_t, uint64_t> taken;
    for (int i = 0; i < 20000; ++i) {
        if (random() % 2 == 0 && !taken.empty()) {
            auto it = taken.lower_bound(random() % (2 << 20));
            if (it == taken.end()) it = taken.begin();
            heap.give(it->first, it->second);
            taken.erase(it);
            continue;
        }
        uint64_t size = random() % 5000 + 1, alignment = 1ull << (random() % 10);
        auto base = heap.take(size, alignment);
        if (!base) continue;
        ASSERT_EQ(*base % alignment, 0u);
        auto next = taken.lower_bound(*base);
        ASSERT_TRUE(next == taken.end() || *base + size <= next->first);
        if (next != taken.begin()) {
            auto before = std::prev(next);
            ASSERT_LE(before->first + before->second, *base);
        }
        taken.emplace(*base, size);
    }
    for (auto [base, size] : taken) heap.give(base, size);
    EXPECT_EQ(heap.free_bytes(), 1u << 20);
    EXPECT_TRUE(heap.take(1 << 20, 1));
}

}  // namespace
}  // namespace warpline::client
