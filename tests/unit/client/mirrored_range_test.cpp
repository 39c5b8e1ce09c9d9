// What of registered memory is read, and what is asked about.
#include "client/managed/mirrored_range.h"

#include <gtest/gtest.h>

#include "common/base/fingerprint.h"

namespace warpline::client {
namespace {

constexpr uint64_t k_piece = 16 << 10;

struct Plan {
    std::vector<AddressRange> parts;
    std::vector<MirroredRange::Asked> asked;
    uint64_t part_bytes() const {
        uint64_t bytes = 0;
        for (const AddressRange& part : parts) bytes += part.size_bytes;
        return bytes;
    }
};
Plan plan(MirroredRange& range) {
    Plan made;
    range.plan(made.parts, made.asked);
    return made;
}

MirroredRange range_of(uint64_t size_bytes) {
    MirroredRange range;
    range.size_bytes = size_bytes;
    range.twin.resize(size_bytes);
    return range;
}

TEST(MirroredRange, IsReadOnceAndThenAskedAbout_A7) {
    MirroredRange range = range_of(100 * k_piece + 5);
    Plan first = plan(range);
    EXPECT_EQ(first.part_bytes(), range.size_bytes);
    EXPECT_TRUE(first.asked.empty());
    for (const AddressRange& part : first.parts) range.note_read(part, false);
    Plan second = plan(range);
    EXPECT_TRUE(second.parts.empty());
    ASSERT_EQ(second.asked.size(), 101u);
    EXPECT_EQ(second.asked.back().part.base, 100 * k_piece);
    EXPECT_EQ(second.asked.back().part.size_bytes, 5u);
    // What has changed is read for a while.
    range.note_read(second.asked[7].part, true);
    for (int reading = 0; reading < 4; ++reading) {
        Plan next = plan(range);
        ASSERT_EQ(next.parts.size(), 1u) << reading;
        EXPECT_EQ(next.parts[0].base, 7 * k_piece);
        EXPECT_EQ(next.asked.size(), 100u);
        range.note_read(next.parts[0], false);
    }
    EXPECT_EQ(plan(range).asked.size(), 101u);
}

TEST(MirroredRange, IsAskedAboutByWhatTheDeviceHasNow_A7) {
    MirroredRange range = range_of(8 * k_piece);
    for (const AddressRange& part : plan(range).parts) range.note_read(part, false);
    const auto before = plan(range).asked;
    range.twin[3 * k_piece - 1] = range.twin[3 * k_piece] = std::byte{1};
    range.note_written({3 * k_piece - 1, 2});
    const auto after = plan(range).asked;
    for (size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(after[i].fingerprint, fingerprint(BytesView(range.twin).subspan(i * k_piece, k_piece))) << i;
        EXPECT_EQ(after[i].fingerprint == before[i].fingerprint, i != 2 && i != 3) << i;
    }
}

TEST(MirroredRange, IsReadWithoutAskingWhereItIsShort_A7) {
    MirroredRange range = range_of(4 * k_piece);
    for (int reading = 0; reading < 3; ++reading) {
        Plan made = plan(range);
        EXPECT_TRUE(made.asked.empty());
        EXPECT_EQ(made.part_bytes(), range.size_bytes);
        for (const AddressRange& part : made.parts) range.note_read(part, false);
    }
}

}  // namespace
}  // namespace warpline::client
