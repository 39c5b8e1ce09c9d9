// Tests of Cap'n Proto messages in batches.
#include "protocol/codec/message.h"

#include "protocol/schema/envelope.capnp.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;

Buffer sample_hello() {
    auto built = build_message<wire::Hello>([](wire::Hello::Builder hello) {
        hello.setVersionMin(1);
        hello.setVersionMax(3);
        hello.setProgram("vector_add");
        hello.setHost("node-17");
        hello.setPid(4711);
    });
    EXPECT_TRUE(built.ok());
    return std::move(built).value();
}

TEST(Message, ComesBackAsItWasBuilt_B1) {
    Buffer bytes = sample_hello();
    bool read = false;
    auto result = read_message<wire::Hello>(bytes.view(), [&](wire::Hello::Reader hello) {
        EXPECT_EQ(hello.getVersionMax(), 3);
        EXPECT_STREQ(hello.getProgram().cStr(), "vector_add");
        EXPECT_EQ(hello.getPid(), 4711u);
        read = true;
    });
    EXPECT_TRUE(result.ok());
    EXPECT_TRUE(read);
}

TEST(Message, OfManySegmentsTravelsAsOne_B1) {
    auto built = build_message<wire::HelloReply>([](wire::HelloReply::Builder reply) {
        auto devices = reply.initDevices(64);
        for (auto device : devices) {
            device.setName("A device with a name of some length");
            device.initAttributes(140);
        }
    });
    ASSERT_TRUE(built.ok());
    EXPECT_EQ(*message_bytes_at(built->view()), built->size());
    auto result = read_message<wire::HelloReply>(built->view(), [](wire::HelloReply::Reader reply) -> Result<size_t> {
        return size_t{reply.getDevices()[63].getAttributes().size()};
    });
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(*result, 140u);
}

TEST(Message, CutOffAnywhereIsMalformed_F3) {
    Buffer good = sample_hello();
    for (size_t size = 0; size < good.size(); ++size) {
        auto result = read_message<wire::Hello>(good.view().first(size), [](wire::Hello::Reader) {});
        EXPECT_EQ(result.error().code, Code::malformed) << size;
    }
}

void read_everything(wire::Hello::Reader hello, size_t& bytes) {
    bytes += hello.getProgram().size() + hello.getHost().size() + hello.getClientVersion().size() + hello.getUnused10().size() +
             hello.getUnused11().size() + hello.getVisibleDevices().size();
}

TEST(Message, EveryWordCorruptedIsHarmless_F3) {
    Buffer good = sample_hello();
    size_t refused = 0;
    for (size_t at = 0; at < good.size(); at += 4) {
        for (uint32_t value : {0u, 1u, 2u, 3u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu, 0xFFFFFFFEu, 0x00010001u}) {
            Bytes bad = copy(good.view());
            std::memcpy(bad.data() + at, &value, 4);
            size_t bytes = 0;
            auto result = read_message<wire::Hello>(bad, [&](wire::Hello::Reader hello) { read_everything(hello, bytes); });
            if (!result.ok()) {
                EXPECT_EQ(result.error().code, Code::malformed);
                ++refused;
            }
            EXPECT_LE(bytes, good.size() * 8);
        }
    }
    EXPECT_GT(refused, 0u);
}

// A list of a billion elements of no size: a few bytes that would keep a naive reader busy for a long time.
TEST(Message, AmplificationIsBounded_F3) {
    uint64_t words[3] = {};
    words[0] = uint64_t{2} << 32;                                  // one segment of two words
    words[1] = 1ull << 48;                                         // root: struct, no data, one pointer
    words[2] = 0x1 | (uint64_t{0} << 32) | (0x1FFFFFFFull << 35);  // list of void, 2^29-1 elements
    size_t visited = 0;
    auto result = read_message<wire::HelloReply>(as_bytes(words, sizeof words), [&](wire::HelloReply::Reader reply) {
        (void)reply.getError();
        for (auto device : reply.getDevices()) visited += device.getComputeMajor() + 1;
    });
    EXPECT_LE(visited, 1000000u);
    (void)result;
}

TEST(Message, GuardedTurnsExceptionsIntoErrors) {
    EXPECT_EQ(guarded([] { KJ_FAIL_REQUIRE("no"); }).error().code, Code::malformed);
    EXPECT_EQ(guarded([] { throw std::bad_alloc(); }).error().code, Code::alloc_failed);
    auto value = guarded([]() -> Result<int> { return 3; });
    EXPECT_EQ(*value, 3);
}

}  // namespace
}  // namespace warpline::protocol
