// What is asked of NVML, and what is made of its answers (C4).
#include "server/driver/nvml.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>

#include "cuda/nvml/questions.h"
#include "cuda/nvml/sheet.h"
#include "cuda/nvml/types.h"

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
    const auto nvml = Nvml::load(FAKE_NVML_LIBRARY, {}, problem);
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

TEST_F(NvmlTest, AsksWhatTheDescriptionLists_A5) {
    say("GPU-00000000-0000-0000-0000-000000000001 37 3000 8000\n"
        "GPU-00000000-0000-0000-0000-000000000002 99 1 2\n");
    std::string problem;
    const auto nvml = Nvml::load(FAKE_NVML_LIBRARY, {}, problem);
    ASSERT_NE(nvml, nullptr) << problem;
    ReadyMessage offer{};
    offer.device_count = 3;
    for (uint8_t i = 0; i < 3; ++i) offer.devices[i] = device(static_cast<uint8_t>(i + 1), "NVIDIA H100");
    const SheetMessage first = nvml->sheet(offer, 0);
    const BytesView sheet(first.answers, first.bytes);
    std::map<std::string, std::optional<cuda::nvml::Answer>> answers;
    for (const auto& question : cuda::nvml::questions()) {
        const bool of_pair = question.kind == cuda::nvml::QuestionKind::pair;
        // Every one is answered: of two devices for this one, too, as NCCL asks, and not for the third, which NVML does not
        // know.
        if (of_pair) {
            EXPECT_TRUE(cuda::nvml::find_answer(sheet, static_cast<uint16_t>(question.id + 1)).has_value())
                << question.function;
            EXPECT_TRUE(cuda::nvml::find_answer(sheet, question.id).has_value()) << question.function;
            EXPECT_FALSE(cuda::nvml::find_answer(sheet, static_cast<uint16_t>(question.id + 2)).has_value());
            continue;
        }
        answers[question.function] = cuda::nvml::find_answer(sheet, question.id);
        EXPECT_TRUE(answers[question.function].has_value()) << question.function;
    }
    cuda::nvml::Utilization utilization{};
    ASSERT_TRUE(read_at(answers["nvmlDeviceGetUtilizationRates"]->value, 0, utilization));
    EXPECT_EQ(utilization.gpu, 37u);
    cuda::nvml::Memory memory{};
    ASSERT_TRUE(read_at(answers["nvmlDeviceGetMemoryInfo"]->value, 0, memory));
    EXPECT_EQ(memory.free, 3000u);
    EXPECT_EQ(answers["nvmlDeviceGetEccMode"]->result, cuda::nvml::k_not_supported) << "the stand-in has no such function";
    const SheetMessage unknown = nvml->sheet(offer, 2);
    EXPECT_EQ(unknown.bytes, 0u);
    EXPECT_EQ(unknown.device, 2u);
}

TEST_F(NvmlTest, SaysOfALostDeviceThatItIsLost_A5) {
    say("GPU-00000000-0000-0000-0000-000000000001 37 3000 8000\n"
        "lost 0000:41:00.0\n");
    std::string problem;
    const auto nvml = Nvml::load(FAKE_NVML_LIBRARY, {}, problem);
    ASSERT_NE(nvml, nullptr) << problem;
    ReadyMessage offer{};
    offer.device_count = 2;
    for (uint8_t i = 0; i < 2; ++i) offer.devices[i] = device(static_cast<uint8_t>(2 - i), "NVIDIA H100");
    set_text(offer.devices[0].pci_bus_id, "0000:41:00.0");
    const SheetMessage lost = nvml->sheet(offer, 0);
    const BytesView answers(lost.answers, lost.bytes);
    const auto is_lost = [&answers](unsigned question) {
        const auto answer = cuda::nvml::find_answer(answers, static_cast<uint16_t>(question));
        return answer.has_value() && answer->result == cuda::nvml::k_gpu_is_lost;
    };
    for (const auto& question : cuda::nvml::questions()) {
        const bool of_system = question.kind == cuda::nvml::QuestionKind::system;
        EXPECT_NE(is_lost(question.id), of_system) << question.function;
        const bool of_pair = question.kind == cuda::nvml::QuestionKind::pair;
        EXPECT_EQ(is_lost(question.id + (of_pair ? 1u : 0u)), !of_system) << question.function;
    }
    for (const uint32_t field : cuda::nvml::fields()) EXPECT_TRUE(is_lost(cuda::nvml::field_id(field))) << field;
    EXPECT_EQ(lost.process_count, 0u);
    const SheetMessage other = nvml->sheet(offer, 1);
    const auto utilisation = cuda::nvml::find_answer(BytesView(other.answers, other.bytes), 100);
    ASSERT_TRUE(utilisation.has_value());
    EXPECT_EQ(utilisation->result, cuda::nvml::k_success) << "another one is not";
    say("GPU-00000000-0000-0000-0000-000000000001 37 3000 8000\n"
        "GPU-00000000-0000-0000-0000-000000000002 3 1 2\n");
    const SheetMessage back = nvml->sheet(offer, 0);
    for (const auto& question : cuda::nvml::questions()) {
        const auto answer = cuda::nvml::find_answer(BytesView(back.answers, back.bytes), question.id);
        EXPECT_TRUE(answer.has_value() && answer->result != cuda::nvml::k_gpu_is_lost) << question.function;
    }
}

