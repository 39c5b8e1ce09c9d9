#include "compress/policy.h"

#include <gtest/gtest.h>

#include "test_data.h"

namespace warpline::compress {
namespace {

constexpr double k_gigabit = 125e6;
constexpr size_t k_part_bytes = 1 << 20;

Choice choose(const std::string& kind, double link, CodecSet allowed = k_all_codecs, size_t bytes = k_part_bytes) {
    Policy policy;
    return policy.choose(make_data(kind, bytes), link, allowed);
}

TEST(Policy, ChoosesByTheData_B4) {
    EXPECT_EQ(choose("random", k_gigabit), Choice{});
    EXPECT_EQ(choose("zeros", k_gigabit).codec, Codec::zstd);
    EXPECT_EQ(choose("weights_f32", k_gigabit).codec, Codec::group4);
    EXPECT_EQ(choose("weights_bf16", k_gigabit).codec, Codec::group2);
    EXPECT_EQ(choose("indices_i32", k_gigabit).codec, Codec::group4);
    EXPECT_NE(choose("text", k_gigabit).codec, Codec::none);
}

TEST(Policy, OnFastLinksNothingIsPackedButConstants_B4) {
    for (const double link : {Policy::k_fastest_link * 1.01, 2e9, 4e9})
        for (const std::string& kind : data_kinds()) EXPECT_EQ(choose(kind, link) == Choice{}, kind != "zeros") << kind << link;
    EXPECT_EQ(choose("zeros", 50e9), Choice{}) << "reading it would take longer than sending it";
}

TEST(Policy, OfAnUnknownLinkNothingIsAssumed_B4) {
    for (const std::string& kind : data_kinds()) EXPECT_EQ(choose(kind, 0) == Choice{}, kind != "zeros") << kind;
}

TEST(Policy, SlowLinksAreWorthStrongerCodecs_B4) {
    const Choice fast = choose("text", 250e6), slow = choose("text", 2e5);
    EXPECT_EQ(fast.codec, Codec::lz4);
    EXPECT_EQ(slow, (Choice{Codec::zstd, 6}));
}

TEST(Policy, OnlyWhatTheOtherSideTakes_B4) {
    for (const std::string& kind : data_kinds()) EXPECT_EQ(choose(kind, 1e6, 0), Choice{});
    EXPECT_EQ(choose("zeros", 1e6, bit(Codec::lz4)).codec, Codec::lz4);
    EXPECT_EQ(choose("weights_f32", k_gigabit, k_all_codecs & ~bit(Codec::group4)).codec, Codec::group8);
}

TEST(Policy, SmallChunksAreNotLookedAt_B4) {
    for (const size_t bytes : {size_t{0}, size_t{1}, Policy::k_least_bytes - 1})
        EXPECT_EQ(choose("zeros", 1e6, k_all_codecs, bytes), Choice{});
    EXPECT_NE(choose("zeros", 1e6, k_all_codecs, Policy::k_least_bytes), Choice{});
}

// The model's own promise: with its speeds and the real packed size, the choice is faster than plain, whatever overlaps.
TEST(Policy, NeverSlowerThanPlainByItsOwnModel_B4) {
    for (const double link : {1e6, 20e6, k_gigabit, 400e6, 1.25e9, 5e9}) {
        for (const std::string& kind : data_kinds()) {
            for (const size_t bytes : {5000u, 70'000u, 1'000'000u, 3'000'000u}) {
                Policy policy;
                const Bytes& raw = make_data(kind, bytes);
                const Choice choice = policy.choose(raw, link, k_all_codecs);
                if (choice.codec == Codec::none || policy.chose_for_constant()) continue;
                Bytes out(max_packed_bytes(choice.codec, bytes));
                const auto packed = static_cast<double>(compress(choice.codec, choice.level, raw, out).value());
                const double plain_seconds = static_cast<double>(bytes) / link;
                const double seconds =
                    std::max(static_cast<double>(bytes) / policy.pack_bytes_per_second(choice), packed / link);
                EXPECT_LE(seconds, plain_seconds * 1.02)
                    << kind << " " << bytes << " " << to_string(choice.codec) << " " << link;
            }
        }
    }
}

TEST(Policy, WhatGetsNoSmallerOrTooSlowlyIsGivenUp_B4) {
    Policy policy;
    const Bytes& raw = make_data("weights_f32", k_part_bytes);
    const Choice choice = policy.choose(raw, k_gigabit, k_all_codecs);
    ASSERT_EQ(choice.codec, Codec::group4);
    // A processor that others keep busy: packing takes longer than sending.
    for (int i = 0; i < 20; ++i) policy.record(choice, raw.size(), raw.size() / 2, std::chrono::milliseconds(50));
    EXPECT_LT(policy.pack_bytes_per_second(choice), k_gigabit / 2);
    // Samples are rare where they are slow: the next one tells.
    const auto becomes = [&](Codec wanted) {
        for (int i = 0; i < 100'000; ++i)
            if (policy.choose(raw, k_gigabit, bit(Codec::group4)).codec == wanted) return true;
        return false;
    };
    EXPECT_TRUE(becomes(Codec::none));
    EXPECT_TRUE(becomes(Codec::group4)) << "not for ever";
}

TEST(Policy, ConstantsSayNothingAboutOtherData_B4) {
    Policy policy;
    const double before = policy.pack_bytes_per_second({Codec::zstd, 1});
    const Choice choice = policy.choose(make_data("zeros", k_part_bytes), k_gigabit, k_all_codecs);
    ASSERT_TRUE(policy.chose_for_constant());
    policy.record(choice, k_part_bytes, 60, std::chrono::nanoseconds(1));
    EXPECT_EQ(policy.pack_bytes_per_second({Codec::zstd, 1}), before);
}

TEST(Sample, SeesHowSmallDataWouldGet_B4) {
    const auto packed_ratio = [](Codec codec, const Bytes& raw) {
        Bytes out(max_packed_bytes(codec, raw.size()));
        return static_cast<double>(compress(codec, 1, raw, out).value()) / static_cast<double>(raw.size());
    };
    struct {
        const char* kind;
        unsigned element_bytes;
        Codec codec;
    } const cases[] = {{"weights_f32", 4, Codec::group4}, {"weights_bf16", 2, Codec::group2}, {"random", 8, Codec::group8}};
    for (const auto& [kind, element_bytes, codec] : cases) {
        const Bytes& raw = make_data(kind, k_part_bytes);
        EXPECT_NEAR(Sample(raw).grouped_ratio(element_bytes), packed_ratio(codec, raw), 0.015) << kind;
    }
    EXPECT_EQ(Sample(make_data("random", k_part_bytes)).repeated_ratio(), 1);
    EXPECT_LT(Sample(make_data("text", k_part_bytes)).repeated_ratio(), 0.3);
    for (const size_t bytes : {1024u, 1031u, 2048u, 5000u}) EXPECT_LE(Sample(make_data("random", bytes)).size(), bytes);
}

TEST(Sample, ConstantsAreAllOfOneWord_B4) {
    Bytes data(100'003, std::byte{7});
    EXPECT_TRUE(is_constant(data));
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i % 8);
    EXPECT_TRUE(is_constant(data));
    for (const size_t different : {size_t{0}, size_t{9}, size_t{54'321}, data.size() - 1}) {
        Bytes changed = data;
        changed[different] ^= std::byte{1};
        EXPECT_FALSE(is_constant(changed)) << different;
    }
    EXPECT_FALSE(is_constant(Bytes(15)));
}

TEST(Wish, IsReadAsItIsWritten_B4) {
    EXPECT_EQ(parse_wish("auto").value(), Wish{});
    EXPECT_EQ(parse_wish("none").value(), (Wish{0, std::nullopt}));
    EXPECT_EQ(parse_wish("lz4").value(), (Wish{bit(Codec::lz4), Choice{Codec::lz4, 0}}));
    EXPECT_EQ(parse_wish("zstd:19").value(), (Wish{bit(Codec::zstd), Choice{Codec::zstd, 19}}));
    EXPECT_EQ(parse_wish("group4").value(), (Wish{bit(Codec::group4), Choice{Codec::group4, 0}}));
    for (const char* wrong : {"", "gzip", "zstd:", "zstd:0", "zstd:20", "zstd:1x", "lz4:1", "AUTO", "none:1"})
        EXPECT_EQ(parse_wish(wrong).error().code, Code::bad_argument) << wrong;
}

}  // namespace
}  // namespace warpline::compress
