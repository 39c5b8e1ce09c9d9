// Threads that read a connection themselves while they wait for what comes over it.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/unit/net/link_end.h"

namespace warpline {
namespace {

using namespace net::test;
using protocol::Frame;

/// A pair of ends, of which one is read by whoever says so; notes which threads have read.
struct Guests {
    Guests() {
        client.handle = [this](Frame) -> Result<void> {
            MutexLock lock(mutex);
            readers.push_back(std::this_thread::get_id());
            ++frames;
            return {};
        };
        started = client.pump.start().ok() && server.pump.start().ok();
    }
    /// The reading thread may be at it just now.
    void become_guest() {
        while (!client.pump.begin_reading()) std::this_thread::yield();
    }
    auto has(unsigned count) {
        return [this, count] { return frames.load() >= count; };
    }

    Pair pair = good_pair();
    Mutex mutex;
    std::vector<std::thread::id> readers WL_GUARDED_BY(mutex);
    std::atomic<unsigned> frames{0};
    End client{std::move(pair.client.channel)}, server{std::move(pair.server.channel)};
    bool started = false;
};

TEST(ConnectionGuests, WhoWaitsReadsItsAnswerItself_B2) {
    Guests ends;
    ASSERT_TRUE(ends.started);
    ends.become_guest();
    EXPECT_FALSE(ends.client.pump.begin_reading());  // one at a time
    for (unsigned i = 1; i <= 20; ++i) {
        ASSERT_TRUE(send_host_call(ends.server, i).ok());
        ASSERT_TRUE(ends.client.pump.read_until(ends.has(i)));
    }
    // The reading thread looks at its clock now and then, and takes what it finds.
    MutexLock lock(ends.mutex);
    EXPECT_GE(std::count(ends.readers.begin(), ends.readers.end(), std::this_thread::get_id()), 15);
}

TEST(ConnectionGuests, TheReadingThreadReadsAgainWhenItsGuestHasGone_B2) {
    Guests ends;
    ASSERT_TRUE(ends.started);
    ends.become_guest();
    ASSERT_TRUE(send_host_call(ends.server, 1).ok());
    ASSERT_TRUE(ends.client.pump.read_until(ends.has(1)));
    ends.client.pump.end_reading();
    EXPECT_FALSE(ends.client.pump.read_until(ends.has(2)));
    ASSERT_TRUE(send_host_call(ends.server, 2).ok());
    while (ends.frames.load() < 2) std::this_thread::yield();
    MutexLock lock(ends.mutex);
    EXPECT_NE(ends.readers.back(), std::this_thread::get_id());
}

TEST(ConnectionGuests, AGuestIsWokenByWhatSomebodyElseHasDone_B2) {
    Guests ends;
    ASSERT_TRUE(ends.started);
    ends.become_guest();
    std::atomic<bool> asked{false}, done{false};
    std::thread other([&] {
        while (!asked) std::this_thread::yield();
        done = true;
        ends.client.pump.wake_guest();
    });
    EXPECT_TRUE(ends.client.pump.read_until([&] {
        asked = true;
        return done.load();
    }));
    other.join();
}

TEST(ConnectionGuests, AGuestLeavesWhenTheConnectionEnds_C1) {
    for (const bool by_peer : {false, true}) {
        Guests ends;
        ASSERT_TRUE(ends.started);
        ends.become_guest();
        std::atomic<bool> asked{false};
        std::thread other([&] {
            while (!asked) std::this_thread::yield();
            (by_peer ? ends.server : ends.client).pump.stop();
        });
        EXPECT_FALSE(ends.client.pump.read_until([&] {
            asked = true;
            return false;
        }));
        ends.client.wait_for_end();
        EXPECT_FALSE(ends.client.pump.begin_reading());
        other.join();
    }
}

TEST(ConnectionGuests, WhatAGuestCannotAcceptEndsTheConnection_F3) {
    Guests ends;
    ends.client.handle = [](Frame) -> Result<void> { return Error{Code::malformed, "no such thing"}; };
    ASSERT_TRUE(ends.started);
    ends.become_guest();
    ASSERT_TRUE(send_host_call(ends.server, 1).ok());
    EXPECT_FALSE(ends.client.pump.read_until([] { return false; }));
    EXPECT_EQ(ends.client.wait_for_end().code, Code::malformed);
    EXPECT_TRUE(ends.client.pump.refused());
}

}  // namespace
}  // namespace warpline
