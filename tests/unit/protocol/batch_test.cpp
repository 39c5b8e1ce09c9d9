// Tests of batches of calls.
#include "protocol/codec/batch.h"

#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;

constexpr unsigned k_args_words = capnp::_::structSize<wire::Drain>().total();

// Drain stands for any arguments: a number and a text.
Result<size_t> append(BatchBuilder& batch, uint32_t value, std::string_view text, BytesView payload = {},
                      unsigned words = k_args_words + 100) {
    return batch.append<wire::Drain>(
        CallHeader{static_cast<uint16_t>(value), value % 2 == 0, value + 1, value + 2}, words,
        [&](wire::Drain::Builder args) {
            args.setSecondsLeft(value);
            args.setReason(kj::StringPtr(std::string(text).c_str()));
        },
        payload);
}

struct Finished {
    Buffer body;
    Buffer payload;
};

Finished sample_batch() {
    BatchBuilder batch;
    batch.begin(41);
    EXPECT_TRUE(append(batch, 1, "first", as_bytes("abc")).ok());
    EXPECT_TRUE(append(batch, 2, "second, longer than the first").ok());
    EXPECT_TRUE(append(batch, 3, "", as_bytes("defgh")).ok());
    Finished out;
    batch.finish(out.body, out.payload);
    return out;
}

// Reads all of a batch, arguments included, as a server does.
Result<size_t> read_all(BytesView body, BytesView payload) {
    auto reader = WL_TRY(BatchReader::open(body, payload));
    size_t bytes = 0;
    while (WL_TRY(reader.next())) {
        const CallView& call = reader.call();
        WL_TRY(guarded([&] { bytes += call.args<wire::Drain>().getReason().size() + call.payload.size(); }));
    }
    return bytes;
}

TEST(Batch, ComesBackAsItWasBuilt_B1) {
    Finished batch = sample_batch();
    auto reader = BatchReader::open(batch.body.view(), batch.payload.view());
    ASSERT_TRUE(reader.ok()) << reader.error().what;
    EXPECT_EQ(reader->header().first_call, 41u);
    EXPECT_EQ(reader->header().count, 3u);
    const char* texts[] = {"first", "second, longer than the first", ""};
    const char* payloads[] = {"abc", "", "defgh"};
    for (uint32_t i = 0; i < 3; ++i) {
        auto more = reader->next();
        ASSERT_TRUE(more.ok() && *more) << i;
        const CallView& call = reader->call();
        EXPECT_EQ(call.number, 41u + i);
        EXPECT_EQ(call.header.id, i + 1);
        EXPECT_EQ(call.header.wants_reply, (i + 1) % 2 == 0);
        EXPECT_EQ(call.header.thread, i + 2);
        EXPECT_EQ(call.header.context, i + 3);
        EXPECT_EQ(as_text(call.payload), payloads[i]);
        EXPECT_FALSE(call.streamed);
        EXPECT_TRUE(guarded([&] {
                        EXPECT_EQ(call.args<wire::Drain>().getSecondsLeft(), i + 1);
                        EXPECT_STREQ(call.args<wire::Drain>().getReason().cStr(), texts[i]);
                    }).ok());
    }
    auto more = reader->next();
    ASSERT_TRUE(more.ok());
    EXPECT_FALSE(*more);
}

TEST(Batch, CostsWhatBothSidesCount_B2) {
    BatchBuilder batch;
    batch.begin(1);
    size_t cost = 0;
    for (uint32_t i = 0; i < 10; ++i) cost += *append(batch, i, "some text", as_bytes("payload"));
    Finished out;
    batch.finish(out.body, out.payload);
    FrameHeader header;
    header.body_bytes = static_cast<uint32_t>(out.body.size());
    header.payload_raw_bytes = static_cast<uint32_t>(out.payload.size());
    EXPECT_EQ(credit_cost(*read_batch_header(out.body.view()), header), cost);
}

TEST(Batch, ACallThatIsLargerThanAnnouncedIsRefusedAndTheRestStays_F3) {
    BatchBuilder batch;
    batch.begin(1);
    ASSERT_TRUE(append(batch, 1, "fits").ok());
    std::string long_text(200, 'x');
    EXPECT_EQ(append(batch, 2, long_text, as_bytes("lost"), k_args_words + 2).error().code, Code::malformed);
    EXPECT_EQ(batch.count(), 1u);
    ASSERT_TRUE(append(batch, 3, "fits, too").ok());
    Finished out;
    batch.finish(out.body, out.payload);
    auto total = read_all(out.body.view(), out.payload.view());
    ASSERT_TRUE(total.ok()) << total.error().what;
    EXPECT_EQ(*total, 4u + 9u);
}

