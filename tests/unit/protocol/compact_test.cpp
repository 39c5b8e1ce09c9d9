// Tests of calls that travel as what is different from earlier ones.
#include "protocol/codec/compact.h"

#include <random>

#include "protocol/codec/call_receiver.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;
using Words = std::vector<uint64_t>;

// A message: its framing and its words.
Bytes message_of(const Words& words) {
    Bytes out((words.size() + 1) * 8);
    const auto count = static_cast<uint32_t>(words.size());
    std::memcpy(out.data() + 4, &count, 4);
    std::memcpy(out.data() + 8, words.data(), words.size() * 8);
    return out;
}

// Both ends of a session's calls, and what was written between them.
struct Ends {
    CompactWriter writer{RememberedCalls::k_most_calls};
    CompactReader reader;
    Bytes expected;

    Bytes write(const Words& words, uint64_t key) {
        const Bytes message = message_of(words);
        Bytes out(CompactWriter::room(message.size()));
        out.resize(writer.write(message, key, out.data()));
        return out;
    }
    Result<Bytes> read(BytesView items, uint32_t count, size_t bytes) {
        Bytes out(bytes);
        WL_TRY(reader.expand(items, count, out));
        return out;
    }
    // One call there; the bytes that it took.
    size_t pass(const Words& words, uint64_t key) {
        const Bytes items = write(words, key);
        const Bytes message = message_of(words);
        auto read_back = read(items, 1, message.size());
        EXPECT_TRUE(read_back.ok()) << read_back.error().what;
        EXPECT_TRUE(read_back.ok() && *read_back == message);
        return items.size();
    }
};

TEST(Compact, ACallLikeAnotherTakesWhatIsDifferent_B6) {
    Ends ends;
    Words words(20, 0x1111111111111111);
    EXPECT_EQ(ends.pass(words, 1), 1 + 21 * 8u);
    EXPECT_EQ(ends.pass(words, 1), 2u);  // nothing
    words[7] ^= 0xFF00;
    EXPECT_EQ(ends.pass(words, 1), 2u + 2 + 1);  // a byte
    words[0] ^= 0xFF, words[19] ^= 0x00FF00FF;
    EXPECT_EQ(ends.pass(words, 1), 2u + 3 + 4);
    words[3] = words[4] = 0x2222222222222222;
    EXPECT_EQ(ends.pass(words, 1), 2u + 2 + 16);  // neighbours travel together
    EXPECT_EQ(ends.writer.alike(), 4u);
}

TEST(Compact, CallsOfSeveralKindsAreToldApart_B6) {
    Ends ends;
    for (uint64_t round = 0; round < 3; ++round)
        for (uint64_t kind = 0; kind < 1000; ++kind) {
            const size_t bytes = ends.pass(Words(5 + kind % 3, kind * 0x0101010101010101 ^ round), kind);
            if (round != 0) {
                EXPECT_LE(bytes, 3u + (5 + kind % 3) * 3) << kind;
            }
        }
    EXPECT_EQ(ends.writer.alike(), 2000u);
}

TEST(Compact, WhatIsRememberedIsBoundedAndForgotten_B6) {
    Ends many;
    for (uint64_t kind = 0; kind < 3 * RememberedCalls::k_most_calls; ++kind) many.pass(Words(4, kind), kind);
    EXPECT_LT(many.pass(Words(4, 1), 3 * RememberedCalls::k_most_calls - 1), 20u) << "the newest ones are known";
    Ends large;
    for (uint64_t kind = 0; kind < 500; ++kind) large.pass(Words(RememberedCalls::k_most_call_words, kind), kind);
    EXPECT_LT(large.pass(Words(RememberedCalls::k_most_call_words, 499), 499), 20u);
    // One that is too long is not remembered.
    const Words longer(RememberedCalls::k_most_call_words + 1, 7);
    EXPECT_EQ(large.pass(longer, 7), large.pass(longer, 7));
    EXPECT_LT(large.pass(Words(RememberedCalls::k_most_call_words, 499), 499), 20u) << "and nothing is forgotten for it";
}

