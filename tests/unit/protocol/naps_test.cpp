// Tests of the naps in which a writer lets calls gather.
#include <atomic>
#include <mutex>
#include <thread>

#include "protocol/codec/outbox.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;

void expect_that_everything_leaves(bool scarce, unsigned idle_naps) {
    OutboxOptions options;
    options.processors_scarce = scarce ? +[] { return true; } : +[] { return false; };
    options.nap = std::chrono::milliseconds(1);
    options.longest_nap = std::chrono::milliseconds(4);
    options.idle_naps = idle_naps;
    Outbox outbox(options);
    std::mutex writing;
    std::atomic<uint64_t> sent{0};
    const auto send = [&] {
        const std::lock_guard lock(writing);
        std::vector<BytesView> views;
        if (!outbox.take(k_command_lane, views, 0)) return false;
        Bytes written;
        for (BytesView view : views) written.insert(written.end(), view.begin(), view.end());
        outbox.sent(k_command_lane);
        for (const Frame& frame : frames_in(written)) sent += batch_header(frame).count;
        return true;
    };
    std::thread writer([&] {
        while (outbox.wait(k_command_lane)) static_cast<void>(send());
    });
    // A program that waits takes its calls along; then it calls and does not wait: little, and much.
    uint64_t added = 0;
    for (const uint64_t calls : {1u, 100u, 5000u, 1u}) {
        for (int i = 0; i < 2000; ++i) {
            (void)*add_test_call(outbox, ++added);
            static_cast<void>(send());
        }
        for (uint64_t i = 0; i < calls; ++i) (void)*add_test_call(outbox, ++added);
        while (sent.load() < added) std::this_thread::yield();
    }
    outbox.close(k_gone, false);
    writer.join();
    EXPECT_EQ(sent.load(), added);
}

TEST(Naps, WhatNobodyTakesAlongLeavesWithTheWriter_B2) {
    for (const unsigned idle_naps : {1u, 1'000'000u}) expect_that_everything_leaves(false, idle_naps);
}
TEST(Naps, WhatNobodyTakesAlongLeavesWhereProcessorsAreScarce_B7) {
    for (const unsigned idle_naps : {1u, 4u, 1'000'000u}) expect_that_everything_leaves(true, idle_naps);
}

// Naps for hours, once it has begun. Whoever has the outbox's lock afterwards finds it napping.
class NappingWriter {
public:
    NappingWriter() : m_outbox(options()) {
        s_asked = false;
        m_thread = std::thread([this] {
            while (m_outbox.wait(k_command_lane)) {
                std::vector<BytesView> views;
                if (!m_outbox.take(k_command_lane, views, 0)) continue;
                for (BytesView view : views) m_written.insert(m_written.end(), view.begin(), view.end());
                m_outbox.sent(k_command_lane);
            }
        });
        // Asked under the outbox's lock, of which the writer lets go when it naps.
        while (!s_asked) std::this_thread::yield();
    }
    ~NappingWriter() {
        if (m_thread.joinable()) static_cast<void>(end());
    }
    Outbox& outbox() { return m_outbox; }
    std::vector<Frame> end() {
        m_outbox.close({Code::shutting_down, "the test is over"}, false);
        m_thread.join();
        return frames_in(m_written);
    }

private:
    static OutboxOptions options() {
        OutboxOptions options;
        options.chunk_bytes = 10000;
        options.nap = options.longest_nap = std::chrono::hours(1);
        options.idle_naps = 1'000'000;
        options.processors_scarce = +[] {
            s_asked = true;
            return false;
        };
        return options;
    }

    static inline std::atomic<bool> s_asked{false};
    Outbox m_outbox;
    Bytes m_written;
    std::thread m_thread;
};

TEST(Naps, EndWhenAPayloadIsLent_B2) {
    NappingWriter writer;
    const Bytes payload = pattern(123456);
    // Returns when the payload has been sent.
    const auto number = writer.outbox().add_streamed_call<wire::HostCall>(
        CallHeader{}, k_host_call_words, [](wire::HostCall::Builder) {}, [](uint64_t) {}, payload);
    ASSERT_TRUE(number.ok()) << number.error().what;
    size_t arrived = 0;
    for (const Frame& frame : writer.end())
        if (frame.header.kind == FrameKind::bulk) arrived += frame.payload.size();
    EXPECT_EQ(arrived, payload.size());
}

TEST(Naps, EndWhenAPayloadOfAnAnswerIsLent_B2) {
    NappingWriter writer;
    EXPECT_TRUE(writer.outbox().send_payload(1, pattern(123456)).ok());
}

}  // namespace
}  // namespace warpline::protocol
