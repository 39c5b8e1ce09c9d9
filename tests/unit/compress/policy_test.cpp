#include "compress/policy.h"

#include <gtest/gtest.h>

#include "test_data.h"

namespace warpline::compress {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// A policy that has measured a link of this speed, and packing speeds that do not depend on this machine.
void measure(Policy& policy, double link_bytes_per_second) {
    for (int i = 0; i < 60; i++) {
        policy.record_link(static_cast<size_t>(link_bytes_per_second), seconds(1));
        policy.record_pack({Codec::lz4, 1}, 700'000'000, seconds(1));
        for (Codec codec : {Codec::group2_lz4, Codec::group4_lz4, Codec::group8_lz4})
            policy.record_pack({codec, 1}, 500'000'000, seconds(1));
        policy.record_pack({Codec::zstd, 1}, 350'000'000, seconds(1));
        policy.record_pack({Codec::zstd, 3}, 200'000'000, seconds(1));
    }
}

constexpr double k_gigabit = 125e6;

TEST(Policy, NothingIsPackedOnALinkFasterThanPacking) {
    Policy policy(Policy::k_all_codecs);
    measure(policy, 10e9);
    for (const std::string& kind : data_kinds()) EXPECT_EQ(policy.choose(make_data(kind, 4 << 20)), Choice{}) << kind;
}

TEST(Policy, ChoosesByTheData) {
    Policy policy(Policy::k_all_codecs);
    measure(policy, k_gigabit);
    EXPECT_EQ(policy.choose(make_data("random", 4 << 20)), Choice{});
    EXPECT_NE(policy.choose(make_data("text", 4 << 20)).codec, Codec::none);
    EXPECT_NE(policy.choose(make_data("zeros", 4 << 20)).codec, Codec::none);
    EXPECT_EQ(policy.choose(make_data("indices_i32", 4 << 20)).codec, Codec::group4_lz4);
    Codec half = policy.choose(make_data("weights_bf16", 4 << 20)).codec;
    EXPECT_TRUE(half == Codec::group2_lz4 || half == Codec::zstd) << to_string(half);
}

TEST(Policy, SlowLinksAreWorthStrongerCodecs) {
    Policy policy(Policy::bit(Codec::lz4) | Policy::bit(Codec::zstd));
    const Bytes& data = make_data("smooth_f32", 4 << 20);  // LZ4 finds nothing in it
    measure(policy, 5e6);
    EXPECT_EQ(policy.choose(data).codec, Codec::zstd);
    measure(policy, 1e9);
    EXPECT_EQ(policy.choose(data), Choice{});
}

TEST(Policy, OnlyWhatTheOtherSideTakes) {
    Policy none(0);
    measure(none, 1e6);
    EXPECT_EQ(none.choose(make_data("zeros", 4 << 20)), Choice{});
    Policy lz4(Policy::bit(Codec::lz4));
    measure(lz4, 1e6);
    EXPECT_EQ(lz4.choose(make_data("zeros", 4 << 20)).codec, Codec::lz4);
}

TEST(Policy, SmallTransfersAreNotLookedAt) {
    Policy policy(Policy::k_all_codecs);
    measure(policy, k_gigabit);
    for (size_t size : {0u, 1u, 4095u}) EXPECT_EQ(policy.choose(make_data("zeros", size)), Choice{});
    // 8 KiB over 10 Gbit/s take 7 µs: no sample is worth that.
    measure(policy, 1.25e9);
    EXPECT_EQ(policy.choose(make_data("zeros", 8192)), Choice{});
}

// The model's own promise: with its speeds and the real packed size, the choice is no slower than plain, sampling included.
TEST(Policy, NeverSlowerThanPlainByItsOwnModel) {
    for (double link : {1e6, 20e6, k_gigabit, 400e6, 1.25e9, 5e9}) {
        Policy policy(Policy::k_all_codecs);
        measure(policy, link);
        for (const std::string& kind : data_kinds()) {
            for (size_t size : {5000u, 70'000u, 1'000'000u, 3'000'000u}) {
                const Bytes& raw = make_data(kind, size);
                Choice choice = policy.choose(raw);
                if (choice.codec == Codec::none) continue;
                Bytes out(max_packed_bytes(choice.codec, size));
                double packed = static_cast<double>(compress(choice.codec, choice.level, raw, out).value());
                double plain_seconds = static_cast<double>(size) / link;
                double seconds = std::max(static_cast<double>(size) / policy.pack_bytes_per_second(choice), packed / link);
                EXPECT_LE(seconds, plain_seconds * 1.02)
                    << kind << " " << size << " " << to_string(choice.codec) << " at " << link;
            }
        }
    }
}

TEST(Policy, MeasurementsAreSmoothedAndNonsenseIsIgnored) {
    Policy policy(Policy::k_all_codecs);
    EXPECT_EQ(policy.link_bytes_per_second(), Policy::k_assumed_link_bytes_per_second);
    policy.record_link(1000, nanoseconds(0));
    policy.record_link(0, seconds(1));
    policy.record_pack({Codec::none, 0}, 1000, seconds(1));
    EXPECT_EQ(policy.link_bytes_per_second(), Policy::k_assumed_link_bytes_per_second);
    for (int i = 0; i < 30; i++) policy.record_link(100'000, milliseconds(1));
    EXPECT_NEAR(policy.link_bytes_per_second(), 1e8, 1e6);
    policy.record_link(100'000'000, milliseconds(1));
    EXPECT_LT(policy.link_bytes_per_second(), 0.3 * 1e11) << "one outlier is not believed";
}

}  // namespace
}  // namespace warpline::compress
