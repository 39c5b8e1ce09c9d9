// In which order a program comes to memory (A7).
#include "client/managed/succession.h"

#include "client/managed/parts_used.h"
#include "client/managed/refresh_pace.h"

#include <gtest/gtest.h>

namespace warpline::client {
namespace {

TEST(SuccessionTest, LearnsWhatFollowsAndForgetsWhatDoesNot_A7) {
    Succession succession;
    for (const uint64_t region : {100, 300, 200}) succession.came_to(region, region + 5, false);
    EXPECT_EQ(succession.next(100), 305u);
    EXPECT_EQ(succession.next(300), 205u);
    EXPECT_EQ(succession.next(200), std::nullopt);
    for (const uint64_t region : {100, 300, 200}) succession.came_to(region, region + 7, false);
    EXPECT_EQ(succession.next(200), 107u);
    EXPECT_EQ(succession.next(100), 307u);
    // What has come twice is not forgotten for one exception.
    for (const uint64_t region : {100, 400, 100}) succession.came_to(region, region, false);
    EXPECT_EQ(succession.next(100), 307u);
    for (const uint64_t region : {400, 100, 400}) succession.came_to(region, region, false);
    EXPECT_EQ(succession.next(100), 400u);
}

TEST(SuccessionTest, SeesThatAProgramGoesFromNeighbourToNeighbour_A7) {
    Succession succession;
    succession.came_to(100, 100, false);
    succession.came_to(200, 200, true);
    EXPECT_FALSE(succession.goes_on());
    succession.came_to(200, 230, false);
    succession.came_to(300, 300, true);
    EXPECT_TRUE(succession.goes_on());
    succession.came_to(100, 100, false);
    EXPECT_FALSE(succession.goes_on());
}

TEST(PartsUsedTest, LearnsThatOnePartOfEachIsUsed_A7) {
    constexpr uint64_t k_part = PartsUsed::k_part_bytes;
    PartsUsed parts;
    const auto come_to = [&parts](uint64_t region, uint64_t offset, bool misses_rest, uint64_t brought) {
        parts.came_to(region, offset, misses_rest);
        parts.brought(brought);
    };
    come_to(1, 3 * k_part + 5, false, k_part);
    come_to(2, 3 * k_part, true, 4 * k_part);
    EXPECT_FALSE(parts.is_regular());
    come_to(3, 3 * k_part + 8, true, 2 * k_part);
    EXPECT_TRUE(parts.is_regular());
    EXPECT_TRUE(parts.is_first());
    EXPECT_EQ(parts.offset(), 3 * k_part);
    EXPECT_EQ(parts.part_bytes(), k_part);
    // One of which one part is not enough.
    come_to(4, 3 * k_part, true, k_part);
    come_to(4, 4 * k_part, true, 2 * k_part);
    EXPECT_FALSE(parts.is_first());
    come_to(5, 3 * k_part, true, 2 * k_part);
    EXPECT_FALSE(parts.is_regular());
    come_to(6, 3 * k_part, true, 3 * k_part);
    EXPECT_FALSE(parts.is_regular());
    come_to(7, 3 * k_part, true, 3 * k_part);
    EXPECT_TRUE(parts.is_regular());
    EXPECT_EQ(parts.part_bytes(), 2 * k_part);
    // Another place, and one that is here as a whole.
    come_to(8, 0, true, k_part);
    EXPECT_FALSE(parts.is_regular());
    come_to(9, 0, true, k_part);
    come_to(10, 0, true, k_part);
    EXPECT_TRUE(parts.is_regular());
    come_to(11, 0, false, k_part);
    EXPECT_FALSE(parts.is_regular());
}

TEST(RefreshPaceTest, IsQuickWhileSidesAnswerEachOther_A7) {
    RefreshPace pace;
    EXPECT_EQ(pace.pause(), RefreshPace::k_slow);
    pace.note_change();
    pace.end_turn();
    for (uint64_t turn = 0; turn < RefreshPace::k_patience; ++turn) {
        EXPECT_EQ(pace.pause(), RefreshPace::k_quick);
        pace.end_turn();
    }
    EXPECT_EQ(pace.pause(), RefreshPace::k_slow);
}

}  // namespace
}  // namespace warpline::client
