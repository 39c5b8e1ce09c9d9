// Tests of the MD2 digest, against RFC 1319.
#include "cuda/abi/md2.h"

#include <gtest/gtest.h>

#include <string>

namespace warpline::cuda::abi {
namespace {

std::string hex(const Md2Digest& digest) {
    std::string text;
    char buffer[3];
    for (uint8_t byte : digest) {
        snprintf(buffer, sizeof buffer, "%02x", byte);
        text += buffer;
    }
    return text;
}
std::string md2_of(std::string_view text) { return hex(md2(as_bytes(text))); }

// The test suite of RFC 1319, A.5.
TEST(Md2, Rfc1319) {
    EXPECT_EQ(md2_of(""), "8350e5a3e24c153df2275c9f80692773");
    EXPECT_EQ(md2_of("a"), "32ec01ec4a6dac72c0ab96fb34c0b5d1");
    EXPECT_EQ(md2_of("abc"), "da853b0d3f88d99b30283a69e6ded6bb");
    EXPECT_EQ(md2_of("message digest"), "ab4f496bfb2a530b219ff33031fe06b0");
    EXPECT_EQ(md2_of("abcdefghijklmnopqrstuvwxyz"), "4e8ddff3650292ab5a4108c3aa47940b");
    EXPECT_EQ(md2_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"), "da33def2a42df13975352846c30338cd");
    EXPECT_EQ(md2_of("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
              "d5976f79d83d3a0dc9806c3c66f3efd8");
}

// RFC 2104 has no vectors for MD2; these come from another implementation of both RFCs, whose table is computed from pi.
TEST(Md2, Hmac) {
    auto hmac = [](std::string_view key, std::string_view message) { return hex(hmac_md2(as_bytes(key), as_bytes(message))); };
    EXPECT_EQ(hmac("key", "The quick brown fox jumps over the lazy dog"), "13758b9534bfb38d850457814613b0c1");
    EXPECT_EQ(hmac("a key that is longer than one block", "x"), "bb3b6b57c44b8ba6e903822f5e69379a");
    EXPECT_EQ(hmac("", ""), "6f6e031223b36cd2a997787a03d16bf5");
}

}  // namespace
}  // namespace warpline::cuda::abi
