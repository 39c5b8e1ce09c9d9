// Which optimisations are used.
#include "common/config/switches.h"

#include <gtest/gtest.h>

namespace warpline::config {
namespace {

Switches with(const char* words, std::string& problem) {
    Settings settings(Program::client);
    EXPECT_TRUE(settings.set("disable", words, "WARPLINE_DISABLE", problem)) << problem;
    return {settings, problem};
}

TEST(Switches, AllIsUsedUnlessItIsNamed_B2) {
    std::string problem;
    const Switches none = with("", problem);
    EXPECT_TRUE(none.uses(Optimisation::batching) && none.uses(Optimisation::spin));
    const Switches some = with("polling, lanes", problem);
    EXPECT_FALSE(some.uses(Optimisation::polling) || some.uses(Optimisation::lanes));
    EXPECT_TRUE(some.uses(Optimisation::batching) && some.uses(Optimisation::reading) && some.uses(Optimisation::spin));
    const Switches all = with("all", problem);
    EXPECT_FALSE(all.uses(Optimisation::batching) || all.uses(Optimisation::spin));
    EXPECT_EQ(problem, "");
}

TEST(Switches, AWordThatNamesNoneIsTold_B2) {
    std::string problem;
    const Switches switches = with("lanes,btching", problem);
    EXPECT_FALSE(switches.uses(Optimisation::lanes));
    EXPECT_TRUE(switches.uses(Optimisation::batching));
    EXPECT_EQ(problem,
              "no optimisation is called 'btching' (WARPLINE_DISABLE); there are all, aes, batching, cache, compact, "
              "compression, congestion, "
              "lanes, parts, polling, prefetch, reading, shm, spin, turns");
}

}  // namespace
}  // namespace warpline::config
