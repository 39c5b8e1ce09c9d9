// Which devices CUDA_VISIBLE_DEVICES names.
#include "cuda/abi/visible_devices.h"

#include <gtest/gtest.h>

#include <cstring>

namespace warpline::cuda::abi {

namespace {

using Chosen = std::vector<size_t>;

const std::vector<std::string> k_names{"GPU-01aa0000-0000", "GPU-01bb0000-0000", "MIG-01aa0000-0001", "GPU-22220000-0000"};

Chosen chosen(const char* text) { return visible_devices(text, k_names); }

TEST(VisibleDevices, OrdinalsInTheOrderThatIsAskedFor) {
    EXPECT_EQ(chosen("0"), (Chosen{0}));
    EXPECT_EQ(chosen("3,0,1"), (Chosen{3, 0, 1}));
    EXPECT_EQ(chosen(" 1 , 2 "), (Chosen{1, 2}));
}

TEST(VisibleDevices, AnEntryThatNamesNoneEndsTheList) {
    EXPECT_EQ(chosen(""), Chosen{});
    EXPECT_EQ(chosen("-1"), Chosen{});
    EXPECT_EQ(chosen("1,-1,0"), (Chosen{1}));
    EXPECT_EQ(chosen("1,4,0"), (Chosen{1}));
    EXPECT_EQ(chosen("0,,1"), (Chosen{0}));
    EXPECT_EQ(chosen("NoDevFiles"), Chosen{});
    EXPECT_EQ(chosen("1x,0"), Chosen{});
    EXPECT_EQ(chosen("99999999999999999999"), Chosen{});
}

TEST(VisibleDevices, BeginningsOfNamesThatFitOne) {
    EXPECT_EQ(chosen("GPU-01b"), (Chosen{1}));
    EXPECT_EQ(chosen("GPU-2,GPU-01aa0000-0000"), (Chosen{3, 0}));
    EXPECT_EQ(chosen("MIG-01aa0000-0001"), (Chosen{2}));
    EXPECT_EQ(chosen("MIG-0,3"), (Chosen{2, 3}));
    EXPECT_EQ(chosen("GPU-01"), Chosen{}) << "it fits two";
    EXPECT_EQ(chosen("GPU-"), Chosen{});
    EXPECT_EQ(chosen("3,GPU-01,0"), (Chosen{3}));
}

TEST(VisibleDevices, ADeviceThatIsNamedTwiceMakesTheListVoid) {
    EXPECT_EQ(chosen("0,0"), Chosen{});
    EXPECT_EQ(chosen("1,GPU-01bb"), Chosen{});
}

TEST(VisibleDevices, NamesAreWrittenAsNvidiasToolsDo) {
    CUuuid uuid{};
    for (size_t i = 0; i < sizeof uuid.bytes; ++i) uuid.bytes[i] = static_cast<char>(0xa0 + i);
    EXPECT_EQ(device_name_of(uuid, "NVIDIA A100-SXM4-40GB"), "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
    EXPECT_EQ(device_name_of(uuid, "NVIDIA A100-SXM4-40GB MIG 1g.5gb"), "MIG-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
}

}  // namespace
}  // namespace warpline::cuda::abi
