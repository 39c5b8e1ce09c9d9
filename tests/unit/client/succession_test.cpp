// In which order a program comes to memory (A7).
#include "client/managed/succession.h"

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