TEST(Batch, ReusedBuffersAreCleared) {
    BatchBuilder batch;
    Finished out;
    for (int round = 0; round < 3; ++round) {
        batch.begin(1);
        ASSERT_TRUE(append(batch, 0xFFFFFFFF, std::string(300, '\xFF')).ok());
        batch.finish(out.body, out.payload);
        (void)out.body.resize(out.body.capacity());
        std::memset(out.body.data(), 0xFF, out.body.size());  // as used by anything else
        batch.begin(1);
        // HostCall leaves its only field unset: what was in the buffer would show.
        ASSERT_TRUE(batch.append<wire::HostCall>(CallHeader{}, 4, [](wire::HostCall::Builder) {}).ok());
        batch.finish(out.body, out.payload);
        auto reader = BatchReader::open(out.body.view(), out.payload.view());
        ASSERT_TRUE(reader.ok() && *reader->next());
        EXPECT_EQ(reader->call().args<wire::HostCall>().getId(), 0u);
        EXPECT_EQ(reader->call().header.context, 0u);
    }
}

TEST(Batch, GrowsAsNeeded_B2) {
    BatchBuilder batch;
    batch.begin(1);
    Bytes payload = pattern(1000);
    for (uint32_t i = 0; i < 2000; ++i) ASSERT_TRUE(append(batch, i, "a text", payload).ok());
    Finished out;
    batch.finish(out.body, out.payload);
    EXPECT_EQ(*read_all(out.body.view(), out.payload.view()), 2000u * 1006u);
}

TEST(Batch, RefusesWhatNoFrameCarries_F3) {
    BatchBuilder batch;
    batch.begin(1);
    EXPECT_EQ(append(batch, 1, "", {}, (8u << 20) / 8).error().code, Code::quota);
    Bytes payload((8u << 20) + 1);
    EXPECT_EQ(append(batch, 1, "", payload).error().code, Code::quota);
    EXPECT_TRUE(batch.empty());
}

TEST(Batch, MarksAStreamedPayload_B3) {
    BatchBuilder batch;
    batch.begin(5);
    ASSERT_TRUE(append(batch, 1, "first", as_bytes("abc")).ok());
    ASSERT_TRUE(batch
                    .append_streamed<wire::HostCall>(
                        CallHeader{}, 4, [](wire::HostCall::Builder) {}, 1u << 30)
                    .ok());
    Finished out;
    batch.finish(out.body, out.payload);
    auto reader = BatchReader::open(out.body.view(), out.payload.view());
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(reader->header().streamed_bytes, 1u << 30);
    ASSERT_TRUE(*reader->next());
    EXPECT_FALSE(reader->call().streamed);
    ASSERT_TRUE(*reader->next());
    EXPECT_TRUE(reader->call().streamed);
    EXPECT_EQ(reader->call().payload_bytes, 1u << 30);
    EXPECT_FALSE(*reader->next());
    // The next batch does not inherit it.
    ASSERT_TRUE(append(batch, 1, "x").ok());
    batch.finish(out.body, out.payload);
    EXPECT_EQ(BatchReader::open(out.body.view(), out.payload.view())->header().streamed_bytes, 0u);
}

TEST(Batch, CutOffAnywhereIsMalformed_F3) {
    Finished good = sample_batch();
    for (size_t size = 0; size < good.body.size(); ++size)
        EXPECT_EQ(read_all(good.body.view().first(size), good.payload.view()).error().code, Code::malformed) << size;
    for (size_t size = 0; size < good.payload.size(); ++size)
        EXPECT_EQ(read_all(good.body.view(), good.payload.view().first(size)).error().code, Code::malformed) << size;
    Bytes longer = copy(good.payload.view());
    longer.push_back(std::byte{1});
    EXPECT_EQ(read_all(good.body.view(), longer).error().code, Code::malformed);
}

TEST(Batch, EveryWordCorruptedIsHarmless_F3) {
    Finished good = sample_batch();
    size_t refused = 0;
    for (size_t at = 0; at < good.body.size(); at += 4) {
        for (uint32_t value : {0u, 1u, 2u, 5u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu, 0xFFFFFFFCu, 0x00010001u}) {
            Bytes bad = copy(good.body.view());
            std::memcpy(bad.data() + at, &value, 4);
            auto total = read_all(bad, good.payload.view());
            if (!total.ok()) {
                EXPECT_EQ(total.error().code, Code::malformed);
                ++refused;
            } else {
                EXPECT_LE(*total, bad.size() * 8);
            }
        }
    }
    EXPECT_GT(refused, 10u);
}

}  // namespace
}  // namespace warpline::protocol
