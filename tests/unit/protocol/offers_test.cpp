// Payloads whose hashes go ahead of them, and when they do.
#include <future>
#include <thread>

#include "protocol/codec/link.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::protocol::test {
namespace {

constexpr uint64_t k_chunk = 64 * 1024;

OutboxOptions offer_options() {
    OutboxOptions options;
    options.chunk_bytes = k_chunk;
    options.part_bytes = 16 * 1024;
    options.bulk_part_bytes = k_chunk;
    return options;
}

/// An outbox that makes offers, and hashes that are the chunk's number.
struct Offering {
    explicit Offering(bool was_found = true, CreditLimits credit = {}) : outbox(offer_options()) {
        outbox.set_credit(credit);
        outbox.begin_offers(k_chunk, 1);
        // How long the test takes to answer is not to decide whether an offer pays.
        outbox.note_round_trip(1);
        // As after a payload of which one chunk was asked for.
        if (was_found) (void)outbox.offered(0, 0, 1, 1, true);
    }
    ~Offering() { outbox.close(k_gone, true); }

    uint64_t add(BytesView payload) { return *add_long_call(outbox, payload, Lent::until_given_back); }
    /// Hashes what is to be hashed next, and offers it. @return how many chunks
    size_t offer_next() {
        Outbox::HashWork work;
        if (!outbox.next_to_hash(work)) return 0;
        offered_at = work.offset;
        only_asks = work.only_asks;
        EXPECT_TRUE(outbox.offer(work, Bytes(work.chunks.size() * 32), 1000).ok());
        return work.chunks.size();
    }
    std::vector<Frame> taken() { return frames_in(drain(outbox)); }
    /// The parts that leave now, each as where it begins and ends.
    std::vector<std::pair<uint64_t, uint64_t>> parts() {
        std::vector<std::pair<uint64_t, uint64_t>> parts;
        for (const Frame& frame : taken()) {
            if (frame.header.kind != FrameKind::bulk) continue;
            const auto part = read_bulk_header(frame.body.view(), frame.payload.size());
            EXPECT_TRUE(part.ok() && part->keep);
            if (!parts.empty() && parts.back().second == part->offset) {
                parts.back().second += frame.payload.size();
            } else {
                parts.emplace_back(part->offset, part->offset + frame.payload.size());
            }
        }
        return parts;
    }

    Outbox outbox;
    uint64_t offered_at = 0;
    bool only_asks = false;
};
using Parts = std::vector<std::pair<uint64_t, uint64_t>>;

TEST(Offers, NothingOfAPayloadLeavesBeforeItIsAnsweredWhichChunksAreThere_B7) {
    Offering client;
    const Bytes payload = pattern(40 * k_chunk + 100);
    const uint64_t call = client.add(payload);
    EXPECT_EQ(client.parts(), Parts{});
    ASSERT_EQ(client.offer_next(), 1u) << "the first answer comes soonest for one";
    ASSERT_EQ(client.offer_next(), 4u);
    EXPECT_EQ(client.offered_at, k_chunk);
    const auto frames = client.taken();
    ASSERT_EQ(frames.size(), 2u);
    EXPECT_EQ(frames[0].header.kind, FrameKind::event);
    ASSERT_TRUE(client.outbox.offered(call, 0, 1, 1, false).ok());
    EXPECT_EQ(client.parts(), Parts{});
    ASSERT_TRUE(client.outbox.offered(call, k_chunk, 4, 0b1001, false).ok());
    EXPECT_EQ(client.parts(), (Parts{{2 * k_chunk, 4 * k_chunk}}));
    EXPECT_EQ(client.outbox.offer_counters().asked_chunks, 5u);
    EXPECT_EQ(client.outbox.offer_counters().found_chunks, 4u) << "with the one before";
    EXPECT_EQ(client.outbox.offer_counters().found_bytes, 3 * k_chunk);
}

TEST(Offers, APayloadOfWhichAllIsThereIsOverWithTheLastAnswer_B7) {
    Offering client;
    const Bytes payload = pattern(10 * k_chunk + 100);
    std::thread server([&] {
        for (uint64_t at = 0; at < payload.size();) {
            const size_t chunks = client.offer_next();
            EXPECT_TRUE(client.outbox.offered(1, at, static_cast<uint32_t>(chunks), (1u << chunks) - 1, false).ok());
            at += chunks * k_chunk;
        }
    });
    EXPECT_TRUE(add_long_call(client.outbox, payload, Lent::until_return).ok());
    server.join();
    EXPECT_EQ(client.parts(), Parts{});
    EXPECT_EQ(client.outbox.offer_counters().found_bytes, payload.size());
}

TEST(Offers, WhatTheServerDoesNotHaveIsSentAndSoonNoMoreIsAsked_B7) {
    Offering client;
    const Bytes payload = pattern(40 * k_chunk);
    const uint64_t call = client.add(payload);
    uint64_t at = 0;
    for (size_t chunks = client.offer_next(); at < 8 * k_chunk; chunks = client.offer_next()) {
        ASSERT_TRUE(client.outbox.offered(call, at, static_cast<uint32_t>(chunks), 0, false).ok());
        at += chunks * k_chunk;
        if (at >= 6 * k_chunk) break;
    }
    EXPECT_LE(client.outbox.offer_counters().asked_chunks, 9u);
    const Parts all = client.parts();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0], std::make_pair(uint64_t{0}, uint64_t{40 * k_chunk}));
}

