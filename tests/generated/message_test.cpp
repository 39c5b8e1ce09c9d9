// Every message of the API description: what is put in comes out, and whatever arrives instead of a message is refused or read
// as other values, without a crash and without taking memory.
#include <capnp/serialize.h>
#include <gtest/gtest.h>

#include "protocol/codec/message.h"
#include "tests/generated/allocation_count.h"
#include "tests/generated/message_case.h"

namespace warpline::tests {

namespace {

/// The message as it travels: one segment with its framing.
std::vector<uint64_t> encode(const MessageCase& message, const Values& values) {
    capnp::MallocMessageBuilder builder(1024);
    message.fill(builder.getRoot<capnp::AnyPointer>(), values);
    kj::Array<capnp::word> words = capnp::messageToFlatArray(builder);
    std::vector<uint64_t> copy(words.size());
    std::memcpy(copy.data(), words.begin(), words.size() * sizeof(capnp::word));
    return copy;
}

Result<int> decode(const MessageCase& message, BytesView bytes, const Values& values) {
    return protocol::read_message<capnp::AnyPointer>(
        bytes, [&](capnp::AnyPointer::Reader root) -> Result<int> { return message.difference(root, values); });
}

BytesView view(const std::vector<uint64_t>& words) { return as_bytes(words.data(), words.size() * sizeof(uint64_t)); }

class MessageTest : public testing::TestWithParam<MessageCase> {};

TEST_P(MessageTest, B1_every_field_survives) {
    for (uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
        Values values(seed, -1);
        auto words = encode(GetParam(), values);
        auto differing = decode(GetParam(), view(words), values);
        ASSERT_TRUE(differing.ok()) << differing.error().what;
        EXPECT_EQ(*differing, -1) << "field " << *differing << " with seed " << seed;
    }
}

TEST_P(MessageTest, B1_every_field_influences_the_bytes) {
    Values plain(11, -1);
    auto words = encode(GetParam(), plain);
    for (int field = 0; field < GetParam().fields; ++field) {
        Values changed(11, field);
        auto other = encode(GetParam(), changed);
        EXPECT_NE(words, other) << "field " << field;
        auto differing = decode(GetParam(), view(other), plain);
        ASSERT_TRUE(differing.ok());
        EXPECT_EQ(*differing, field);
    }
}

TEST_P(MessageTest, F1_every_truncation_is_refused) {
    Values values(21, -1);
    auto words = encode(GetParam(), values);
    BytesView whole = view(words);
    for (size_t size = 0; size < whole.size(); ++size) {
        auto read = decode(GetParam(), whole.first(size), values);
        ASSERT_FALSE(read.ok()) << size << " of " << whole.size() << " bytes were accepted";
        EXPECT_EQ(read.error().code, Code::malformed);
    }
}

TEST_P(MessageTest, F1_every_corruption_is_harmless) {
    Values values(31, -1);
    const auto words = encode(GetParam(), values);
    const size_t limit_bytes = 64 * 1024 + 16 * words.size();
    for (size_t index = 0; index < words.size(); ++index) {
        for (uint64_t pattern : {uint64_t{0}, ~uint64_t{0}, words[index] ^ 1, words[index] ^ 2, words[index] ^ 0x80000000u,
                                 words[index] ^ 0x7ffffffc00000000u, words[index] + 4, words[index] ^ 0x0101010101010101u,
                                 (words[index] & 3) | 0xfffffffffffffff8u, uint64_t{0xfffffff900000001u}}) {
            auto corrupt = words;
            corrupt[index] = pattern;
            size_t before = allocated_bytes();
            auto read = decode(GetParam(), view(corrupt), values);
            size_t taken = allocated_bytes() - before;
            EXPECT_LE(taken, limit_bytes) << "word " << index << ", pattern " << pattern;
            EXPECT_TRUE(read.ok() || read.error().code == Code::malformed);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, MessageTest, testing::ValuesIn(all_messages()),
                         [](const testing::TestParamInfo<MessageCase>& info) { return std::string(info.param.name); });

TEST(Messages, B1_there_is_one_for_each_call_that_travels) { EXPECT_GT(all_messages().size(), 200u); }

}  // namespace

}  // namespace warpline::tests
