// Tests of how SOFTGPU_PROFILE is read.
#include "softgpu/driver/config/profile.h"

#include <gtest/gtest.h>

namespace warpline::softgpu::driver {
namespace {

Profile parsed(std::string_view text) {
    Profile profile;
    std::string mistake;
    EXPECT_TRUE(parse_profile(text, profile, mistake)) << mistake;
    return profile;
}

std::string mistake_in(std::string_view text) {
    Profile profile;
    std::string mistake;
    EXPECT_FALSE(parse_profile(text, profile, mistake)) << text;
    return mistake;
}

TEST(ProfileWordsTest, GenerousIsTheDefault) {
    for (const char* text : {"", "generous"}) {
        Profile profile = parsed(text);
        EXPECT_EQ(profile.hints, Profile::Hints::honoured);
        EXPECT_EQ(profile.launch_queue, 0u);
        EXPECT_FALSE(profile.serial_host_functions);
        EXPECT_FALSE(profile.free_synchronises);
        EXPECT_TRUE(profile.memory_before);
    }
}

TEST(ProfileWordsTest, StrictIsWhatEveryMachineDoes) {
    Profile profile = parsed("strict");
    EXPECT_EQ(profile.hints, Profile::Hints::honoured);
    EXPECT_EQ(profile.launch_queue, 1024u);
    EXPECT_TRUE(profile.serial_host_functions);
    EXPECT_FALSE(profile.free_synchronises);
    EXPECT_FALSE(profile.memory_before);
    // Machines differ in these.
    EXPECT_TRUE(profile.vmm);
    EXPECT_TRUE(profile.peers);
    EXPECT_FALSE(profile.mig);
    EXPECT_EQ(profile.compute_mode, Profile::ComputeMode::shared);
}

TEST(ProfileWordsTest, SwitchesChangeEither) {
    Profile profile = parsed("strict,vmm=no,hints=refused,launch_queue=7,host_functions=parallel,free_synchronises=yes");
    EXPECT_FALSE(profile.vmm);
    EXPECT_EQ(profile.hints, Profile::Hints::refused);
    EXPECT_EQ(profile.launch_queue, 7u);
    EXPECT_FALSE(profile.serial_host_functions);
    EXPECT_TRUE(profile.free_synchronises);
    profile = parsed("compute_mode=exclusive,mig=yes");  // no profile: the generous one
    EXPECT_EQ(profile.compute_mode, Profile::ComputeMode::exclusive);
    EXPECT_FALSE(profile.peers);
    EXPECT_EQ(profile.launch_queue, 0u);
    EXPECT_EQ(parsed("generous,launch_queue=7,launch_queue=0").launch_queue, 0u);
}

TEST(ProfileWordsTest, MistakesAreNamed) {
    EXPECT_NE(mistake_in("lenient").find("'lenient'"), std::string::npos);
    EXPECT_NE(mistake_in("strict,hints=lost").find("honoured, ignored, refused"), std::string::npos);
    EXPECT_NE(mistake_in("strict,launch_queue=-1").find("launch_queue"), std::string::npos);
    mistake_in("strict,launch_queue=");
    mistake_in("vmm");
    mistake_in("vmm=no,strict");
    mistake_in("strict,,vmm=no");
}

}  // namespace
}  // namespace warpline::softgpu::driver
