// Cubins, held against what ptxas itself reported when it made them.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "kernels.h"
#include "samples.h"

namespace warpline::cuda::image {
namespace {

struct Usage {
    uint32_t registers = 0, shared_bytes = 0, stack_bytes = 0;
};

std::map<std::string, Usage> read_usage(const std::string& name) {
    std::istringstream lines(read_text_sample(name));
    std::map<std::string, Usage> usage;
    std::string line, kernel;
    std::smatch match;
    while (std::getline(lines, line)) {
        if (std::regex_search(line, match, std::regex("Compiling entry function '([^']+)'"))) kernel = match[1];
        if (std::regex_search(line, match, std::regex("Used ([0-9]+) registers")))
            usage[kernel].registers = std::stoul(match[1]);
        if (std::regex_search(line, match, std::regex("([0-9]+) bytes smem")))
            usage[kernel].shared_bytes = std::stoul(match[1]);
        if (std::regex_search(line, match, std::regex("([0-9]+) bytes stack frame")))
            usage[kernel].stack_bytes = std::stoul(match[1]);
    }
    return usage;
}

class Cubin : public testing::TestWithParam<int> {};

TEST_P(Cubin, AgreesWithPtxas) {
    std::string name = "sm_" + std::to_string(GetParam());
    auto usage = read_usage(name + ".usage");
    ASSERT_EQ(usage.size(), expected_kernels().size());
    auto info = read_cubin_info(read_sample(name + ".cubin"));
    ASSERT_TRUE(info.ok()) << info.error().what;
    EXPECT_EQ(info->arch, static_cast<uint32_t>(GetParam()));
    check_info(*info);
    for (const Kernel& kernel : info->kernels) {
        SCOPED_TRACE(kernel.name);
        ASSERT_TRUE(usage.contains(kernel.name));
        EXPECT_EQ(kernel.registers, usage[kernel.name].registers);
        EXPECT_EQ(kernel.static_shared_bytes, usage[kernel.name].shared_bytes);
        EXPECT_EQ(kernel.local_bytes, usage[kernel.name].stack_bytes);
        EXPECT_GT(kernel.code_bytes, 0u);
    }
    EXPECT_EQ(info->find_kernel("bounded")->max_threads, (std::array<uint32_t, 3>{256, 1, 1}));
    EXPECT_EQ(info->find_kernel("big_struct")->param_bytes, sizeof(Big20000) + 8);
    EXPECT_EQ(info->find_kernel("no_params")->param_bytes, 0u);
}

TEST_P(Cubin, PtxOfTheSameArchitectureSaysTheSame) {
    auto ptx = read_ptx_info(read_text_sample("compute_" + std::to_string(GetParam()) + ".ptx"));
    ASSERT_TRUE(ptx.ok()) << ptx.error().what << " in line " << ptx.error().detail;
    EXPECT_EQ(ptx->arch, static_cast<uint32_t>(GetParam()));
    EXPECT_EQ(ptx->ptx_version, 90u);
    EXPECT_FALSE(ptx->relocatable);
    check_info(*ptx);
    const Kernel* bounded = ptx->find_kernel("bounded");
    EXPECT_EQ(bounded->min_blocks, 2u);
    EXPECT_GE(bounded->static_shared_bytes, 401u);
    EXPECT_LE(bounded->static_shared_bytes, 404u);
    EXPECT_EQ(ptx->find_kernel("aligned_struct")->params.at(1).offset_bytes, 128u);
}
INSTANTIATE_TEST_SUITE_P(Nvcc, Cubin, testing::Values(75, 80, 90, 100, 120),
                         [](const auto& info) { return "sm_" + std::to_string(info.param); });

TEST(CubinInfo, RelocatableObjectsSaySo) {
    for (const char* name : {"relocatable_80.cubin", "relocatable_100.cubin"}) {
        SCOPED_TRACE(name);
        auto info = read_cubin_info(read_sample(name));
        ASSERT_TRUE(info.ok()) << info.error().what;
        EXPECT_TRUE(info->relocatable);
        check_info(*info);
    }
}

TEST(CubinInfo, LineInformationBringsThePtxAlong) {
    for (const auto& [name, arch] : {std::pair("lineinfo_80.cubin", 80u), std::pair("debug_120.cubin", 120u)}) {
        SCOPED_TRACE(name);
        auto ptx = read_debug_ptx(read_sample(name));
        ASSERT_TRUE(ptx.ok()) << ptx.error().what;
        ASSERT_EQ(ptx->size(), 1u);
        EXPECT_EQ(ptx->front().find('\0'), std::string::npos);
        auto info = read_ptx_info(ptx->front());
        ASSERT_TRUE(info.ok()) << info.error().what << " in line " << info.error().detail;
        EXPECT_EQ(info->arch, arch);
        check_info(*info);
    }
    auto none = read_debug_ptx(read_sample("sm_80.cubin"));
    ASSERT_TRUE(none.ok());
    EXPECT_TRUE(none->empty());
}

TEST(CubinInfo, ALinkedCubinBringsThePtxOfAllItsUnitsAlong) {
    auto texts = read_debug_ptx(read_sample("linked_80.cubin"));
    ASSERT_TRUE(texts.ok()) << texts.error().what;
    ASSERT_EQ(texts->size(), 2u);
    std::set<std::string> kernels;
    for (const std::string& text : *texts) {
        auto info = read_ptx_info(text);
        ASSERT_TRUE(info.ok()) << info.error().what << " in line " << info.error().detail;
        EXPECT_EQ(info->arch, 80u);
        for (const Kernel& kernel : info->kernels) kernels.insert(kernel.name);
    }
    EXPECT_EQ(kernels, (std::set<std::string>{"first_unit", "second_unit"}));
}

TEST(CubinInfo, OtherElfFilesAreRefused) {
    auto info = read_cubin_info(read_sample("default.so"));
    EXPECT_EQ(info.error().code, Code::malformed);
}

}  // namespace
}  // namespace warpline::cuda::image
