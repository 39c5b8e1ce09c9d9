// Tests of addresses that the client gives out, and of the memory credit.
#include "client/state/device_memory.h"

#include <gtest/gtest.h>

#include "client/state/freed_memory.h"
#include "client/state/graph_memory.h"
#include "client/state/pool_heap.h"

namespace warpline::client {
namespace {

constexpr uint64_t k_base = 0x300000000000;
constexpr uint64_t k_block = DeviceMemory::k_block_bytes;

DeviceRange range_at(uint64_t base, uint64_t size, MemoryKind kind = MemoryKind::device) {
    DeviceRange range;
    range.base = base;
    range.size_bytes = size;
    range.capacity_bytes = DeviceMemory::rounded(size);
    range.kind = kind;
    return range;
}

struct DeviceMemoryTest : testing::Test {
    DeviceMemory memory;
    void SetUp() override { memory.set_window(k_base, 64 * k_block); }

    uint64_t allocate(uint64_t size) {
        if (auto piece = memory.try_allocate(0, size)) return *piece;
        auto block = memory.take_block(size);
        if (!block) return 0;
        ++blocks_mapped;
        if (size > DeviceMemory::k_small_bytes) return block->base;
        memory.add_block(0, *block);
        return memory.try_allocate(0, size).value_or(0);
    }
    void free(uint64_t base, uint64_t size) {
        if (auto block = memory.release(0, base, DeviceMemory::rounded(size))) {
            ++blocks_unmapped;
            memory.return_block(*block);
        }
    }
    int blocks_mapped = 0;
    int blocks_unmapped = 0;
};

TEST_F(DeviceMemoryTest, small_pieces_share_a_block) {
    uint64_t a = allocate(1), b = allocate(1000), c = allocate(100000);
    EXPECT_EQ(blocks_mapped, 1);
    EXPECT_EQ(a % DeviceMemory::k_alignment, 0u);
    EXPECT_EQ(b % DeviceMemory::k_alignment, 0u);
    EXPECT_TRUE(memory.in_window(a) && memory.in_window(b) && memory.in_window(c));
    EXPECT_NE(a, b);
}

TEST_F(DeviceMemoryTest, large_pieces_have_blocks_of_their_own) {
    uint64_t a = allocate(3 * k_block + 1);
    EXPECT_EQ(a % k_block, 0u);
    EXPECT_EQ(blocks_mapped, 1);
    free(a, 3 * k_block + 1);
    EXPECT_EQ(blocks_unmapped, 1);
    EXPECT_NE(allocate(60 * k_block), 0u) << "the addresses are free again";
}

TEST_F(DeviceMemoryTest, keeps_one_free_block_and_gives_the_others_back) {
    std::vector<uint64_t> pieces;
    for (int i = 0; i < 8; ++i) pieces.push_back(allocate(1 << 20));
    EXPECT_EQ(blocks_mapped, 4);
    for (uint64_t piece : pieces) free(piece, 1 << 20);
    EXPECT_EQ(blocks_unmapped, 3);
    for (int i = 0; i < 10; ++i) free(allocate(5000), 5000);
    EXPECT_EQ(blocks_mapped, 4) << "allocating and freeing in turn maps nothing";
    EXPECT_EQ(blocks_unmapped, 3);
}

TEST_F(DeviceMemoryTest, is_exhausted_without_harm) {
    EXPECT_EQ(allocate(65 * k_block), 0u);
    EXPECT_EQ(allocate(UINT64_MAX - 5), 0u);
    EXPECT_NE(allocate(64 * k_block), 0u);
    EXPECT_EQ(allocate(1), 0u);
}

TEST_F(DeviceMemoryTest, knows_ranges_by_any_of_their_addresses) {
    memory.register_range(range_at(k_base + 0x1000, 0x100));
    EXPECT_FALSE(memory.find(k_base + 0xfff));
    ASSERT_TRUE(memory.find(k_base + 0x10ff));
    EXPECT_EQ(memory.find(k_base + 0x10ff)->base, k_base + 0x1000);
    EXPECT_FALSE(memory.find(k_base + 0x1100));
    EXPECT_TRUE(memory.contains(k_base + 0x1000, 0x100));
    EXPECT_FALSE(memory.contains(k_base + 0x1000, 0x101));
    EXPECT_FALSE(memory.contains(k_base + 0x10ff, UINT64_MAX));
    EXPECT_FALSE(memory.forget(k_base + 0x1001, MemoryKind::device));
    EXPECT_FALSE(memory.forget(k_base + 0x1000, MemoryKind::global));
    EXPECT_TRUE(memory.forget(k_base + 0x1000, MemoryKind::device));
    EXPECT_FALSE(memory.find(k_base + 0x1000));
}

TEST_F(DeviceMemoryTest, mapped_ranges_that_touch_are_one_for_copies) {
    auto base = memory.reserve(4 * k_block, 0, 0);
    ASSERT_TRUE(base);
    memory.register_range(range_at(*base, k_block, MemoryKind::mapped));
    memory.register_range(range_at(*base + k_block, k_block, MemoryKind::mapped));
    memory.register_range(range_at(*base + 3 * k_block, k_block, MemoryKind::mapped));
    EXPECT_TRUE(memory.contains(*base + 1, 2 * k_block - 1));
    EXPECT_FALSE(memory.contains(*base, 3 * k_block));
    EXPECT_FALSE(memory.unreserve(*base, 4 * k_block)) << "something is mapped";
    EXPECT_FALSE(memory.is_vacant(*base + k_block / 2, 1)) << "in the middle of one";
    EXPECT_FALSE(memory.is_vacant(*base + 2 * k_block, k_block + 1)) << "up to the next one and into it";
    EXPECT_TRUE(memory.is_vacant(*base + 2 * k_block, k_block)) << "just between two";
    EXPECT_TRUE(memory.forget_mapped(*base, k_block + 1).empty());
    EXPECT_EQ(memory.mapped_in(*base, 2 * k_block).size(), 2u);
    EXPECT_EQ(memory.forget_mapped(*base, 2 * k_block).size(), 2u);
    EXPECT_TRUE(memory.mapped_in(*base, 2 * k_block).empty());
    EXPECT_EQ(memory.forget_mapped(*base + 3 * k_block, k_block).size(), 1u);
    EXPECT_FALSE(memory.unreserve(*base, k_block));
    EXPECT_TRUE(memory.unreserve(*base, 4 * k_block));
}

TEST_F(DeviceMemoryTest, honours_a_hint_that_is_free) {
    auto first = memory.reserve(k_block, 0, k_base + 8 * k_block);
    auto second = memory.reserve(k_block, 0, k_base + 8 * k_block);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(*first, k_base + 8 * k_block);
    EXPECT_NE(*second, *first);
}

TEST(PoolHeap, the_same_stream_has_freed_memory_at_once_and_others_after_waiting) {
    PoolHeap heap;
    auto mine = PoolHeap::key(100, 7, 1), other = PoolHeap::key(101, 7, 1);
    DeviceRange range = range_at(k_base, 4096);
    range.owner = 3;
    heap.give(mine, range);
    EXPECT_FALSE(heap.take(other, 3, 4096));
    EXPECT_FALSE(heap.take(mine, 4, 4096)) << "another pool";
    EXPECT_FALSE(heap.take(mine, 3, 100)) << "much too large for it";
    EXPECT_FALSE(heap.take(mine, 3, 5000)) << "too small for it";
    ASSERT_TRUE(heap.take(mine, 3, 4000));
    EXPECT_FALSE(heap.take(mine, 3, 4000));
    heap.give(mine, range);
    uint64_t mark = heap.mark();
    heap.give(mine, range_at(k_base + 8192, 4096));  // after the wait had begun
    EXPECT_TRUE(heap.settled(other, mark).empty());
    auto free = heap.settled(mine, mark);
    ASSERT_EQ(free.size(), 1u);
    EXPECT_EQ(free[0].base, k_base);
    EXPECT_EQ(heap.context_settled(8, heap.mark()).size(), 0u);
    EXPECT_EQ(heap.context_settled(7, heap.mark()).size(), 1u);
}

TEST(PoolHeap, what_a_pool_keeps_is_for_every_stream_of_a_context) {
    PoolHeap heap;
    const auto any = [](const DeviceRange&) { return true; };
    for (uint64_t i = 0; i < 4; ++i) {
        DeviceRange range = range_at(k_base + i * k_block, (i + 1) * 4096);
        range.owner = i == 3 ? 6 : 5;
        range.context = 7;
        heap.keep(range);
    }
    EXPECT_TRUE(heap.keeps_any());
    EXPECT_FALSE(heap.take_kept(5, 8, 4096)) << "another context";
    EXPECT_FALSE(heap.take_kept(4, 7, 4096)) << "another pool";
    EXPECT_FALSE(heap.take_kept(5, 7, 100)) << "much too large for it";
    auto best = heap.take_kept(5, 7, 8000);
    ASSERT_TRUE(best);
    EXPECT_EQ(best->base, k_base + k_block);
    auto dropped = heap.drop_kept(1, [](const DeviceRange& range) { return range.owner == 5; });
    ASSERT_EQ(dropped.size(), 1u);
    EXPECT_EQ(dropped[0].base, k_base + 2 * k_block) << "the largest first";
    EXPECT_EQ(heap.drop_kept(UINT64_MAX, any).size(), 2u);
    EXPECT_FALSE(heap.keeps_any());
    EXPECT_TRUE(heap.drop_kept(UINT64_MAX, any).empty());
}

TEST(PoolHeap, special_streams_differ_by_thread_and_context) {
    EXPECT_EQ(PoolHeap::key(0, 7, 1), PoolHeap::key(1, 7, 2));  // the legacy stream by its two names
    EXPECT_NE(PoolHeap::key(2, 7, 1), PoolHeap::key(2, 7, 2));
    EXPECT_NE(PoolHeap::key(0, 7, 1), PoolHeap::key(0, 8, 1));
}

TEST(FreedMemory, B8_is_nobodys_until_the_device_has_done_with_it) {
    FreedMemory freed;
    EXPECT_TRUE(freed.take(UINT64_MAX - 1).empty());
    freed.put(9, RangeHeap::Range{k_base, k_block});
    freed.put(5, range_at(k_base + k_block, 256));
    EXPECT_TRUE(freed.take(4).empty());
    const auto over = freed.take(8);
    ASSERT_EQ(over.size(), 1u);
    EXPECT_EQ(std::get<DeviceRange>(over[0]).base, k_base + k_block);
    EXPECT_TRUE(freed.take(8).empty());
    EXPECT_EQ(freed.take(9).size(), 1u);
    EXPECT_TRUE(freed.take(UINT64_MAX - 1).empty());
}

/// Memory of a graph, at an address of the driver's.
DeviceRange graph_range(uint64_t base, uint64_t size) {
    DeviceRange range = range_at(base, size, MemoryKind::global);
    range.owner = 1;
    return range;
}

TEST_F(DeviceMemoryTest, AddressesOfGraphsAreKnownWhileAGraphHasThem_A6) {
    GraphMemory graphs(memory);
    GraphAddress of_graph = graphs.know(graph_range(0x5000, 0x100)), of_exec = of_graph;
    of_graph.reset();
    EXPECT_TRUE(memory.find(0x50ff));
    of_exec.reset();
    EXPECT_FALSE(memory.find(0x5000));
}

TEST_F(DeviceMemoryTest, WhatALaunchHasLeftIsKnownUntilItIsFreed_A6) {
    GraphMemory graphs(memory);
    GraphAddress address = graphs.know(graph_range(0x5000, 0x100));
    MemoryNodes nodes;
    nodes.allocate(address);
    EXPECT_FALSE(graphs.is_there(0x5000));
    EXPECT_TRUE(graphs.launch(nodes));
    EXPECT_TRUE(graphs.is_there(0x5000));
    EXPECT_FALSE(graphs.launch(nodes)) << "it is there still";
    address.reset();
    nodes.addresses.clear();
    EXPECT_TRUE(memory.find(0x5000));
    graphs.free({0x5000});
    EXPECT_FALSE(memory.find(0x5000));
    EXPECT_FALSE(graphs.is_there(0x5000));
}

TEST_F(DeviceMemoryTest, AnAddressThatTheDriverGivesAnewIsTheNewRanges_A6) {
    GraphMemory graphs(memory);
    std::vector<GraphAddress> small;
    for (uint64_t i = 0; i < 4; ++i) small.push_back(graphs.know(graph_range(0x5000 + 0x100 * i, 0x100)));
    const GraphAddress large = graphs.know(graph_range(0x5080, 0x200));
    EXPECT_EQ(memory.find(0x517f)->base, 0x5080u);
    EXPECT_EQ(memory.find(0x517f)->size_bytes, 0x200u);
    EXPECT_FALSE(memory.find(0x5000)) << "its second half is another one's";
    EXPECT_TRUE(memory.find(0x5300));
    // The end of the old ones is not the new one's, also of one at the same address.
    const GraphAddress again = graphs.know(graph_range(0x5300, 0x80));
    small.clear();
    EXPECT_EQ(memory.find(0x5300)->size_bytes, 0x80u);
    EXPECT_EQ(memory.find(0x5200)->base, 0x5080u);
}

}  // namespace
}  // namespace warpline::client
