// Runs of bytes that differ.
#include "common/base/differences.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "common/base/bytes.h"

namespace warpline {
namespace {

using Runs = std::vector<std::pair<uint64_t, uint64_t>>;

Runs differences(const Bytes& a, const Bytes& b, uint64_t gap) {
    Runs runs;
    for_each_difference(a.data(), b.data(), a.size(), gap,
                        [&](uint64_t begin, uint64_t end) { runs.emplace_back(begin, end); });
    return runs;
}

TEST(Differences, AreWholeRunsAcrossSteps_A7) {
    Bytes a(300), b(300);
    EXPECT_EQ(differences(a, b, 0), Runs{});
    for (size_t i = 60; i < 200; ++i) b[i] = std::byte{1};
    b[202] = b[299] = std::byte{1};
    EXPECT_EQ(differences(a, b, 0), (Runs{{60, 200}, {202, 203}, {299, 300}}));
    EXPECT_EQ(differences(a, b, 2), (Runs{{60, 203}, {299, 300}}));
    EXPECT_EQ(differences(Bytes{}, Bytes{}, 0), Runs{});
}

TEST(Differences, AreEveryByteThatDiffersAndWithoutAGapNoOther_A7) {
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        Bytes a(random() % 400), b = a;
        for (unsigned change = random() % 20; change != 0 && !b.empty(); --change)
            b[random() % b.size()] = static_cast<std::byte>(random() % 3);
        std::vector<bool> named(a.size());
        for (const auto& [begin, end] : differences(a, b, 0))
            for (uint64_t i = begin; i < end; ++i) named[i] = true;
        for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(named[i], a[i] != b[i]) << i << " of " << a.size();
    }
}

}  // namespace
}  // namespace warpline
