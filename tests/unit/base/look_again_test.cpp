// When a thread that waits looks again before it sleeps.
#include "common/base/look_again.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/base/processors.h"

namespace warpline {
namespace {

/// How many waits out of so many look, if they find what they wait for, or not.
unsigned looks(LookAgain& look_again, unsigned waits, bool finds) {
    unsigned count = 0;
    for (unsigned i = 0; i < waits; ++i) {
        if (!look_again.worth_it()) continue;
        ++count;
        finds ? look_again.found() : look_again.missed();
    }
    return count;
}

TEST(LookAgain, WhoFindsSomethingAlwaysLooks_B7) {
    LookAgain look_again;
    EXPECT_EQ(looks(look_again, 1000, true), 1000u);
}

TEST(LookAgain, WhoFindsNothingSeldomLooks_B7) {
    LookAgain look_again;
    const unsigned at_first = looks(look_again, 64, false);
    EXPECT_LE(at_first, 7u);
    EXPECT_EQ(looks(look_again, 6400, false), 100u);
    // And notices within 64 waits that there is something again.
    EXPECT_GE(looks(look_again, 164, true), 100u);
}

TEST(Processors, AreAtLeastOneAndNoMoreThanThereAre) {
    EXPECT_GE(processors(), 1u);
    EXPECT_LE(processors(), static_cast<unsigned>(sysconf(_SC_NPROCESSORS_CONF)));
}

}  // namespace
}  // namespace warpline
