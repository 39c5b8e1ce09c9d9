// What a function of the program's gets with each access (A7).
#include "client/managed/function_window.h"

#include <gtest/gtest.h>

namespace warpline::client {
namespace {

constexpr uint64_t k_unit = 4096, k_kib = 1024, k_mib = 1024 * k_kib;

class FunctionWindowTest : public testing::Test {
protected:
    FunctionWindowTest() { m_window.begin(1); }
    /// Where what the access brings begins and ends, in the region.
    std::pair<uint64_t, uint64_t> access(AddressRange region, uint64_t offset, bool steady = true) {
        const auto choice = m_window.choose(region, k_unit, region.base + offset);
        m_window.note(region, choice, steady);
        return {choice.what.base - region.base, choice.what.end() - region.base};
    }
    using Pair = std::pair<uint64_t, uint64_t>;
    FunctionWindow m_window;
    const AddressRange m_large{64 * k_mib, 16 * k_mib};
};

TEST_F(FunctionWindowTest, GrowsWhereAFunctionGoesOn_A7) {
    EXPECT_EQ(access(m_large, 0), (Pair{0, 64 * k_kib}));
    EXPECT_EQ(access(m_large, 64 * k_kib), (Pair{64 * k_kib, 256 * k_kib})) << "what it has left behind is not fetched again";
    EXPECT_EQ(access(m_large, 256 * k_kib + 5), (Pair{256 * k_kib, k_mib}));
    EXPECT_EQ(access(m_large, k_mib), (Pair{k_mib, 4 * k_mib}));
    EXPECT_EQ(access(m_large, 4 * k_mib), (Pair{4 * k_mib, 8 * k_mib}));
    EXPECT_EQ(access(m_large, 8 * k_mib), (Pair{8 * k_mib, 12 * k_mib}));
}

TEST_F(FunctionWindowTest, GrowsBackwardAsWell_A7) {
    EXPECT_EQ(access(m_large, 4 * k_mib - 1), (Pair{4 * k_mib - 64 * k_kib, 4 * k_mib}));
    EXPECT_EQ(access(m_large, 4 * k_mib - 64 * k_kib - 1), (Pair{4 * k_mib - 256 * k_kib, 4 * k_mib}));
    EXPECT_EQ(access(m_large, 4 * k_mib - 256 * k_kib - 1), (Pair{3 * k_mib, 4 * k_mib}));
}

TEST_F(FunctionWindowTest, ShrinksWhereItIsTooSlowOrLooksAgain_A7) {
    for (const uint64_t offset : {uint64_t{0}, 64 * k_kib, 256 * k_kib}) (void)access(m_large, offset);
    EXPECT_EQ(access(m_large, 512 * k_kib), (Pair{512 * k_kib, 768 * k_kib}));
    EXPECT_EQ(access(m_large, 512 * k_kib + 1), (Pair{512 * k_kib, 576 * k_kib}));
    EXPECT_EQ(access(m_large, 512 * k_kib + 2), (Pair{512 * k_kib, 528 * k_kib}));
    EXPECT_EQ(access(m_large, 512 * k_kib + 3), (Pair{512 * k_kib, 516 * k_kib}));
    EXPECT_EQ(access(m_large, 512 * k_kib + 4), (Pair{512 * k_kib, 516 * k_kib})) << "a page at least";
    EXPECT_EQ(access(m_large, 516 * k_kib), (Pair{516 * k_kib, 528 * k_kib})) << "and more again where it goes on";
}

TEST_F(FunctionWindowTest, ShrinksWhereTheDeviceGoesOnWriting_A7) {
    (void)access(m_large, 0);
    EXPECT_EQ(access(m_large, 64 * k_kib, false), (Pair{64 * k_kib, 256 * k_kib}));
    EXPECT_EQ(access(m_large, 68 * k_kib, false), (Pair{68 * k_kib, 128 * k_kib}));
    EXPECT_EQ(access(m_large, 72 * k_kib), (Pair{72 * k_kib, 80 * k_kib}));
}

TEST_F(FunctionWindowTest, KnowsHowMuchIsUsedOfMemoryByTheLastPiece_A7) {
    const AddressRange first{k_mib, 512 * k_kib}, second{32 * k_mib, 512 * k_kib}, third{40 * k_mib, 512 * k_kib};
    for (const uint64_t offset : {uint64_t{0}, 64 * k_kib, 256 * k_kib}) (void)access(first, offset);
    EXPECT_EQ(access(second, 0), (Pair{0, 512 * k_kib})) << "it has gone through all of the first one";
    m_window.begin(2);
    EXPECT_EQ(access(first, 0), (Pair{0, 64 * k_kib})) << "another function";
    EXPECT_EQ(access(second, 300 * k_kib), (Pair{256 * k_kib, 320 * k_kib}));
    EXPECT_EQ(access(third, 5), (Pair{0, 64 * k_kib}));
    m_window.begin(2);
    EXPECT_EQ(access(third, 64 * k_kib), (Pair{64 * k_kib, 256 * k_kib})) << "the same one still";
}

TEST_F(FunctionWindowTest, LooksHereAndThereAtLittle_A7) {
    for (const uint64_t place : {9, 2, 14, 5, 11})
        EXPECT_EQ(access(m_large, place * k_mib), (Pair{place * k_mib, place * k_mib + 64 * k_kib}));
}

}  // namespace
}  // namespace warpline::client