TEST(Offers, CreditIsSpentForWhatIsOffered_B7) {
    // Room for eight chunks: what is offered has it, and the ninth waits for the server.
    Offering client(true, {8 * k_chunk + 4096, 100});
    const Bytes payload = pattern(20 * k_chunk);
    const uint64_t call = client.add(payload);
    size_t offered = 0;
    while (offered < 8) offered += client.offer_next();
    EXPECT_EQ(offered, 8u);
    ASSERT_TRUE(client.outbox.offered(call, 0, 1, 0, false).ok());
    ASSERT_TRUE(client.outbox.offered(call, k_chunk, 4, 0, false).ok());
    EXPECT_EQ(client.parts(), (Parts{{0, 5 * k_chunk}})) << "it has its credit already";
    std::promise<size_t> next;
    std::thread hashes([&] { next.set_value(client.offer_next()); });
    auto waits = next.get_future();
    while (!client.outbox.has_waiters()) std::this_thread::yield();
    EXPECT_EQ(waits.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    ASSERT_TRUE(client.outbox.offered(call, 5 * k_chunk, 3, 7, false).ok());
    ASSERT_TRUE(client.outbox.progress(1, 4 * k_chunk).ok());
    EXPECT_GT(waits.get(), 0u);
    hashes.join();
}

TEST(Offers, AnswersToWhatWasNotOfferedEndTheConnection_B7) {
    Offering client;
    const Bytes payload = pattern(20 * k_chunk);
    const uint64_t call = client.add(payload);
    EXPECT_FALSE(client.outbox.offered(call, 0, 1, 1, false).ok());
    ASSERT_EQ(client.offer_next(), 1u);
    EXPECT_FALSE(client.outbox.offered(call + 1, 0, 1, 1, false).ok());
    EXPECT_FALSE(client.outbox.offered(call, 0, 2, 1, false).ok());
    EXPECT_FALSE(client.outbox.offered(call, 0, 0, 0, false).ok());
    EXPECT_FALSE(client.outbox.offered(call, 0, 1, 2, false).ok());
    EXPECT_FALSE(client.outbox.offered(call, 1, 1, 1, false).ok());
    EXPECT_FALSE(client.outbox.offered(call, ~uint64_t{0}, 1, 1, false).ok());
    EXPECT_FALSE(client.outbox.offered(call, k_chunk, 1, 1, false).ok());
    EXPECT_TRUE(client.outbox.offered(call, 0, 1, 1, false).ok());
    EXPECT_FALSE(client.outbox.offered(call, 0, 1, 1, false).ok()) << "twice";
    Outbox without;
    EXPECT_FALSE(without.offered(1, 0, 1, 1, false).ok());
}

TEST(Offers, AnOfferAndItsAnswerSurviveAnotherConnection_B7_C2) {
    Offering client;
    const Bytes payload = pattern(20 * k_chunk);
    const uint64_t call = client.add(payload);
    ASSERT_EQ(client.offer_next(), 1u);
    ASSERT_EQ(client.taken().size(), 2u);
    client.outbox.detach(k_command_lane);
    ASSERT_EQ(client.offer_next(), 4u);
    EXPECT_TRUE(client.taken().empty());
    ASSERT_TRUE(client.outbox.attach(k_command_lane, 1).ok());  // the batch has come, and the offer has not
    const auto again = client.taken();
    ASSERT_EQ(again.size(), 2u);
    EXPECT_EQ(again[0].header.sequence, 2u);
    EXPECT_TRUE(client.outbox.offered(call, 0, 1, 1, false).ok());
    EXPECT_TRUE(client.outbox.offered(call, k_chunk, 4, 0, false).ok());
    EXPECT_EQ(client.parts(), (Parts{{k_chunk, 5 * k_chunk}}));
}

TEST(Offers, WhoClosesSendsWhatIsNotHashed_B7) {
    Offering client;
    const Bytes payload = pattern(20 * k_chunk);
    (void)client.add(payload);
    client.outbox.close(k_gone, false);
    EXPECT_EQ(client.offer_next(), 0u);
    EXPECT_EQ(client.parts(), (Parts{{0, 20 * k_chunk}}));
}

TEST(Offers, MemoryIsNotGivenBackWhileSomebodyHashesIt_B7) {
    Offering client;
    const Bytes payload = pattern(20 * k_chunk);
    (void)client.add(payload);
    Outbox::HashWork work;
    ASSERT_TRUE(client.outbox.next_to_hash(work));
    client.outbox.close(k_gone, true);
    std::atomic<bool> back{false};
    std::thread program([&] {
        client.outbox.give_back(payload);
        back = true;
    });
    while (!client.outbox.has_waiters()) std::this_thread::yield();
    EXPECT_FALSE(back);
    (void)client.outbox.offer(work, Bytes(work.chunks.size() * 32), 1000);
    program.join();
}

TEST(Offers, AtFirstOneChunkIsAskedForWhileItIsSent_B7) {
    Offering client(false);
    const Bytes payload = pattern(20 * k_chunk);
    (void)client.add(payload);
    ASSERT_EQ(client.offer_next(), 1u);
    EXPECT_TRUE(client.only_asks);
    const Parts before = client.parts();
    ASSERT_EQ(before.size(), 1u);
    EXPECT_GT(before[0].second, 10 * k_chunk);
    EXPECT_LE(before[0].second, 16 * k_chunk) << "what may have been there all the same";
    ASSERT_TRUE(client.outbox.offered(1, 0, 1, 0, true).ok());
    EXPECT_EQ(client.parts(), (Parts{{before[0].second, 20 * k_chunk}}));
    ASSERT_TRUE(client.outbox.offered(1, 0, 1, 1, true).ok());
    // Now the next one is worth asking for.
    const uint64_t call = client.add(payload);
    ASSERT_EQ(client.offer_next(), 1u);
    EXPECT_FALSE(client.only_asks);
    ASSERT_TRUE(client.outbox.offered(call, 0, 1, 1, false).ok());
    EXPECT_EQ(client.outbox.offer_counters().sampled_chunks, 1u);
}

TEST(Offers, WhatIsBeingSentIsOfferedFromTheNextChunkOnWhenOneIsFound_B7) {
    Offering client(false);
    const Bytes payload = pattern(200 * k_chunk);
    (void)client.add(payload);
    ASSERT_EQ(client.offer_next(), 1u);
    // A part of the second chunk has left.
    uint64_t sent = 0;
    while (sent <= k_chunk)
        for (const FrameKind kind : burst_of(client.outbox)) sent += kind == FrameKind::bulk ? 16 * 1024 : 0;
    ASSERT_EQ(sent, k_chunk + 16 * 1024);
    ASSERT_TRUE(client.outbox.offered(1, 0, 1, 1, true).ok());
    EXPECT_EQ(client.parts(), (Parts{{sent, 2 * k_chunk}})) << "what is left of the chunk";
    ASSERT_EQ(client.offer_next(), 1u);
    EXPECT_EQ(client.offered_at, 2 * k_chunk);
    ASSERT_TRUE(client.outbox.offered(1, 2 * k_chunk, 1, 1, false).ok());
    EXPECT_EQ(client.parts(), Parts{});
}

TEST(Offers, WhatDidNotPayAtFirstIsOfferedFromTheChunkOnWhereItDoes_B7) {
    Offering client;
    client.outbox.note_round_trip(1'000'000);
    const Bytes payload = pattern(200 * k_chunk);
    const uint64_t call = client.add(payload);
    ASSERT_EQ(client.offer_next(), 1u);
    EXPECT_TRUE(client.only_asks) << "the answer would take longer than the bytes";
    uint64_t sent = 0;
    while (sent <= k_chunk)
        for (const FrameKind kind : burst_of(client.outbox)) sent += kind == FrameKind::bulk ? 16 * 1024 : 0;
    ASSERT_EQ(sent, k_chunk + 16 * 1024);
    client.outbox.note_round_trip(1);
    ASSERT_TRUE(client.outbox.acknowledge(k_command_lane, 1).ok());
    EXPECT_EQ(client.parts(), (Parts{{sent, 2 * k_chunk}})) << "what is left of the chunk";
    ASSERT_EQ(client.offer_next(), 1u);
    EXPECT_FALSE(client.only_asks);
    EXPECT_EQ(client.offered_at, 2 * k_chunk);
    ASSERT_TRUE(client.outbox.offered(call, 2 * k_chunk, 1, 1, false).ok());
    EXPECT_EQ(client.parts(), Parts{});
}

TEST(Offers, ASmallCreditMakesNone_B7) {
    Offering client(true, {3 * k_chunk, 100});
    const Bytes payload = pattern(2 * k_chunk);
    (void)client.add(payload);
    std::vector<FrameKind> kinds;
    for (const Frame& frame : client.taken()) kinds.push_back(frame.header.kind);
    ASSERT_GE(kinds.size(), 2u);
    for (size_t i = 1; i < kinds.size(); ++i) EXPECT_EQ(kinds[i], FrameKind::bulk);
}

// --- when it pays ---

constexpr OfferPolicy::Link k_slow{8, 200'000}, k_fast{0.8, 50'000}, k_far{8, 30'000'000};
constexpr uint64_t k_mib = 1 << 20;

TEST(OfferPolicy, AsksOnSlowLinksAndNotOnFastOnes_B7) {
    OfferPolicy policy(1);
    EXPECT_TRUE(policy.choose(256 * k_mib, k_mib, k_slow).samples);
    policy.answered(k_mib, true, true);
    EXPECT_TRUE(policy.choose(256 * k_mib, k_mib, k_slow).hashes_first);
    EXPECT_TRUE(policy.choose(4 * k_mib, k_mib, k_slow).hashes_first);
    EXPECT_TRUE(policy.choose(256 * k_mib, k_mib, {}).hashes_first) << "of a fresh connection nobody knows";
    const auto fast = policy.choose(256 * k_mib, k_mib, k_fast);
    EXPECT_FALSE(fast.hashes_first || fast.samples);
    EXPECT_FALSE(OfferPolicy::keeps(k_fast));
    EXPECT_TRUE(OfferPolicy::keeps(k_slow));
    EXPECT_TRUE(OfferPolicy::keeps({}));
}

TEST(OfferPolicy, OfWhatIsBeingSentItSaysWhetherHashesPayByNow_B7) {
    OfferPolicy policy(1);
    EXPECT_FALSE(policy.pays(64 * k_mib, k_mib, k_slow)) << "nothing was found";
    policy.answered(k_mib, true, true);
    EXPECT_FALSE(policy.pays(64 * k_mib, k_mib, k_fast));
    EXPECT_TRUE(policy.pays(64 * k_mib, k_mib, k_slow));
    EXPECT_FALSE(policy.pays(2 * k_mib, k_mib, k_far));
}

TEST(OfferPolicy, AnAnswerThatTakesLongerThanTheBytesIsNotWaitedFor_B7) {
    OfferPolicy policy(1);
    policy.answered(k_mib, true, true);
    EXPECT_FALSE(policy.choose(2 * k_mib, k_mib, k_far).hashes_first);
    EXPECT_TRUE(policy.choose(64 * k_mib, k_mib, k_far).hashes_first);
}

TEST(OfferPolicy, StopsWhenNothingIsFoundAndTriesNowAndThen_B7) {
    OfferPolicy policy(1);
    policy.answered(k_mib, true, true);
    for (int i = 0; i < 8; ++i) policy.answered(k_mib, false, false);
    EXPECT_FALSE(policy.goes_on());
    unsigned samples = 0;
    for (int i = 0; i < 64; ++i) {
        const auto choice = policy.choose(4 * k_mib, k_mib, k_slow);
        EXPECT_FALSE(choice.hashes_first);
        samples += choice.samples ? 1 : 0;
        if (choice.samples) policy.answered(k_mib, false, true);
    }
    EXPECT_EQ(samples, 16u) << "one for 16 MiB, and the first";
    policy.answered(k_mib, true, true);
    EXPECT_TRUE(policy.choose(4 * k_mib, k_mib, k_slow).hashes_first);
    EXPECT_FALSE(OfferPolicy(0).choose(4 * k_mib, k_mib, k_slow).samples) << "there is nothing yet";
}

TEST(OfferPolicy, ALinkThatStaysUnknownIsTriedWithAFewBytes_B7) {
    OfferPolicy policy(1);
    policy.answered(k_mib, true, true);
    uint64_t plain = 0, found = 0;
    for (int i = 0; i < 64; ++i) {
        const auto choice = policy.choose(16 * k_mib, k_mib, {});
        EXPECT_TRUE(choice.hashes_first);
        plain += choice.plain_bytes;
        found += 16 * k_mib;
        for (int chunk = 0; chunk < 16; ++chunk) policy.answered(k_mib, true, false);
    }
    EXPECT_GT(plain, 0u);
    EXPECT_LE(plain * 200, found) << "half a per cent";
}

}  // namespace
}  // namespace warpline::protocol::test
