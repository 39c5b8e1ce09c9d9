// Whether looking again takes the processor from somebody else.
#include "common/base/run_queue.h"

#include <gtest/gtest.h>

namespace warpline {
namespace {

RunQueue after(unsigned processors, unsigned running, unsigned times) {
    RunQueue queue(processors);
    for (unsigned i = 0; i < times; ++i) queue.add(running);
    return queue;
}

TEST(RunQueue, IsNotLongWhileEachThreadHasAProcessor_B7) {
    EXPECT_FALSE(RunQueue(2).is_long());
    EXPECT_FALSE(after(2, 2, 1000).is_long());
    EXPECT_FALSE(after(64, 64, 1000).is_long());
}

TEST(RunQueue, IsLongSoonAfterMoreWantOne_B7) {
    EXPECT_FALSE(after(2, 4, 1).is_long());
    EXPECT_TRUE(after(2, 4, 8).is_long());
    EXPECT_TRUE(after(2, 16, 2).is_long());
    // A program, its server and who asks are no crowd; two programs with theirs are.
    EXPECT_FALSE(after(2, 3, 1000).is_crowded());
    EXPECT_FALSE(after(2, 4, 1000).is_crowded());
    EXPECT_TRUE(after(2, 6, 1000).is_crowded());
}

TEST(RunQueue, IsNotLongForWhatRunsForAMoment_B7) {
    RunQueue queue = after(2, 2, 100);
    for (int i = 0; i < 100; ++i) queue.add(i % 4 == 0 ? 3 : 2);
    EXPECT_FALSE(queue.is_long());
}

TEST(RunQueue, ForgetsWhenTheyHaveGone_B7) {
    RunQueue queue = after(2, 20, 100);
    for (int i = 0; i < 40; ++i) queue.add(1);
    EXPECT_FALSE(queue.is_long());
}

TEST(RunQueue, ReadsWhatTheKernelSays_B7) {
    EXPECT_EQ(running_threads("0.20 0.18 0.12 3/80 11206\n"), 3u);
    EXPECT_EQ(running_threads("16.28 7.60 4.06 17/166 11206"), 17u);
    for (const char* text : {"", "0.20", "3/80", "0.2 x/80", "0.2 3x/80", "0.2 /80"})
        EXPECT_FALSE(running_threads(text)) << text;
}

}  // namespace
}  // namespace warpline
