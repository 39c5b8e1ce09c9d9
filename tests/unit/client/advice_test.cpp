// What was said of pieces of managed memory (A7).
#include "client/state/advice.h"

#include <gtest/gtest.h>

namespace warpline::client {
namespace {

constexpr uint64_t k_at = 0x300000000000;

TEST(Advice, IsRememberedByWholePages_A7) {
    Advice advice;
    advice.change(k_at + 5000, 10, [](Advice::Piece& piece) { piece.read_mostly = true; });
    const auto pieces = advice.read(k_at, 3 * 4096);
    ASSERT_EQ(pieces.size(), 3u);
    EXPECT_FALSE(pieces[0].read_mostly);
    EXPECT_TRUE(pieces[1].read_mostly);
    EXPECT_FALSE(pieces[2].read_mostly);
    EXPECT_EQ(advice.read(k_at + 4096, 4096).size(), 1u);
}

TEST(Advice, ChangesWhatWasSaidBefore_A7) {
    Advice advice;
    advice.change(k_at, 4 * 4096, [](Advice::Piece& piece) { piece.accessed_by.insert(0); });
    advice.change(k_at + 4096, 4096, [](Advice::Piece& piece) { piece.accessed_by.erase(0); });
    const auto pieces = advice.read(k_at, 4 * 4096);
    ASSERT_EQ(pieces.size(), 3u);
    EXPECT_TRUE(pieces[0].accessed_by.contains(0));
    EXPECT_TRUE(pieces[1].accessed_by.empty());
    EXPECT_TRUE(pieces[2].accessed_by.contains(0));
    advice.forget(k_at, 2 * 4096);
    EXPECT_TRUE(advice.read(k_at, 4096).front().accessed_by.empty());
    EXPECT_FALSE(advice.read(k_at + 2 * 4096, 4096).front().accessed_by.empty());
}

}  // namespace
}  // namespace warpline::client
