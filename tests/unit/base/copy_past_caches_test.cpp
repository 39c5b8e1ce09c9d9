// Copies past the caches: each byte, and none beside, however the two ends lie.
#include "common/base/copy_past_caches.h"

#include <gtest/gtest.h>

#include <vector>

namespace warpline {
namespace {

TEST(CopyPastCaches, CopiesAllAndNothingElse_B9) {
    constexpr size_t k_room = 512;
    constexpr std::byte k_untouched{0xee};
    std::vector<std::byte> source(k_room);
    for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7 + 1);
    for (const size_t to : {0, 1, 15, 16, 63, 64})
        for (const size_t from : {0, 1, 8, 33})
            for (const size_t bytes : {0, 1, 63, 64, 65, 127, 128, 129, 256, 300}) {
                std::vector<std::byte> target(k_room, k_untouched);
                copy_past_caches(target.data() + to, source.data() + from, bytes);
                std::vector<std::byte> expected(k_room, k_untouched);
                std::memcpy(expected.data() + to, source.data() + from, bytes);
                ASSERT_EQ(target, expected) << bytes << " bytes from " << from << " to " << to;
            }
}

}  // namespace
}  // namespace warpline
