// What of a program's environment a driver has to know before it starts.
#include "cuda/abi/driver_settings.h"

#include <gtest/gtest.h>

#include <map>

namespace warpline::cuda::abi {

namespace {

using Environment = std::map<std::string, std::string>;

DriverSettings read(const Environment& environment) {
    return read_driver_settings([&](const char* name) {
        const auto found = environment.find(name);
        return found != environment.end() ? found->second.c_str() : nullptr;
    });
}

TEST(DriverSettings, WhatChangesNothingIsNoSetting) {
    EXPECT_EQ(read({}), 0u);
    EXPECT_EQ(read({{"CUDA_MODULE_LOADING", "LAZY"}, {"CUDA_DISABLE_PTX_JIT", "0"}, {"CUDA_CACHE_DISABLE", ""}}), 0u);
    EXPECT_EQ(read({{"CUDA_DEVICE_MAX_CONNECTIONS", "33"}}), 0u);
    EXPECT_EQ(read({{"CUDA_DEVICE_MAX_CONNECTIONS", "-1"}}), 0u);
    EXPECT_TRUE(variables_of(0).empty());
}

TEST(DriverSettings, ComeBackAsTheVariablesTheyWere) {
    const Environment environment{{"CUDA_MODULE_LOADING", "EAGER"},
                                  {"CUDA_DISABLE_PTX_JIT", "1"},
                                  {"CUDA_DISABLE_JIT", "1"},
                                  {"CUDA_FORCE_PTX_JIT", "1"},
                                  {"CUDA_FORCE_JIT", "1"},
                                  {"CUDA_CACHE_DISABLE", "1"},
                                  {"CUDA_MANAGED_FORCE_DEVICE_ALLOC", "1"},
                                  {"CUDA_SCALE_LAUNCH_QUEUES", "2x"},
                                  {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                                  {"CUDA_DEVICE_MAX_CONNECTIONS", "32"}};
    const DriverSettings settings = read(environment);
    EXPECT_TRUE(are_driver_settings(settings));
    const auto variables = variables_of(settings);
    EXPECT_EQ(Environment(variables.begin(), variables.end()), environment);
    for (const auto& [name, value] : environment) {
        const auto one = variables_of(read({{name, value}}));
        ASSERT_EQ(one.size(), 1u) << name;
        EXPECT_EQ(one[0], (std::pair<std::string, std::string>(name, value)));
    }
}

TEST(DriverSettings, BitsWithoutAMeaningAreRefused) {
    EXPECT_TRUE(are_driver_settings(0));
    EXPECT_TRUE(are_driver_settings(k_eager_loading | 32u << 8));
    EXPECT_FALSE(are_driver_settings(1u << 14));
    EXPECT_FALSE(are_driver_settings(33u << 8));
    EXPECT_FALSE(are_driver_settings(5u << 16));
    EXPECT_FALSE(are_driver_settings(uint64_t{1} << 40));
}

}  // namespace
}  // namespace warpline::cuda::abi
