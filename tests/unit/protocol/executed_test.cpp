// Lists of executed calls (E8): what comes out is what went in, and nothing hostile passes (F3).
#include "protocol/codec/executed.h"

#include <gtest/gtest.h>

#include <limits>

namespace warpline::protocol {
namespace {

TEST(Executed, comes_out_as_it_went_in_E8) {
    constexpr uint64_t k_most = std::numeric_limits<uint64_t>::max();
    const std::vector<ExecutedCall> calls = {{1, 0x301, 1, 1'000'000'000'000, 250},
                                             {2, 0x302, 1, 1'000'000'000'300, 0},
                                             {5, 7, 2, 999'999'999'999, k_most},  // of another thread, and earlier
                                             {3, 0xffff, 0xffff, 0, 1},
                                             {k_most, 0, 0, k_most, 0},
                                             {0, 1, 1, 0, 1}};
    const Bytes bytes = encode_executed(calls);
    const auto decoded = decode_executed(bytes, calls.size());
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, calls);
    EXPECT_TRUE(decode_executed({}, 0).ok());
}

TEST(Executed, a_storm_of_launches_takes_ten_bytes_each_E8) {
    std::vector<ExecutedCall> calls;
    for (uint64_t i = 0; i < 1000; ++i) calls.push_back({1 + i, 0x501, 1, 5'000'000'000'000 + i * 2500, 1800});
    EXPECT_LE(encode_executed(calls).size(), calls.size() * 10);
}

TEST(Executed, refuses_what_is_no_list_F3) {
    const std::vector<ExecutedCall> calls = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}};
    const Bytes bytes = encode_executed(calls);
    for (size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(decode_executed(BytesView(bytes).first(length), calls.size()).ok()) << length;
    EXPECT_FALSE(decode_executed(bytes, 1).ok()) << "something is behind it";
    EXPECT_FALSE(decode_executed(bytes, 3).ok());
    EXPECT_FALSE(decode_executed(bytes, k_most_executed_calls + 1).ok());
    const Bytes endless(64, std::byte{0xff});
    EXPECT_FALSE(decode_executed(endless, 1).ok());
    // An id has 16 bits.
    const Bytes wide = {std::byte{2}, std::byte{0x80}, std::byte{0x80}, std::byte{4}, std::byte{1}, std::byte{0}, std::byte{0}};
    EXPECT_FALSE(decode_executed(wide, 1).ok());
}

}  // namespace
}  // namespace warpline::protocol
