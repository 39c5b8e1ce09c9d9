// Tests of what is remembered of advice.
#include "softgpu/driver/memory/advice.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace warpline::softgpu::driver {
namespace {

using Advice = AdviceMap::Advice;

bool all_read_mostly(const AdviceMap& map, uint64_t address, uint64_t bytes) {
    auto pieces = map.read(address, bytes);
    return std::all_of(pieces.begin(), pieces.end(), [](const Advice& piece) { return piece.read_mostly; });
}

TEST(AdviceTest, HoldsForPartsOfRanges) {
    AdviceMap map;
    map.change(4096, 8192, [](Advice& advice) { advice.read_mostly = true; });
    EXPECT_TRUE(all_read_mostly(map, 4096, 8192));
    EXPECT_TRUE(all_read_mostly(map, 8192, 1));
    EXPECT_FALSE(all_read_mostly(map, 4095, 2));
    EXPECT_FALSE(all_read_mostly(map, 4096, 8193));
}

TEST(AdviceTest, ChangesSplitWhatTheyTouch) {
    AdviceMap map;
    map.change(0x10000, 0x30000, [](Advice& advice) { advice.read_mostly = true; });
    map.change(0x20000, 0x10000, [](Advice& advice) { advice.read_mostly = false; });
    EXPECT_TRUE(all_read_mostly(map, 0x10000, 0x10000));
    EXPECT_FALSE(all_read_mostly(map, 0x20000, 0x10000));
    EXPECT_TRUE(all_read_mostly(map, 0x30000, 0x10000));
    map.forget(0x18000, 0x8000);
    EXPECT_TRUE(all_read_mostly(map, 0x10000, 0x8000));
    EXPECT_FALSE(all_read_mostly(map, 0x18000, 1));
}

}  // namespace
}  // namespace warpline::softgpu::driver
