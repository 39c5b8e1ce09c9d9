// Tests of memory by address.
#include "softgpu/driver/space/address_map.h"

#include <gtest/gtest.h>

namespace warpline::softgpu::driver {
namespace {

AllocationPtr make(uint64_t address, uint64_t size_bytes) {
    auto allocation = std::make_shared<Allocation>();
    allocation->address = address;
    allocation->size_bytes = size_bytes;
    return allocation;
}

TEST(AddressMapTest, FindsByAnyAddressInside) {
    AddressMap map;
    map.insert(make(1000, 100));
    EXPECT_EQ(map.find(999), nullptr);
    EXPECT_NE(map.find(1000), nullptr);
    EXPECT_NE(map.find(1099), nullptr);
    EXPECT_EQ(map.find(1100), nullptr);
}

TEST(AddressMapTest, CoversAcrossNeighboursAndNotAcrossGaps) {
    AddressMap map;
    map.insert(make(1000, 100));
    map.insert(make(1100, 100));
    map.insert(make(1300, 100));
    EXPECT_TRUE(map.covers(1050, 150, Access::write));
    EXPECT_FALSE(map.covers(1050, 151, Access::write));
    EXPECT_FALSE(map.covers(1250, 60, Access::read));
    EXPECT_TRUE(map.overlaps(1250, 60));
    EXPECT_FALSE(map.overlaps(1200, 100));
}

TEST(AddressMapTest, AccessIsPerPiece) {
    AddressMap map;
    map.insert(make(1000, 100));
    map.set_access(1000, true, false);
    EXPECT_TRUE(map.covers(1000, 100, Access::read));
    EXPECT_FALSE(map.covers(1000, 1, Access::write));
}

TEST(AddressMapTest, IdsAreUnique) {
    AddressMap map;
    auto a = make(1000, 1), b = make(2000, 1);
    map.insert(a);
    map.insert(b);
    EXPECT_NE(a->id, b->id);
    EXPECT_EQ(map.remove(1000), a);
    EXPECT_EQ(map.remove(1000), nullptr);
    EXPECT_EQ(map.remove_if([](const Allocation& x) { return x.address == 2000; }).size(), 1u);
    EXPECT_EQ(map.find(2000), nullptr);
}

}  // namespace
}  // namespace warpline::softgpu::driver
