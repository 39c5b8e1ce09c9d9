// Tests of handles.
#include "softgpu/driver/process/handle_table.h"

#include <gtest/gtest.h>

namespace warpline::softgpu::driver {
namespace {

TEST(HandleTableTest, HandlesOfTheGoneFindNothingEvenWhenTheirPlaceIsTaken) {
    HandleTable<int> table(HandleKind::stream);
    uint64_t first = table.add(std::make_shared<int>(1));
    EXPECT_EQ(*table.find(first), 1);
    EXPECT_EQ(*table.remove(first), 1);
    uint64_t second = table.add(std::make_shared<int>(2));
    EXPECT_NE(first, second);
    EXPECT_EQ(table.find(first), nullptr);
    EXPECT_EQ(*table.find(second), 2);
    EXPECT_EQ(table.remove(first), nullptr);
}

TEST(HandleTableTest, OtherKindsAndWildValuesFindNothing) {
    HandleTable<int> streams(HandleKind::stream), events(HandleKind::event);
    uint64_t stream = streams.add(std::make_shared<int>(1));
    events.add(std::make_shared<int>(2));
    EXPECT_EQ(events.find(stream), nullptr);
    for (uint64_t wild : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{0x1234567890}, UINT64_MAX}) {
        EXPECT_EQ(streams.find(wild), nullptr);
    }
}

TEST(HandleTableTest, RemovesWhatMatches) {
    HandleTable<int> table(HandleKind::module);
    for (int i = 0; i < 10; ++i) table.add(std::make_shared<int>(i));
    EXPECT_EQ(table.remove_if([](int value) { return value % 2 == 0; }).size(), 5u);
    EXPECT_EQ(table.all().size(), 5u);
}

}  // namespace
}  // namespace warpline::softgpu::driver
