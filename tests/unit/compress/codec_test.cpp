// Codecs: there and back.
#include "compress/codec.h"

#include <gtest/gtest.h>

#include <span>

#include "compress/byte_groups.h"
#include "test_data.h"

namespace warpline::compress {
namespace {

std::vector<Codec> all_codecs() {
    std::vector<Codec> codecs;
    for (uint8_t i = 0; i < k_codec_count; i++) codecs.push_back(codec_from_wire(i).value());
    return codecs;
}

Bytes pack(Codec codec, int level, BytesView raw) {
    Bytes out(max_packed_bytes(codec, raw.size()));
    auto size = compress(codec, level, raw, out);
    EXPECT_TRUE(size.ok()) << to_string(codec) << ": " << size.error().what;
    out.resize(size.ok() ? *size : 0);
    return out;
}

class RoundTrip : public testing::TestWithParam<Codec> {};

TEST_P(RoundTrip, EverySizeNearTheBorders) {
    std::vector<size_t> sizes;
    for (size_t i = 0; i < 40; i++) sizes.push_back(i);
    for (size_t border : {k_group_block_bytes, 2 * k_group_block_bytes})
        for (size_t i = border - 9; i <= border + 9; i++) sizes.push_back(i);
    for (size_t size : sizes) {
        const Bytes& raw = make_data("weights_f32", size);
        Bytes packed = pack(GetParam(), 0, raw);
        Bytes again(size);
        auto done = decompress(GetParam(), packed, again);
        ASSERT_TRUE(done.ok()) << size << ": " << done.error().what;
        ASSERT_EQ(raw, again) << size;
    }
}

TEST_P(RoundTrip, EveryKindOfDataAndLevel) {
    for (const std::string& kind : data_kinds()) {
        for (int level : {0, 1, 5, 19}) {
            SCOPED_TRACE(kind + " " + std::to_string(level));
            const Bytes& raw = make_data(kind, 300'001);
            Bytes packed = pack(GetParam(), level, raw);
            Bytes again(raw.size());
            ASSERT_TRUE(decompress(GetParam(), packed, again).ok());
            ASSERT_EQ(raw, again);
        }
    }
}

TEST_P(RoundTrip, TooLittleRoomIsRefused) {
    const Bytes& raw = make_data("text", 10'000);
    Bytes out(max_packed_bytes(GetParam(), raw.size()) - 1);
    EXPECT_EQ(compress(GetParam(), 1, raw, out).error().code, Code::bad_argument);
}

INSTANTIATE_TEST_SUITE_P(Codecs, RoundTrip, testing::ValuesIn(all_codecs()),
                         [](const auto& info) { return to_string(info.param); });

TEST(Codec, GroupingMakesNumbersSmaller) {
    auto ratio = [](Codec codec, const char* kind) {
        const Bytes& raw = make_data(kind, 1 << 20);
        return static_cast<double>(pack(codec, 1, raw).size()) / static_cast<double>(raw.size());
    };
    EXPECT_GT(ratio(Codec::lz4, "weights_f32"), 0.95) << "plain LZ4 finds nothing in numbers";
    EXPECT_LT(ratio(Codec::group4, "weights_f32"), 0.835) << "exponents take 2.6 bits each";
    EXPECT_LT(ratio(Codec::group2, "weights_bf16"), 0.67);
    EXPECT_LT(ratio(Codec::group4, "indices_i32"), 0.5);
    EXPECT_LT(ratio(Codec::lz4, "text"), 0.1);
    EXPECT_LT(ratio(Codec::zstd, "text"), ratio(Codec::lz4, "text"));
    EXPECT_LE(ratio(Codec::group4, "random"), 1.001) << "never much larger than plain";
}

TEST(Codec, WireNumbers) {
    EXPECT_EQ(codec_from_wire(1).value(), Codec::lz4);
    EXPECT_EQ(codec_from_wire(k_codec_count).error().code, Code::unsupported);
    EXPECT_EQ(codec_from_wire(255).error().code, Code::unsupported);
    EXPECT_EQ(max_packed_bytes(Codec::lz4, k_max_chunk_bytes + 1), 0u);
    Bytes room(2000);
    EXPECT_EQ(compress(Codec::zstd, 20, as_bytes("x"), room).error().code, Code::bad_argument);
}

TEST(Codec, GroupsAreInOrder) {
    Bytes raw = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}, std::byte{6}, std::byte{7}};
    Bytes grouped(raw.size()), again(raw.size());
    group_bytes_of(2, {}, raw, grouped.data());
    // Each number is turned by one bit: 0x0201 becomes 0x0402.
    EXPECT_EQ(grouped,
              (Bytes{std::byte{2}, std::byte{6}, std::byte{10}, std::byte{4}, std::byte{8}, std::byte{12}, std::byte{7}}));
    ungroup_bytes_of(2, {}, grouped, again.data());
    EXPECT_EQ(raw, again);
}

TEST(Codec, ExponentsAreCodedWithTheFractionBehindThem_B4) {
    // -1.75 is 0xbfe00000, its exponent 127; 127 - 120 and 0b110 come last, the sign alone of what else is not 0.
    const float number = -1.75f;
    Bytes grouped(sizeof number), again(sizeof number);
    group_bytes_of(4, {true, 120}, as_bytes(&number, sizeof number), grouped.data());
    EXPECT_EQ(grouped, (Bytes{std::byte{0b1000}, std::byte{0}, std::byte{0}, std::byte{0b00111'110}}));
    for (const uint16_t lowest : {0, 1, 120, 127, 128, 255, 65535}) {  // any window will do
        group_bytes_of(4, {true, lowest}, as_bytes(&number, sizeof number), grouped.data());
        ungroup_bytes_of(4, {true, lowest}, grouped, again.data());
        EXPECT_EQ(std::memcmp(again.data(), &number, sizeof number), 0) << lowest;
    }
}

/// Normally distributed numbers of this type and size.
template <typename T>
Bytes normal_numbers(double size) {
    std::mt19937 random(7);
    std::normal_distribution<T> normal(T{0}, static_cast<T>(size));
    std::vector<T> numbers((1 << 20) / sizeof(T));
    for (T& number : numbers) number = normal(random);
    const BytesView bytes = std::as_bytes(std::span(numbers));
    return Bytes(bytes.begin(), bytes.end());
}

TEST(Codec, RandomNumbersOfAnySizeComeCloseToTheirEntropy_B4) {
    const auto check = [](Codec codec, const Bytes& raw, double most) {
        EXPECT_TRUE(exponent_window(codec == Codec::group4 ? 4 : 8, raw).is_used);
        const Bytes packed = pack(codec, 0, raw);
        EXPECT_LT(static_cast<double>(packed.size()), most * static_cast<double>(raw.size()));
        Bytes again(raw.size());
        ASSERT_TRUE(decompress(codec, packed, again).ok());
        EXPECT_EQ(raw, again);
    };
    // Exponents alone: 0.8310 and, of doubles, 0.917.
    for (const double size : {1e-30, 1e-6, 0.02, 1.0, 3e4}) check(Codec::group4, normal_numbers<float>(size), 0.8300);
    for (const double size : {1e-100, 0.02, 1.0, 1e30}) check(Codec::group8, normal_numbers<double>(size), 0.9155);
}

TEST(Codec, OnlyExponentsOfRandomNumbersAreTakenWithTheirFractions_B4) {
    for (const std::string& kind : data_kinds())
        EXPECT_EQ(exponent_window(4, make_data(kind, k_group_block_bytes)).is_used, kind.starts_with("weights")) << kind;
    EXPECT_TRUE(exponent_window(2, make_data("weights_bf16", k_group_block_bytes)).is_used);
    EXPECT_FALSE(exponent_window(4, make_data("weights_f32", 1000)).is_used) << "too few to tell";
}

}  // namespace
}  // namespace warpline::compress
