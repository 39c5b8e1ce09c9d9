// Tests of what is known here of captures, and of what they forbid.
#include "client/state/captures.h"

#include <gtest/gtest.h>

#include "client/state/objects.h"

namespace warpline::client {
namespace {

constexpr auto k_global = CU_STREAM_CAPTURE_MODE_GLOBAL, k_local = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
               k_relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

Captures::Capture capture_of(CUstreamCaptureMode mode, uint32_t thread, uint64_t context = 1) {
    Captures::Capture capture;
    capture.mode = mode;
    capture.thread = thread;
    capture.context = context;
    return capture;
}

TEST(CapturesTest, UnsafeCallsBreakTheCapturesThatForbidThem) {
    struct Case {
        CUstreamCaptureMode capture, thread;
        uint32_t caller;
        bool forbidden;
    };
    for (const Case& one :
         {Case{k_global, k_global, 1, true}, Case{k_global, k_global, 2, true}, Case{k_global, k_local, 1, true},
          Case{k_global, k_local, 2, false}, Case{k_global, k_relaxed, 1, false}, Case{k_local, k_global, 1, true},
          Case{k_local, k_global, 2, false}, Case{k_local, k_relaxed, 1, false}, Case{k_relaxed, k_global, 1, false},
          Case{k_relaxed, k_local, 1, false}}) {
        Captures captures;
        captures.begin(7, capture_of(one.capture, 1));
        EXPECT_EQ(captures.forbid_unsafe_call(one.caller, one.thread), one.forbidden);
        EXPECT_EQ(captures.find(7)->broken, one.forbidden);
        captures.end(7);
        EXPECT_FALSE(captures.any());
        EXPECT_FALSE(captures.forbid_unsafe_call(one.caller, one.thread));
    }
}

TEST(CapturesTest, BlockingStreamsHoldUpTheLegacyStreamOfTheirContext) {
    Captures captures;
    Stream origin, joined;
    captures.begin(7, capture_of(k_relaxed, 1));
    EXPECT_FALSE(captures.holds_up_legacy(1));
    captures.add_blocking(7, &joined, 2);
    EXPECT_TRUE(captures.holds_up_legacy(2));
    EXPECT_FALSE(captures.holds_up_legacy(1));
    EXPECT_FALSE(captures.break_for_legacy(1));
    EXPECT_FALSE(captures.find(7)->broken);
    captures.leave(7, &joined);
    EXPECT_FALSE(captures.break_for_legacy(2));
    captures.add_blocking(7, &origin, 1);
    EXPECT_TRUE(captures.break_for_legacy(1));
    EXPECT_TRUE(captures.find(7)->broken);
    captures.end(7);
    captures.add_blocking(7, &origin, 1);  // too late
    EXPECT_FALSE(captures.holds_up_legacy(1));
}

TEST(CapturesTest, ThoseOfAContextAreFoundAndKeepTheirGraph) {
    Captures captures;
    captures.begin(7, capture_of(k_global, 1, 1));
    captures.begin(8, capture_of(k_global, 1, 2));
    captures.begin(9, capture_of(k_global, 2, 1));
    EXPECT_EQ(captures.of_context(1), (std::vector<uint64_t>{7, 9}));
    captures.note_graph(8, 42);
    captures.break_off(8);
    EXPECT_EQ(captures.find(8)->graph, 42u);
    EXPECT_TRUE(captures.find(8)->broken);
    EXPECT_FALSE(captures.find(7)->broken);
    EXPECT_FALSE(captures.active(0));
}

}  // namespace
}  // namespace warpline::client
