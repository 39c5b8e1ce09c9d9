// Whether anything but one stream may be at work (A7).
#include "client/managed/given_work.h"

#include <gtest/gtest.h>

namespace warpline::client {
namespace {

constexpr uint64_t k_one = 30, k_elsewhere = 40;
constexpr auto k_nothing = [](uint64_t) { return uint64_t{0}; };

TEST(GivenWorkTest, KnowsTheWorkOfOtherStreams_A7) {
    GivenWork given;
    EXPECT_TRUE(given.is_done_beside(k_one, 0, k_nothing));
    given.note(k_one, 5);
    EXPECT_TRUE(given.is_done_beside(k_one, 0, k_nothing));
    EXPECT_FALSE(given.is_done_beside(k_elsewhere, 0, k_nothing));
    given.note(k_elsewhere, 7);
    EXPECT_FALSE(given.is_done_beside(k_one, 7, k_nothing));
    const auto told = [](uint64_t stream) { return stream == k_elsewhere ? uint64_t{7} : uint64_t{0}; };
    EXPECT_TRUE(given.is_done_beside(k_one, 0, told)) << "that stream has been waited for";
    EXPECT_TRUE(given.is_done_beside(k_one, 8, k_nothing)) << "all have been";
    given.note(k_elsewhere, 9);
    EXPECT_FALSE(given.is_done_beside(k_one, 8, told));
}

TEST(GivenWorkTest, TakesWorkOfAnUnknownStreamForEveryOnes_A7) {
    GivenWork given;
    given.note(std::nullopt, 3);
    EXPECT_FALSE(given.is_done_beside(k_one, 3, k_nothing));
    EXPECT_TRUE(given.is_done_beside(k_one, 4, k_nothing));
}

TEST(GivenWorkTest, TakesTheWorkOfTooManyStreamsForEveryOnes_A7) {
    GivenWork given;
    for (uint64_t stream = 1000; stream < 2000; ++stream) given.note(stream, stream);
    EXPECT_FALSE(given.is_done_beside(k_one, 1999, k_nothing));
    EXPECT_TRUE(given.is_done_beside(k_one, 2000, k_nothing));
    given.note(k_one, 2001);
    EXPECT_TRUE(given.is_done_beside(k_one, 2000, k_nothing)) << "those that are done have left room";
}

}  // namespace
}  // namespace warpline::client