TEST(Compact, RandomCallsComeBack_B6) {
    std::mt19937_64 random(6);
    Ends ends;
    std::vector<Words> kinds;
    for (size_t i = 0; i < 300; ++i) {
        Words words(1 + random() % (i % 50 == 0 ? 2000 : 60));
        for (uint64_t& word : words) word = random();
        kinds.push_back(words);
    }
    for (int call = 0; call < 20'000; ++call) {
        const size_t kind = random() % kinds.size();
        Words& words = kinds[kind];
        for (uint64_t changes = random() % 5; changes > 0; --changes) {
            const uint64_t mask = random() % 3 == 0 ? ~uint64_t{0} : uint64_t{0xFF} << random() % 57;
            for (size_t at = random() % words.size(), run = random() % 4; at < words.size() && run > 0; ++at, --run)
                words[at] ^= random() & mask;
        }
        const size_t bytes = ends.pass(words, kind);
        ASSERT_LE(bytes, CompactWriter::room((words.size() + 1) * 8));
        ASSERT_FALSE(HasFailure()) << call;
    }
}

// The worst that changes can be: written, they take no more room than there is.
TEST(Compact, TheWorstChangesFit_B6) {
    Ends ends;
    for (const size_t size : {size_t{1}, size_t{2}, size_t{3}, size_t{127}, size_t{128}, size_t{1024}}) {
        Words words(size, 0);
        ends.pass(words, size);
        for (size_t step = 1; step < 5; ++step) {
            for (size_t i = 0; i < size; i += step) words[i] ^= i % 2 == 0 ? 0x0101010101 : 0x0101010101010101;
            EXPECT_LE(ends.pass(words, size), CompactWriter::room((size + 1) * 8));
        }
    }
}

// --- hostile input ---

TEST(Compact, WhatIsCutOffIsMalformed_F3) {
    Ends ends;
    Words words(10, 5);
    Bytes items = ends.write(words, 1);
    words[3] = ~uint64_t{0}, words[5] = 6;
    const Bytes second = ends.write(words, 1);
    items.insert(items.end(), second.begin(), second.end());
    for (size_t size = 0; size < items.size(); ++size) {
        Bytes out(2 * 11 * 8);
        EXPECT_EQ(CompactReader().expand(BytesView(items).first(size), 2, out).error().code, Code::malformed) << size;
    }
    Bytes out(2 * 11 * 8);
    EXPECT_TRUE(CompactReader().expand(items, 2, out).ok());
}

TEST(Compact, EveryByteCorruptedIsHarmless_F3) {
    Ends ends;
    Words words(6, 5);
    Bytes items = ends.write(words, 1);
    for (int i = 0; i < 3; ++i) {
        words[static_cast<size_t>(i)] += 0x0100, words[5] = ~words[5];
        const Bytes more = ends.write(words, 1);
        items.insert(items.end(), more.begin(), more.end());
    }
    size_t refused = 0;
    for (size_t at = 0; at < items.size(); ++at)
        for (unsigned value = 0; value < 256; ++value) {
            Bytes bad = items;
            bad[at] = static_cast<std::byte>(value);
            Bytes out(4 * 7 * 8);
            const auto done = CompactReader().expand(bad, 4, out);
            if (!done.ok()) {
                EXPECT_EQ(done.error().code, Code::malformed);
                ++refused;
            }
        }
    EXPECT_GT(refused, items.size() * 10);
}

Bytes raw(std::initializer_list<unsigned> bytes) {
    Bytes out;
    for (const unsigned byte : bytes) out.push_back(static_cast<std::byte>(byte));
    return out;
}

// What a reader says that remembers one call of two words.
Code said_of(std::initializer_list<unsigned> items, size_t out_bytes = 24) {
    Ends ends;
    ends.pass({1, 2}, 1);
    Bytes out(out_bytes);
    const auto done = ends.reader.expand(raw(items), 1, out);
    return done.ok() ? Code::ok : done.error().code;
}

