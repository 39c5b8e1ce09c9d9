// How long a lost connection is tried to be replaced, and in which rhythm (C2).
#include "client/session/attempts.h"

#include <gtest/gtest.h>

#include <climits>

namespace warpline::client {
namespace {

using namespace std::chrono_literals;

TEST(Attempts, C2_EachMayTakeTwiceAsLongAsTheOneBefore) {
    EXPECT_EQ(patience_of(0), 1500ms);
    for (unsigned attempt = 1; attempt <= 6; ++attempt)
        EXPECT_EQ(patience_of(attempt), patience_of(attempt - 1) * 2) << attempt;
    EXPECT_EQ(patience_of(7), patience_of(6));
    EXPECT_EQ(patience_of(UINT_MAX), 96s);
}

TEST(Attempts, C2_TheFirstTwoFitIntoTheTimeThatAServerKeepsASessionInDoubt) {
    constexpr auto k_first_pause = 100ms;
    EXPECT_LT(patience_of(0) + longest_pause_after(0, k_first_pause, 5s) + patience_of(1), 5s);
}

TEST(Attempts, C2_PausesDoubleUpToTheLongest) {
    EXPECT_EQ(longest_pause_after(0, 100ms, 5s), 100ms);
    EXPECT_EQ(longest_pause_after(3, 100ms, 5s), 800ms);
    EXPECT_EQ(longest_pause_after(6, 100ms, 5s), 5s);
    EXPECT_EQ(longest_pause_after(UINT_MAX, 100ms, 5s), 5s);
    EXPECT_EQ(longest_pause_after(UINT_MAX, 0ms, 5s), 0ms);
}

}  // namespace
}  // namespace warpline::client
