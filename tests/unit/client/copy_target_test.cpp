// Tests of where bytes from the device are put in the program's memory.
#include "client/state/copy_target.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace warpline::client {
namespace {

std::vector<std::byte> counting(size_t size) {
    std::vector<std::byte> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i + 1);
    return bytes;
}

TEST(CopyTarget, writes_rows_and_slices_wherever_the_parts_are_cut) {
    // 2 slices of 3 rows of 4 bytes, at a pitch of 5, slices 20 apart.
    auto packed = counting(24);
    for (size_t part = 1; part <= 24; ++part) {
        std::vector<std::byte> memory(40, std::byte{0});
        CopyTarget target{memory.data(), 4, 3, 5, 2, 20};
        EXPECT_FALSE(target.is_linear());
        for (size_t offset = 0; offset < 24; offset += part) {
            ASSERT_TRUE(target.write(offset, BytesView(packed).subspan(offset, std::min(part, 24 - offset))));
        }
        for (size_t slice = 0; slice < 2; ++slice) {
            for (size_t row = 0; row < 3; ++row) {
                for (size_t x = 0; x < 5; ++x) {
                    auto expected = x < 4 ? packed[(slice * 3 + row) * 4 + x] : std::byte{0};
                    ASSERT_EQ(memory[slice * 20 + row * 5 + x], expected) << "part " << part;
                }
            }
        }
        for (size_t offset = 0; offset < 24; ++offset) {
            const MutableBytesView together = target.together(offset, std::min(part, 24 - offset));
            const bool in_one_row = offset % 4 + std::min(part, 24 - offset) <= 4;
            ASSERT_EQ(!together.empty(), in_one_row) << offset << " " << part;
            if (in_one_row) {
                ASSERT_EQ(together.front(), packed[offset]);
            }
        }
        std::vector<std::byte> gathered(24);
        target.gather(gathered.data());
        EXPECT_EQ(gathered, packed);
    }
}

TEST(CopyTarget, refuses_more_than_fits) {
    std::vector<std::byte> memory(8);
    CopyTarget target = CopyTarget::linear(memory.data(), 8);
    EXPECT_EQ(target.together(3, 5).data(), memory.data() + 3);
    EXPECT_TRUE(target.together(3, 6).empty());
    EXPECT_TRUE(target.together(UINT64_MAX, 2).empty());
    EXPECT_TRUE(target.write(0, counting(8)));
    EXPECT_FALSE(target.write(1, counting(8)));
    EXPECT_FALSE(target.write(9, {}));
    EXPECT_FALSE(target.write(UINT64_MAX, counting(1)));
    EXPECT_TRUE(target.write(8, {}));
}

TEST(CopyTarget, rows_without_gaps_are_linear) {
    std::vector<std::byte> memory(24);
    EXPECT_TRUE((CopyTarget{memory.data(), 4, 3, 4, 2, 12}).is_linear());
    EXPECT_FALSE((CopyTarget{memory.data(), 4, 3, 4, 2, 16}).is_linear());
    EXPECT_TRUE((CopyTarget{memory.data(), 4, 1, 100, 1, 100}).is_linear());
}

TEST(CopyTarget, knows_what_memory_it_spans) {
    auto* base = reinterpret_cast<std::byte*>(0x1000);
    CopyTarget target{base, 4, 3, 16, 1, 48};
    EXPECT_TRUE(target.spans(0x1000, 1));
    EXPECT_TRUE(target.spans(0x1023, 1));
    EXPECT_FALSE(target.spans(0x1024, 1));
    EXPECT_TRUE(target.spans(0x0fff, 2));
    EXPECT_FALSE(target.spans(0x0fff, 1));
    EXPECT_FALSE(target.spans(0x1000, 0));
}

TEST(CopyTarget, collects_what_has_no_known_length) {
    Bytes out;
    CopyTarget target = CopyTarget::into(out);
    auto bytes = counting(10);
    EXPECT_TRUE(target.write(4, BytesView(bytes).subspan(4)));
    EXPECT_TRUE(target.write(0, BytesView(bytes).first(4)));
    EXPECT_EQ(out, bytes);
    EXPECT_FALSE(target.write(CopyTarget::k_max_collect_bytes, bytes));
}

}  // namespace
}  // namespace warpline::client
