// Tests of the heap, and of random allocations in it.
#include "softgpu/driver/space/heap.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace warpline::softgpu::driver {
namespace {

/// Addresses without memory: the heap never touches what it gives out.
class FakeSource final : public ChunkSource {
public:
    uint64_t take_chunk(uint64_t size_bytes) override {
        if (taken_bytes + size_bytes > limit_bytes) return 0;
        taken_bytes += size_bytes;
        uint64_t address = m_next;
        m_next += size_bytes;
        chunks[address] = size_bytes;
        return address;
    }
    void give_chunk(uint64_t address, uint64_t size_bytes) override {
        ASSERT_EQ(chunks[address], size_bytes);
        chunks.erase(address);
        taken_bytes -= size_bytes;
    }

    std::map<uint64_t, uint64_t> chunks;
    uint64_t taken_bytes = 0;
    uint64_t limit_bytes = uint64_t{1} << 40;

private:
    uint64_t m_next = k_chunk_bytes * 16;
};

TEST(HeapTest, SmallAllocationsShareAChunkAndAreAligned) {
    FakeSource source;
    Heap heap(source);
    uint64_t a = heap.allocate(1), b = heap.allocate(1000), c = heap.allocate(512);
    EXPECT_EQ(source.chunks.size(), 1u);
    for (uint64_t address : {a, b, c}) EXPECT_EQ(address % 512, 0u);
    EXPECT_EQ(heap.used_bytes(), 512u + 1024u + 512u);
    EXPECT_EQ(heap.reserved_bytes(), k_chunk_bytes);
}

TEST(HeapTest, LargeAllocationsAreWholeChunks) {
    FakeSource source;
    Heap heap(source);
    uint64_t a = heap.allocate(5 * k_chunk_bytes + 1);
    EXPECT_EQ(source.chunks[a], 6 * k_chunk_bytes);
    heap.free(a, 0);
    EXPECT_TRUE(source.chunks.empty());
}

TEST(HeapTest, SaysWhenTheDeviceIsFull) {
    FakeSource source;
    source.limit_bytes = 2 * k_chunk_bytes;
    Heap heap(source);
    EXPECT_NE(heap.allocate(2 * k_chunk_bytes), 0u);
    EXPECT_EQ(heap.allocate(1), 0u);
    EXPECT_EQ(heap.allocate(UINT64_MAX), 0u);
    EXPECT_EQ(heap.allocate(UINT64_MAX - 511), 0u);
}

TEST(HeapTest, FreedNeighboursJoin) {
    FakeSource source;
    Heap heap(source);
    uint64_t a = heap.allocate(1 << 19), b = heap.allocate(1 << 19), c = heap.allocate(1 << 19), d = heap.allocate(1 << 19);
    heap.free(a, UINT64_MAX);
    heap.free(c, UINT64_MAX);
    heap.free(b, UINT64_MAX);
    EXPECT_EQ(heap.allocate(3 << 19), a);
    (void)d;
    EXPECT_EQ(source.chunks.size(), 1u);
}

TEST(HeapTest, TrimGivesBackEmptyChunksOnly) {
    FakeSource source;
    Heap heap(source);
    uint64_t small = heap.allocate(100), large = heap.allocate(4 * k_chunk_bytes);
    heap.free(large, UINT64_MAX);
    EXPECT_EQ(heap.reserved_bytes(), 5 * k_chunk_bytes);
    heap.trim(0);
    EXPECT_EQ(heap.reserved_bytes(), k_chunk_bytes);
    heap.free(small, UINT64_MAX);
    heap.trim(0);
    EXPECT_EQ(heap.reserved_bytes(), 0u);
    EXPECT_TRUE(source.chunks.empty());
}

TEST(HeapTest, WhatIsFreedInASharedChunkIsNotAllocatedAgain) {
    FakeSource source;
    Heap heap(source);
    uint64_t first = heap.allocate(1024), second = heap.allocate(1024), chunk = 0, bytes = 0;
    EXPECT_FALSE(heap.share(first + 512, &chunk, &bytes));
    ASSERT_TRUE(heap.share(second, &chunk, &bytes));
    EXPECT_EQ(chunk, first);
    EXPECT_EQ(bytes, k_chunk_bytes);
    heap.free(first, UINT64_MAX);
    heap.trim(0);
    uint64_t third = heap.allocate(1024);
    EXPECT_EQ(third, second + 1024);  // what was never used may be
    heap.free(second, UINT64_MAX);
    EXPECT_EQ(source.chunks.size(), 1u);
    // The last one takes the chunk with it, whatever is to be kept.
    heap.free(third, UINT64_MAX);
    EXPECT_TRUE(source.chunks.empty());
    EXPECT_EQ(heap.reserved_bytes(), 0u);
    EXPECT_NE(heap.allocate(1024), 0u);
    EXPECT_EQ(source.chunks.size(), 1u);
}

TEST(HeapTest, RandomUseNeverOverlapsAndEndsEmpty) {
    FakeSource source;
    Heap heap(source);
    std::mt19937_64 random(7);
    std::map<uint64_t, uint64_t> live;
    for (int i = 0; i < 20000; ++i) {
        if (live.size() < 200 && random() % 3 != 0) {
            uint64_t bytes = 1 + random() % (random() % 20 == 0 ? 9 * k_chunk_bytes : 50000);
            uint64_t address = heap.allocate(bytes);
            ASSERT_NE(address, 0u);
            uint64_t chunk = 0, chunk_bytes = 0;
            if (random() % 50 == 0) {
                EXPECT_TRUE(heap.share(address, &chunk, &chunk_bytes));
            }
            auto next = live.lower_bound(address);
            if (next != live.end()) {
                ASSERT_LE(address + bytes, next->first);
            }
            if (next != live.begin()) {
                ASSERT_LE(std::prev(next)->first + std::prev(next)->second, address);
            }
            live[address] = bytes;
        } else if (!live.empty()) {
            auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
            heap.free(victim->first, random() % 2 == 0 ? 0 : UINT64_MAX);
            live.erase(victim);
        }
    }
    for (auto [address, bytes] : live) heap.free(address, 0);
    heap.trim(0);
    EXPECT_EQ(heap.used_bytes(), 0u);
    EXPECT_EQ(source.taken_bytes, 0u);
}

}  // namespace
}  // namespace warpline::softgpu::driver