TEST_F(NvmlTest, AsksAgainAfterAFailure_A5) {
    const std::string known = "GPU-00000000-0000-0000-0000-000000000001 37 3000 8000\n";
    say(known);
    std::string problem;
    const auto nvml = Nvml::load(FAKE_NVML_LIBRARY, {}, problem);
    ASSERT_NE(nvml, nullptr) << problem;
    ReadyMessage offer{};
    offer.device_count = 1;
    offer.devices[0] = device(1, "NVIDIA H100");
    constexpr uint16_t k_fans = 9;
    const auto fans = [&](const std::string& text) {
        say(known + text);
        const SheetMessage sheet = nvml->sheet(offer, 0);
        const auto answer = cuda::nvml::find_answer(BytesView(sheet.answers, sheet.bytes), k_fans);
        uint32_t count = 0;
        return answer.has_value() && read_at(answer->value, 0, count) ? static_cast<int>(count) : -1;
    };
    EXPECT_EQ(fans(""), -1);
    EXPECT_EQ(fans("fans 2\n"), 2) << "a failure is not kept";
    EXPECT_EQ(fans("fans 3\n"), 2) << "a value that does not change is asked for once";
}

/// To this process, which stands in for the gauge, a child of its parent's is a worker: itself, for one.
TEST_F(NvmlTest, FindsWorkersAmongManyProcesses_A5) {
    ReadyMessage offer{};
    offer.device_count = 1;
    offer.devices[0] = device(1, "NVIDIA H100");
    const std::string worker = std::to_string(getpid());
    for (const size_t strangers : {0, 5, 63, 64, 127, 1'000, 4'000, 5'000}) {
        say("GPU-00000000-0000-0000-0000-000000000001 37 3000 8000\nstrangers " + std::to_string(strangers) + "\nprocess " +
            worker + " 77\n");
        std::string problem;
        const auto nvml = Nvml::load(FAKE_NVML_LIBRARY, {}, problem);
        ASSERT_NE(nvml, nullptr) << problem;
        const SheetMessage sheet = nvml->sheet(offer, 0);
        const bool too_many = strangers == 5'000;
        EXPECT_EQ(sheet.process_count, too_many ? 0 : std::min(strangers + 1, k_max_device_processes)) << strangers;
        const auto* const end = sheet.processes + sheet.process_count;
        const auto is_worker = [](const SheetMessage::Process& process) {
            return process.pid == static_cast<uint32_t>(getpid()) && process.bytes == 77;
        };
        EXPECT_EQ(std::count_if(sheet.processes, end, is_worker), too_many ? 0 : 1) << strangers;
    }
}

TEST_F(NvmlTest, SaysWhyThereIsNone_C4) {
    std::string problem;
    EXPECT_EQ(Nvml::load("/nowhere/libnvidia-ml.so.1", {}, problem), nullptr);
    EXPECT_NE(problem.find("cannot be loaded"), std::string::npos) << problem;
    say("no-init\n");
    EXPECT_EQ(Nvml::load(FAKE_NVML_LIBRARY, {}, problem), nullptr);
    EXPECT_NE(problem.find("cannot be initialised"), std::string::npos) << problem;
    EXPECT_EQ(Nvml::load("libm.so.6", {}, problem), nullptr);
    EXPECT_NE(problem.find("lacks its functions"), std::string::npos) << problem;
}

}  // namespace
}  // namespace warpline::server
