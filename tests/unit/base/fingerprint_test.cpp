// Fingerprints: of other bytes, other numbers.
#include "common/base/fingerprint.h"

#include <gtest/gtest.h>

#include <set>

namespace warpline {
namespace {

TEST(Fingerprint, DiffersWithEveryBitAndLength_A7) {
    std::set<uint64_t> numbers;
    for (size_t bytes = 0; bytes <= 130; ++bytes) {
        Bytes zeros(bytes);
        EXPECT_TRUE(numbers.insert(fingerprint(zeros)).second) << bytes;
        EXPECT_EQ(fingerprint(zeros), fingerprint(Bytes(bytes)));
        for (size_t bit = 0; bit < 8 * bytes; ++bit) {
            zeros[bit / 8] ^= std::byte{1} << bit % 8;
            EXPECT_TRUE(numbers.insert(fingerprint(zeros)).second) << bytes << " bytes, bit " << bit;
            zeros[bit / 8] ^= std::byte{1} << bit % 8;
        }
    }
}

TEST(Fingerprint, DiffersWhereBytesHaveChangedPlaces_A7) {
    Bytes bytes(4096);
    std::set<uint64_t> numbers;
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
        bytes[at] = std::byte{1};
        EXPECT_TRUE(numbers.insert(fingerprint(bytes)).second) << at;
        bytes[at] = std::byte{0};
    }
}

}  // namespace
}  // namespace warpline