TEST(Compact, EachRuleIsChecked_F3) {
    EXPECT_EQ(said_of({0x00, 0x7F}), Code::ok);
    EXPECT_EQ(said_of({0x00, 0x7F, 0, 0, 0, 0, 0, 0, 0}), Code::ok) << "padding";
    EXPECT_EQ(said_of({0x00, 0x7F, 0, 0, 0, 0, 0, 0, 0, 0}), Code::malformed) << "too much of it";
    EXPECT_EQ(said_of({0x00, 0x7F, 1}), Code::malformed) << "padding that is none";
    EXPECT_EQ(said_of({0x01, 0x7F}), Code::malformed) << "a call that is not remembered";
    EXPECT_EQ(said_of({0xE0, 0x00, 0x7F}), Code::ok) << "a long number";
    EXPECT_EQ(said_of({0xE0, 0x01, 0x7F}), Code::malformed);
    EXPECT_EQ(said_of({0xEF, 0xFF, 0x7F}), Code::malformed);
    EXPECT_EQ(said_of({0xF0, 0x00, 0x7F}), Code::malformed) << "no such beginning";
    EXPECT_EQ(said_of({0xFF}), Code::malformed);
    EXPECT_EQ(said_of({0xFE, 0x00, 0x7F}), Code::malformed) << "forgotten";
    EXPECT_EQ(said_of({0xFE, 0xFE, 0x00, 0x7F}), Code::malformed);
    EXPECT_EQ(said_of({0x00, 0x01, 0x01, 9, 0x7F}), Code::ok) << "the last word";
    EXPECT_EQ(said_of({0x00, 0x02, 0x01, 9, 0x7F}), Code::malformed) << "the one behind it";
    EXPECT_EQ(said_of({0x00, 0x00, 0x00, 0x7F}), Code::malformed) << "a change of nothing";
    EXPECT_EQ(said_of({0x00, 0x80, 0x00, 0x7F}), Code::malformed) << "a run of nothing";
    EXPECT_EQ(said_of({0x00, 0x80, 0x03, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0x7F}),
              Code::malformed)
        << "a run that is longer than the call";
    EXPECT_EQ(said_of({0x00, 0x7E, 0x7F}), Code::malformed) << "skips more than there is";
    EXPECT_EQ(said_of({0x00, 0xFE, 0x01}), Code::malformed) << "a gap that means nothing";
    EXPECT_EQ(said_of({0x00, 0x7F}, 16), Code::malformed) << "more than the batch says";
    EXPECT_EQ(said_of({0x00, 0x7F}, 32), Code::malformed) << "less than the batch says";
    EXPECT_EQ(said_of({0xFD, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, 16), Code::ok) << "a whole call";
    EXPECT_EQ(said_of({0xFD, 1, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, 16), Code::malformed) << "of two segments";
    EXPECT_EQ(said_of({0xFD, 0, 0, 0, 0, 2, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, 24), Code::malformed) << "that is not all there";
}

TEST(Compact, MoreIsNotRememberedThanMayBe_F3) {
    // A writer that may remember twice as much as the reader does.
    CompactReader reader(10);
    CompactWriter writer(20);
    for (uint64_t kind = 0; kind < 11; ++kind) {
        const Bytes message = message_of({kind});
        Bytes items(CompactWriter::room(message.size())), out(message.size());
        items.resize(writer.write(message, kind, items.data()));
        EXPECT_EQ(reader.expand(items, 1, out).ok(), kind < 10);
    }
}

// --- batches ---

constexpr unsigned k_words = capnp::_::structSize<wire::Drain>().total() + 100;

void add(BatchBuilder& batch, uint32_t i) {
    const CallHeader header{static_cast<uint16_t>(i % 3), i % 5 == 0, i % 2, 7, i % 4};
    const auto fill = [&](wire::Drain::Builder args) {
        args.setSecondsLeft(i);
        args.setReason(i % 7 == 0 ? "another reason" : "a reason");
    };
    ASSERT_TRUE(batch.append<wire::Drain>(header, k_words, fill, BytesView(pattern(i % 10))).ok());
}

// The frame of a batch as it arrives.
Frame frame_of(BatchBuilder& batch) {
    Frame frame;
    batch.finish(frame.body, frame.payload);
    frame.header.kind = FrameKind::batch;
    frame.header.body_bytes = static_cast<uint32_t>(frame.body.size());
    frame.header.payload_bytes = frame.header.payload_raw_bytes = static_cast<uint32_t>(frame.payload.size());
    return frame;
}

TEST(CompactBatch, ArrivesAsIfItWereNot_B6) {
    BatchBuilder plain, compact;
    compact.remember(RememberedCalls::k_most_calls);
    CallReceiver one({1 << 20, 10'000}), other({1 << 20, 10'000}, true);
    plain.begin(1), compact.begin(1);
    for (int round = 0; round < 10; ++round) {
        for (uint32_t i = 0; i < 100; ++i) add(plain, i), add(compact, i);
        EXPECT_EQ(plain.expanded_bytes(), compact.expanded_bytes());
        auto a = one.accept_batch(frame_of(plain));
        Frame frame = frame_of(compact);
        if (round > 0) {
            EXPECT_LT(frame.body.size(), 100 * 16u);
        }
        auto b = other.accept_batch(std::move(frame));
        ASSERT_TRUE(a.ok() && b.ok()) << b.error().what;
        EXPECT_TRUE(copy(a->batch.body.view()) == copy(b->batch.body.view()));
        EXPECT_TRUE(copy(a->batch.payload.view()) == copy(b->batch.payload.view()));
        EXPECT_EQ(a->cost_bytes, b->cost_bytes) << "credit counts messages";
    }
}

TEST(CompactBatch, IsRefusedWhereItWasNotAgreedOn_F3) {
    BatchBuilder compact;
    compact.remember(10);
    compact.begin(1);
    add(compact, 1);
    CallReceiver receiver({1 << 20, 100});
    EXPECT_EQ(receiver.accept_batch(frame_of(compact)).error().code, Code::malformed);
}

TEST(CompactBatch, SaysHowLargeItIsAndIsHeldToIt_F3) {
    for (const uint32_t lie : {8u, 16u, 12u, 1u << 19, 9u << 20, 0xFFFFFFF8u}) {
        BatchBuilder compact;
        compact.remember(10);
        compact.begin(1);
        for (uint32_t i = 0; i < 3; ++i) add(compact, i);
        Frame frame = frame_of(compact);
        std::memcpy(frame.body.data() + 12, &lie, sizeof lie);
        CallReceiver receiver({1 << 20, 100}, true);
        EXPECT_EQ(receiver.accept_batch(std::move(frame)).error().code, Code::malformed) << lie;
    }
    // What it takes as messages is within the credit, or nothing is allocated for it.
    BatchBuilder compact;
    compact.remember(10);
    compact.begin(1);
    for (uint32_t i = 0; i < 100; ++i) add(compact, 1);
    Frame frame = frame_of(compact);
    ASSERT_LT(frame.body.size(), 1000u);
    CallReceiver receiver({4000, 1000}, true);
    EXPECT_EQ(receiver.accept_batch(std::move(frame)).error().code, Code::quota);
}

TEST(CompactBatch, EveryWordCorruptedIsHarmless_F3) {
    BatchBuilder compact;
    compact.remember(10);
    compact.begin(1);
    for (uint32_t i = 0; i < 6; ++i) add(compact, i % 2);
    const Frame good = frame_of(compact);
    size_t refused = 0;
    for (size_t at = 0; at < good.body.size(); at += 4)
        for (uint32_t value : {0u, 1u, 0x7F7F7F7Fu, 0x80000000u, 0xFFFFFFFFu, 0xFCFDFEFFu, 0x00010001u}) {
            Frame bad;
            ASSERT_TRUE(bad.body.append(good.body.view()) && bad.payload.append(good.payload.view()));
            bad.header = good.header;
            std::memcpy(bad.body.data() + at, &value, 4);
            CallReceiver receiver({1 << 20, 1000}, true);
            auto unit = receiver.accept_batch(std::move(bad));
            if (!unit.ok()) {
                ++refused;
                continue;
            }
            auto reader = BatchReader::open(unit->batch.body.view(), unit->batch.payload.view());
            ASSERT_TRUE(reader.ok());
            for (auto more = reader->next(); more.ok() && *more; more = reader->next())
                (void)guarded([&] { (void)reader->call().args<wire::Drain>().getReason().size(); });
        }
    EXPECT_GT(refused, 10u);
}

// --- what a launch takes ---

// A launch's message with four parameters of 8 bytes of which two are others each time: what travels, frames included.
TEST(CompactBatch, ALaunchTakesTwentyFourBytesAndItsParametersAtMost_B6) {
    OutboxOptions options;
    Outbox outbox(options);
    outbox.remember_calls(RememberedCalls::k_most_calls);
    constexpr uint32_t k_launches = 1000, k_kernels = 5;
    // 18 words, as a launch has.
    const auto launch = [&](uint64_t i) {
        const std::array<uint64_t, 4> parameters = {0x7F0000000000 + i * 4096, 0x7F1000000000, i, 42};
        return outbox.add_call<wire::Event>(
            CallHeader{0x1001, false, 1, 9, i % k_kernels}, 40,
            [&](wire::Event::Builder event) {
                auto drain = event.initDrain();
                drain.setSecondsLeft(static_cast<uint32_t>(i % k_kernels));
                drain.setReason(kj::StringPtr(std::string(64 + i % k_kernels * 8, 'g').c_str()));
                std::memcpy(drain.getReason().begin(), parameters.data(), sizeof parameters);
            },
            [](uint64_t) {});
    };
    for (uint32_t i = 0; i < k_kernels; ++i) ASSERT_TRUE(launch(i).ok());
    (void)drain(outbox);
    for (uint32_t i = 0; i < k_launches; ++i) ASSERT_TRUE(launch(i).ok());
    const size_t bytes = drain(outbox).size();
    EXPECT_LE(bytes, k_launches * 16u) << "changes of 3 and 2 bytes in two parameters";
    EXPECT_EQ(outbox.counters().calls_alike, k_launches);
}

// The worst: every byte of every parameter is another one, and the grid, too.
TEST(Compact, ParametersThatChangeCostLittleMoreThanTheirBytes_B6) {
    std::mt19937_64 random(24);
    for (const size_t parameters : {1, 4, 11, 30, 500}) {
        Ends ends;
        Words words(13 + parameters + (parameters + 1) / 2, 3);  // and the size of each
        ends.pass(words, 1);
        for (int launch = 0; launch < 100; ++launch) {
            words[6] ^= 0x1234;
            for (size_t i = 0; i < parameters; ++i) words[13 + i] = ~words[13 + i] ^ (random() & 0x7F7F7F7F7F7F7F7F);
            EXPECT_LE(ends.pass(words, 1), parameters * 8 + 10);
        }
    }
    // Every other one: 2 bytes more for each.
    Ends ends;
    Words words(40, 3);
    ends.pass(words, 1);
    for (size_t i = 13; i < 35; i += 2) words[i] = ~words[i];
    EXPECT_EQ(ends.pass(words, 1), 2u + 11 * (2 + 8));
}

// What was not acknowledged is sent again as the same bytes, and read once.
TEST(CompactBatch, GoesOnOverAnotherConnection_C2) {
    Outbox outbox;
    outbox.remember_calls(RememberedCalls::k_most_calls);
    CallReceiver receiver({1 << 20, 1000}, true);
    uint64_t received = 0, calls = 0;
    const auto receive = [&](const Bytes& stream) {
        for (Frame& frame : frames_in(stream)) {
            if (frame.header.sequence <= received) continue;
            ASSERT_EQ(frame.header.sequence, ++received);
            auto unit = receiver.accept_batch(std::move(frame));
            ASSERT_TRUE(unit.ok()) << unit.error().what;
            auto reader = BatchReader::open(unit->batch.body.view(), {});
            while (*reader->next()) EXPECT_EQ(reader->call().args<wire::HostCall>().getId(), ++calls * 3);
        }
    };
    uint64_t added = 0;
    const auto add_calls = [&] {
        for (int i = 0; i < 10; ++i, ++added) EXPECT_EQ(*add_test_call(outbox, (added + 1) * 3), added + 1);
    };
    add_calls();
    receive(drain(outbox));
    add_calls();
    (void)drain(outbox);  // lost
    outbox.detach(k_command_lane);
    add_calls();
    ASSERT_TRUE(outbox.attach(k_command_lane, received).ok());
    receive(drain(outbox));
    EXPECT_EQ(calls, 30u);
    outbox.detach(k_command_lane);
    ASSERT_TRUE(outbox.attach(k_command_lane, received - 1).ok());  // the peer has less than it had acknowledged
    receive(drain(outbox));
    add_calls();
    receive(drain(outbox));
    EXPECT_EQ(calls, 40u);
}

}  // namespace
}  // namespace warpline::protocol
