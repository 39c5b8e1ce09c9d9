// Tests of what is read from the environment.
#include "softgpu/driver/config/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "softgpu/driver/config/version.h"

namespace warpline::softgpu::driver {
namespace {

class ConfigTest : public testing::Test {
protected:
    void TearDown() override {
        for (const char* name : {"SOFTGPU_DEVICES", "SOFTGPU_MEMORY", "SOFTGPU_COMPUTE_CAPABILITY", "SOFTGPU_EXECUTE",
                                 "SOFTGPU_CHECK", "SOFTGPU_WATCHDOG_MS", "SOFTGPU_WORKERS", "SOFTGPU_SCHEDULE_SEED"}) {
            unsetenv(name);
        }
    }
    static Config with(const char* name, const char* value) {
        setenv(name, value, 1);
        return read_config();
    }
    static uint64_t half_of_the_machine() {
        uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
        return (bytes / 2) & ~((uint64_t{2} << 20) - 1);
    }
};

TEST_F(ConfigTest, Defaults) {
    Config config = read_config();
    EXPECT_EQ(config.devices, 1u);
    EXPECT_EQ(config.compute_capability, 89u);
    EXPECT_EQ(config.memory_bytes, half_of_the_machine());
    EXPECT_TRUE(config.execute);
    EXPECT_FALSE(config.exact_bounds);
}

TEST_F(ConfigTest, ReadsWhatIsSet) {
    EXPECT_EQ(with("SOFTGPU_DEVICES", "4").devices, 4u);
    EXPECT_EQ(with("SOFTGPU_COMPUTE_CAPABILITY", "12.1").compute_capability, 121u);
    EXPECT_EQ(with("SOFTGPU_COMPUTE_CAPABILITY", "75").compute_capability, 75u);
    EXPECT_EQ(with("SOFTGPU_MEMORY", "512MiB").memory_bytes, uint64_t{512} << 20);
    EXPECT_EQ(with("SOFTGPU_MEMORY", "1G").memory_bytes, uint64_t{1} << 30);
    EXPECT_FALSE(with("SOFTGPU_EXECUTE", "0").execute);
    EXPECT_TRUE(with("SOFTGPU_CHECK", "race,memory").exact_bounds);
    EXPECT_FALSE(with("SOFTGPU_CHECK", "race,init").exact_bounds);
    EXPECT_EQ(with("SOFTGPU_CHECK", "race, rage").unknown_check, "rage");
    EXPECT_EQ(with("SOFTGPU_SCHEDULE_SEED", "77").schedule_seed, 77u);
    EXPECT_EQ(with("SOFTGPU_WATCHDOG_MS", "2000").watchdog_ms, 2000u);
}

TEST_F(ConfigTest, NonsenseIsIgnored) {
    EXPECT_EQ(with("SOFTGPU_DEVICES", "many").devices, 1u);
    EXPECT_EQ(with("SOFTGPU_DEVICES", "0").devices, 1u);
    EXPECT_EQ(with("SOFTGPU_DEVICES", "1000").devices, 1u);
    EXPECT_EQ(with("SOFTGPU_COMPUTE_CAPABILITY", "99.9").compute_capability, 89u);
    EXPECT_EQ(with("SOFTGPU_COMPUTE_CAPABILITY", "8.").compute_capability, 89u);
    EXPECT_EQ(with("SOFTGPU_MEMORY", "2 parsecs").memory_bytes, half_of_the_machine());
    EXPECT_EQ(with("SOFTGPU_MEMORY", "999999999999999999999G").memory_bytes, half_of_the_machine());
}

TEST_F(ConfigTest, MemoryIsBoundedByTheMachine) {
    Config config = with("SOFTGPU_MEMORY", "1000TiB");
    EXPECT_LT(config.memory_bytes, uint64_t{1000} << 40);
    EXPECT_GE(config.memory_bytes, uint64_t{64} << 20);
}

TEST(DriverVersionTest, IsWrittenInBothWays) {
    EXPECT_EQ(parse_driver_version("12.4"), 12040);
    EXPECT_EQ(parse_driver_version("12040"), 12040);
    EXPECT_EQ(parse_driver_version("11.8"), 11080);
    EXPECT_EQ(parse_driver_version("13.0"), 13000);
    for (const char* nonsense : {"", "12", "12.", ".4", "12.4.1", "10.2", "99.0", "twelve", "12.x", "-12.4", "12040 "}) {
        EXPECT_EQ(parse_driver_version(nonsense), std::nullopt) << nonsense;
    }
}

}  // namespace
}  // namespace warpline::softgpu::driver
