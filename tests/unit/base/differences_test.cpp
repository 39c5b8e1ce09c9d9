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

Runs changes(const Bytes& a, const Bytes& b, uint64_t address) {
    Runs runs;
    for_each_change(a.data(), b.data(), a.size(), address,
                    [&](uint64_t begin, uint64_t end) { runs.emplace_back(begin, end); });
    return runs;
}

TEST(Differences, AreWordsWhereManyBytesHaveChanged_A7) {
    Bytes a(3 * 4096), b(a.size());
    // Few: single bytes, however near to each other.
    for (size_t i = 0; i < 64; ++i) b[4096 + 2 * i] = std::byte{1};
    EXPECT_EQ(changes(a, b, 0).size(), 64u);
    // Many, of which each word has some: one run, of whole words of the memory that they are in, and not beyond its end.
    for (size_t i = 0; i < a.size(); i += 4) b[i] = std::byte{1};
    EXPECT_EQ(changes(a, b, 0), (Runs{{0, a.size()}}));
    EXPECT_EQ(changes(a, b, 1), (Runs{{0, a.size() - 1}}));  // the last word has one byte here
    Bytes c = a;
    for (size_t i = 5; i < 2000; i += 8) c[i] = std::byte{1};
    const Runs apart = changes(a, c, 0);
    EXPECT_EQ(apart.size(), 250u);
    EXPECT_EQ(apart.front(), (std::pair<uint64_t, uint64_t>{4, 8}));
    EXPECT_EQ(changes(a, c, 3).front(), (std::pair<uint64_t, uint64_t>{5, 9}));
}

TEST(Differences, OfWordsLeaveNothingOut_A7) {
    std::mt19937 random(11);
    for (int round = 0; round < 50; ++round) {
        Bytes a(random() % 20000), b = a;
        for (unsigned change = random() % 3000; change != 0 && !b.empty(); --change)
            b[random() % b.size()] = static_cast<std::byte>(random() % 3);
        const uint64_t address = random() % 5000;
        std::vector<bool> named(a.size());
        uint64_t before = 0;
        for (const auto& [begin, end] : changes(a, b, address)) {
            EXPECT_TRUE(begin < end && end <= a.size() && (before == 0 || begin > before));
            for (uint64_t i = begin; i < end; ++i) named[i] = true;
            before = end;
        }
        for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(named[i] || a[i] == b[i]) << i << " of " << a.size();
    }
}

}  // namespace
}  // namespace warpline
