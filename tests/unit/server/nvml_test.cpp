// What is asked of NVML, and what is made of its answers (C4).
#include "server/driver/nvml.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace warpline::server {
namespace {

class NvmlTest : public testing::Test {
protected:
    NvmlTest() { setenv("FAKE_NVML", m_path.c_str(), 1); }
    ~NvmlTest() override {
        unsetenv("FAKE_NVML");
        unlink(m_path.c_str());
    }
    void say(const std::string& text) { std::ofstream(m_path) << text; }

    const std::string m_path = testing::TempDir() + "fake-nvml-" + std::to_string(getpid());
};

DeviceRow device(uint8_t last_byte, const char* model) {
    DeviceRow row{};
    row.uuid[15] = last_byte;
    set_text(row.name, model);
    return row;
}

TEST_F(NvmlTest, TellsUtilisationAndMemory_C4) {
    say("GPU-00000000-0000-0000-0000-000000000001 37 3000 8000\n"
        "MIG-00000000-0000-0000-0000-000000000002 -1 500 1000\n");
    std::string problem;
    const auto nvml = Nvml::load(FAKE_NVML_LIBRARY, "", problem);
    ASSERT_NE(nvml, nullptr) << problem;
    const auto whole = nvml->read(device(1, "NVIDIA H100"));
    EXPECT_EQ(whole.utilisation_percent, 37);
    EXPECT_EQ(whole.total_bytes, 8000u);
    EXPECT_EQ(whole.free_bytes, 3000u);
    const auto part = nvml->read(device(2, "NVIDIA H100 MIG 1g.10gb"));
    EXPECT_EQ(part.utilisation_percent, -1) << "NVML does not tell it of a part";
    EXPECT_EQ(part.free_bytes, 500u);
    const auto other = nvml->read(device(3, "NVIDIA H100"));
    EXPECT_EQ(other.utilisation_percent, -1);
    EXPECT_EQ(other.total_bytes, 0u);
    say("GPU-00000000-0000-0000-0000-000000000001 38 2000 8000\n");
    EXPECT_EQ(nvml->read(device(1, "NVIDIA H100")).utilisation_percent, 38) << "at every question anew";
}

TEST_F(NvmlTest, SaysWhyThereIsNone_C4) {
    std::string problem;
    EXPECT_EQ(Nvml::load("/nowhere/libnvidia-ml.so.1", "", problem), nullptr);
    EXPECT_NE(problem.find("cannot be loaded"), std::string::npos) << problem;
    say("no-init\n");
    EXPECT_EQ(Nvml::load(FAKE_NVML_LIBRARY, "", problem), nullptr);
    EXPECT_NE(problem.find("cannot be initialised"), std::string::npos) << problem;
    EXPECT_EQ(Nvml::load("libm.so.6", "", problem), nullptr);
    EXPECT_NE(problem.find("lacks its functions"), std::string::npos) << problem;
}

}  // namespace
}  // namespace warpline::server
