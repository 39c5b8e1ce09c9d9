// Which pages are whose, and what is written back (A7).
#include "client/managed/page_region.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csetjmp>
#include <csignal>
#include <cstring>
#include <vector>

#include "client/managed/faults.h"

namespace warpline::client {
namespace {

constexpr uint64_t k_page_bytes = 4096;

/// Addresses that nothing else in the process uses.
AddressRange reserve(uint64_t size_bytes) {
    void* got = ::mmap(nullptr, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(got, MAP_FAILED);
    return {reinterpret_cast<uint64_t>(got), size_bytes};
}

char* program(uint64_t address) { return reinterpret_cast<char*>(address); }

/// The base and size of each, relative to the region.
std::vector<std::pair<uint64_t, uint64_t>> relative(const PageRegion& region, const std::vector<AddressRange>& ranges) {
    std::vector<std::pair<uint64_t, uint64_t>> out;
    for (const AddressRange& range : ranges) out.emplace_back(range.base - region.range().base, range.size_bytes);
    return out;
}
using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;

class PageRegionTest : public testing::Test {
protected:
    std::shared_ptr<PageRegion> make(uint64_t pages, PageRegion::Options options = {}) {
        auto region = PageRegion::make(reserve(pages * k_page_bytes), options);
        EXPECT_NE(region, nullptr);
        m_base = region->range().base;
        return region;
    }
    uint64_t page(uint64_t index) const { return m_base + index * k_page_bytes; }
    uint64_t m_base = 0;
};

TEST_F(PageRegionTest, GivesTheDeviceOnlyPagesThatWereTouched_A7) {
    auto region = make(8);
    *program(page(2) + 5) = 1;
    *program(page(3)) = 1;
    *program(page(6)) = 1;
    EXPECT_EQ(relative(*region, region->hand_over(region->range())),
              (Pairs{{2 * k_page_bytes, 2 * k_page_bytes}, {6 * k_page_bytes, k_page_bytes}}));
    EXPECT_FALSE(region->any_valid_here());
    EXPECT_TRUE(region->must_wait({page(0), 1}));
    EXPECT_TRUE(region->hand_over(region->range()).empty());
}

TEST_F(PageRegionTest, WritesBackWhatWasMadeWritableAndNothingElse_A7) {
    auto region = make(8);
    (void)region->hand_over(region->range());
    std::memset(region->at(page(1)), 7, 3 * k_page_bytes);
    ASSERT_TRUE(region->fetched({page(1), 3 * k_page_bytes}, false));
    EXPECT_EQ(*program(page(2)), 7);
    EXPECT_FALSE(region->is_writable_here(page(2)));
    ASSERT_TRUE(region->make_writable({page(2), 1}));
    *program(page(2) + 9) = 8;
    EXPECT_EQ(relative(*region, region->missing(region->range())),
              (Pairs{{0, k_page_bytes}, {4 * k_page_bytes, 4 * k_page_bytes}}));
    *program(page(2) + 60) = 9;
    *program(page(2) + 600) = 10;
    EXPECT_EQ(relative(*region, region->hand_over(region->range())),
              (Pairs{{2 * k_page_bytes + 9, 52}, {2 * k_page_bytes + 600, 1}}));
    EXPECT_EQ(*reinterpret_cast<const char*>(region->at(page(2) + 9)), 8);
}

TEST_F(PageRegionTest, HandsOverOnlyThePagesThatARangeMeets_A7) {
    auto region = make(8);
    std::memset(program(page(0)), 1, 8 * k_page_bytes);
    EXPECT_EQ(relative(*region, region->hand_over({page(2) + 100, k_page_bytes})),
              (Pairs{{2 * k_page_bytes, 2 * k_page_bytes}}));
    EXPECT_TRUE(region->is_valid_here(page(1)));
    EXPECT_FALSE(region->is_valid_here(page(3)));
    EXPECT_TRUE(region->is_valid_here(page(4)));
}

TEST_F(PageRegionTest, WritesBackSingleBytesWhereBothSidesWrite_A7) {
    PageRegion::Options options;
    options.sharing = Sharing::concurrent;
    auto region = make(4, options);
    (void)region->hand_over(region->range());
    ASSERT_TRUE(region->fetched(region->range(), true));
    EXPECT_TRUE(region->has_busy_units());
    ASSERT_TRUE(region->make_writable({page(1), 1}));
    *program(page(1) + 70) = 1;
    *program(page(1) + 71) = 2;
    *program(page(1) + 4000) = 3;
    EXPECT_EQ(relative(*region, region->refresh(false)), (Pairs{{k_page_bytes + 70, 2}, {k_page_bytes + 4000, 1}}));
    EXPECT_FALSE(region->has_busy_units());
    EXPECT_FALSE(region->any_valid_here());
}

TEST_F(PageRegionTest, KeepsWhatIsAskedAboutAgainAndGivesTheRestBack_A7) {
    PageRegion::Options options;
    options.sharing = Sharing::concurrent;
    auto region = make(8, options);
    (void)region->hand_over(region->range());
    ASSERT_TRUE(region->fetched({page(0), 7 * k_page_bytes}, true));
    ASSERT_TRUE(region->make_writable({page(1), k_page_bytes}));
    ASSERT_TRUE(region->make_writable({page(4), k_page_bytes}));
    *program(page(1) + 5) = 1;
    *program(page(4) + 7) = 2;
    region->note_access(page(3));
    std::vector<AddressRange> kept;
    const auto changed = region->keep_beside(3 * k_page_bytes, kept);
    EXPECT_EQ(relative(*region, changed), (Pairs{{k_page_bytes + 5, 1}, {4 * k_page_bytes + 7, 1}}));
    EXPECT_EQ(relative(*region, kept), (Pairs{{3 * k_page_bytes, 3 * k_page_bytes}}));
    EXPECT_FALSE(region->is_valid_here(page(2)));
    EXPECT_FALSE(region->is_valid_here(page(6)));
    EXPECT_TRUE(region->is_valid_here(page(4)));
    EXPECT_FALSE(region->is_writable_here(page(4))) << "a change would not be what is asked about";
    EXPECT_EQ(*program(page(4) + 7), 2);
    EXPECT_TRUE(region->give_back({page(4), 1}).empty());
    EXPECT_FALSE(region->is_valid_here(page(4)));
    EXPECT_TRUE(region->is_valid_here(page(5)));
    EXPECT_EQ(relative(*region, region->not_here(region->range())),
              (Pairs{{0, 3 * k_page_bytes}, {4 * k_page_bytes, k_page_bytes}, {6 * k_page_bytes, 2 * k_page_bytes}}));
    kept.clear();
    EXPECT_TRUE(region->keep_beside(0, kept).empty());
    EXPECT_TRUE(kept.empty());
    EXPECT_FALSE(region->has_busy_units());
}

TEST_F(PageRegionTest, KnowsWhatWasGivenBackBecauseOfTheTime_A7) {
    auto region = make(4);
    (void)region->hand_over(region->range());
    EXPECT_FALSE(region->is_late(page(0)));
    ASSERT_TRUE(region->fetched({page(0), 2 * k_page_bytes}, true));
    EXPECT_TRUE(region->refresh(true).empty());
    EXPECT_TRUE(region->is_late(page(1)));
    EXPECT_FALSE(region->is_late(page(2)));
    EXPECT_TRUE(region->must_wait({page(1), 1}));
    ASSERT_TRUE(region->fetched({page(1), k_page_bytes}, true));
    EXPECT_FALSE(region->is_late(page(1)));
    EXPECT_TRUE(region->refresh(false).empty());
    EXPECT_FALSE(region->is_late(page(1)));
    (void)region->hand_over(region->range());
    EXPECT_FALSE(region->is_late(page(0))) << "the device has been given something since";
}

TEST_F(PageRegionTest, WritesWhatLiesBetweenChangesWhereNobodyElseWrites_A7) {
    PageRegion::Options options;
    options.sharing = Sharing::concurrent;
    auto region = make(1, options);
    const auto change = [&](bool still) {
        (void)region->hand_over(region->range());
        EXPECT_TRUE(region->fetched(region->range(), true));
        EXPECT_TRUE(region->make_writable(region->range()));
        for (const uint64_t at : {10, 20, 200}) ++*program(page(0) + at);
        region->note_still(still);
        const auto changed = relative(*region, region->refresh(false));
        region->note_still(false);
        return changed;
    };
    EXPECT_EQ(change(false), (Pairs{{10, 1}, {20, 1}, {200, 1}}));
    EXPECT_EQ(change(true), (Pairs{{10, 11}, {200, 1}}));
    EXPECT_EQ(change(false), (Pairs{{10, 1}, {20, 1}, {200, 1}}));
}

TEST_F(PageRegionTest, KeepsPagesReadableThatAreWrittenBack_A7) {
    auto region = make(2);
    *program(page(0)) = 4;
    EXPECT_EQ(relative(*region, region->write_back(region->range())), (Pairs{{0, k_page_bytes}}));
    EXPECT_EQ(*program(page(0)), 4);
    EXPECT_FALSE(region->is_writable_here(page(0)));
    EXPECT_TRUE(region->hand_over(region->range()).empty());
}

TEST_F(PageRegionTest, TouchesNothingBesideItsExtents_A7) {
    PageRegion::Options options;
    options.valid_here = false;
    auto region = make(4, options);
    region->add_extent({page(1) + 16, 8});
    region->add_extent({page(1) + 100, 4000});
    EXPECT_EQ(relative(*region, region->missing(region->range())), (Pairs{{k_page_bytes + 16, 8}, {k_page_bytes + 100, 4000}}));
    ASSERT_TRUE(region->fetched({page(1), 1}, false));
    ASSERT_TRUE(region->make_writable({page(1), 1}));
    std::memset(program(page(1)), 6, k_page_bytes);
    EXPECT_EQ(relative(*region, region->hand_over({page(1), 1})), (Pairs{{k_page_bytes + 16, 8}, {k_page_bytes + 100, 3996}}));
    region->remove_extent(page(1) + 16);
    EXPECT_EQ(relative(*region, region->missing(region->range())), (Pairs{{k_page_bytes + 100, 4000}}));
    // Without any, none of it is anybody's.
    region->remove_extent(page(1) + 100);
    EXPECT_EQ(relative(*region, region->missing(region->range())), Pairs{});
}

TEST_F(PageRegionTest, RecallsWhatTheProgramHasUsedAndSendsOnlyItsChanges_A7) {
    auto region = make(64);
    *program(page(3)) = 1;
    *program(page(9)) = 1;
    (void)region->hand_over(region->range());
    PageRegion::Room room, one_page{k_page_bytes, 0};
    EXPECT_TRUE(region->misses_used());
    EXPECT_EQ(relative(*region, region->used_before(room)),
              (Pairs{{3 * k_page_bytes, k_page_bytes}, {9 * k_page_bytes, k_page_bytes}}));
    EXPECT_EQ(relative(*region, region->used_before(one_page)), (Pairs{{3 * k_page_bytes, k_page_bytes}}));
    for (const uint64_t index : {3, 9}) {
        ASSERT_TRUE(region->fetched({page(index), 1}, false));
        ASSERT_TRUE(region->recalled({page(index), 1}));
    }
    *program(page(9) + 8) = 5;
    EXPECT_FALSE(region->misses_used());
    EXPECT_TRUE(region->used_before(room).empty());
    EXPECT_EQ(relative(*region, region->hand_over(region->range())), (Pairs{{9 * k_page_bytes + 8, 1}}));
}

TEST_F(PageRegionTest, RecallsLittleOfWhatIsNotUsedAgain_A7) {
    auto region = make(64);
    std::memset(program(page(0)), 1, 16 * k_page_bytes);
    (void)region->hand_over(region->range());
    const auto recalled_pages = [&] {
        PageRegion::Room room;
        uint64_t bytes = 0;
        for (const AddressRange& range : region->used_before(room)) {
            bytes += range.size_bytes;
            EXPECT_TRUE(region->fetched(range, false) && region->recalled(range));
        }
        return bytes / k_page_bytes;
    };
    EXPECT_EQ(recalled_pages(), 16u);
    for (int round = 0; round < 100; ++round) {
        (void)region->hand_over(region->range());
        (void)recalled_pages();
    }
    (void)region->hand_over(region->range());
    EXPECT_EQ(recalled_pages(), 2u);
    *program(page(1)) = 7;  // it is used again after all
    (void)region->hand_over(region->range());
    EXPECT_EQ(recalled_pages(), 3u);
}

TEST_F(PageRegionTest, KeepsWhatTheProgramHasChangedSinceBytesWereAskedFor_A7) {
    PageRegion::Options options;
    options.sharing = Sharing::concurrent;
    auto region = make(4, options);
    std::memset(program(page(0)), 1, k_page_bytes);
    (void)region->hand_over(region->range());
    ASSERT_TRUE(region->fetched({page(0), 1}, false) && region->recalled({page(0), 1}));
    *program(page(0) + 1) = 2;
    PageRegion::Room room;
    uint64_t ask = 0;
    ASSERT_EQ(relative(*region, region->asked_along(room, true, ask)), (Pairs{{0, k_page_bytes}}));
    const uint64_t arrivals = region->arrivals();
    *program(page(0) + 2) = 3;
    EXPECT_EQ(relative(*region, region->hand_over(region->range())), (Pairs{{1, 2}}));
    Bytes device(k_page_bytes, std::byte{1});
    device[3] = std::byte{4};
    EXPECT_EQ(region->arrivals(), arrivals);
    ASSERT_TRUE(region->arrived({page(0), k_page_bytes}, device, ask, true));
    const char* const seen = program(page(0));
    EXPECT_EQ((std::vector<int>{seen[0], seen[1], seen[2], seen[3], seen[4]}), (std::vector<int>{1, 2, 3, 4, 1}));
    EXPECT_NE(region->arrivals(), arrivals);
    // What was asked for afterwards knows of the changes.
    (void)region->refresh(false);
    ASSERT_FALSE(region->asked_along(room, false, ask).empty());
    device[1] = std::byte{9};
    ASSERT_TRUE(region->arrived({page(0), k_page_bytes}, device, ask, false));
    EXPECT_EQ(seen[1], 9);
    *program(page(0) + 5) = 6;
    EXPECT_EQ(relative(*region, region->hand_over(region->range())), (Pairs{{5, 1}}));
}

TEST_F(PageRegionTest, HoldsWhatWasReadAheadUntilTheDeviceIsGivenSomething_A7) {
    auto region = make(8);
    std::memset(program(page(0)), 1, 8 * k_page_bytes);
    (void)region->hand_over(region->range());
    std::memset(region->at(page(2)), 5, 2 * k_page_bytes);
    region->hold({page(2), 2 * k_page_bytes});
    EXPECT_FALSE(region->is_valid_here(page(2)));
    region->take_held(page(4));
    EXPECT_FALSE(region->any_valid_here());
    region->take_held(page(3));
    EXPECT_EQ(*program(page(2)), 5);
    (void)region->hand_over(region->range());
    region->hold({page(2), 2 * k_page_bytes});
    region->outdate();
    region->take_held(page(2));
    EXPECT_FALSE(region->any_valid_here());
}

TEST_F(PageRegionTest, SendsNothingElseOnceBothSidesWrite_A7) {
    auto region = make(2);
    (void)region->hand_over(region->range());
    ASSERT_TRUE(region->fetched(region->range(), false));
    ASSERT_TRUE(region->make_writable({page(0), 1}));
    *program(page(0) + 3) = 1;
    *program(page(0) + 5) = 1;
    region->share();
    EXPECT_EQ(relative(*region, region->hand_over(region->range())), (Pairs{{3, 1}, {5, 1}}));
    EXPECT_FALSE(region->must_wait({page(0), 1}));
}

TEST_F(PageRegionTest, LeavesTheAddressesReserved_A7) {
    auto region = make(2);
    *program(page(0)) = 1;
    const auto base = reinterpret_cast<void*>(region->range().base);
    region.reset();
    void* got = ::mmap(base, k_page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    EXPECT_TRUE(got == MAP_FAILED);
}

/// Somebody is fetching its pages while it goes, and its addresses are another one's by then.
TEST_F(PageRegionTest, LeavesTheAddressesAloneOnceItIsWithdrawn_A7) {
    auto region = make(2);
    *program(page(0)) = 1;
    (void)region->hand_over(region->range());
    region->withdraw();
    auto next = PageRegion::make(region->range(), {});
    ASSERT_NE(next, nullptr);
    *program(page(0)) = 2;
    EXPECT_TRUE(region->fetched(region->range(), false));
    *program(page(1)) = 3;  // it can be written as before
    region.reset();
    EXPECT_EQ(*program(page(0)), 2);
    EXPECT_EQ(*program(page(1)), 3);
}

TEST_F(PageRegionTest, TakesLargerUnitsForLargeMemory_A7) {
    auto region = make((uint64_t{1} << 30) / k_page_bytes);
    EXPECT_EQ(region->unit_bytes(), 64u << 10);
    *program(page(20)) = 1;
    const auto changed = region->hand_over(region->range());
    EXPECT_EQ(relative(*region, changed), (Pairs{{20 * k_page_bytes, k_page_bytes}}));
}

sigjmp_buf g_jump;
void jump_back(int) { siglongjmp(g_jump, 1); }

/// What is none of ours is the program's, whose handler was there first.
TEST(Faults, GoToTheProgramsHandlerWhereTheyAreNotOurs_A7) {
    struct sigaction before {};
    struct sigaction ours {};
    ours.sa_handler = jump_back;
    ASSERT_EQ(::sigaction(SIGSEGV, &ours, &before), 0);
    faults::install();
    const AddressRange range = reserve(k_page_bytes);
    for (int i = 0; i < 2; ++i) {
        if (sigsetjmp(g_jump, 1) == 0) {
            *reinterpret_cast<volatile char*>(range.base) = 1;
            FAIL() << "a store to memory without access went through";
        }
    }
    ASSERT_EQ(::sigaction(SIGSEGV, &before, nullptr), 0);
}

}  // namespace
}  // namespace warpline::client
