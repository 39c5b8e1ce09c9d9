// Tests of what is read from PTX text.
#include <gtest/gtest.h>

#include "cuda/image/ptx_tokens.h"
#include "cuda/image/ptx_version.h"
#include "samples.h"

namespace warpline::cuda::image {
namespace {

std::string module_of(std::string_view body) { return ".version 8.7\n.target sm_80\n.address_size 64\n" + std::string(body); }

std::vector<std::pair<uint32_t, uint32_t>> layout(const Kernel& kernel) {
    std::vector<std::pair<uint32_t, uint32_t>> result;
    for (const Param& param : kernel.params) result.emplace_back(param.offset_bytes, param.size_bytes);
    return result;
}

using Layout = std::vector<std::pair<uint32_t, uint32_t>>;

TEST(PtxScan, ParametersOfBothDialects) {
    auto info = read_ptx_info(module_of(R"(
        .visible .entry k(
            .param .u8 k_param_0, /* a comment ( ) { } */
            .param .align 16 .b8 k_param_1[24],   // another .param .u64 x
            .param .u64 .ptr .global .align 1 k_param_2,
            .param .f64 k_param_3, .param .v4 .f32 k_param_4,
            .param .align 2 .b8 k_param_5[3],
            .param .b128 k_param_6, .param .texref k_param_7
        )
        { ret; })"));
    ASSERT_TRUE(info.ok()) << info.error().what;
    EXPECT_EQ(layout(info->kernels.at(0)), (Layout{{0, 1}, {16, 24}, {40, 8}, {48, 8}, {64, 16}, {80, 3}, {96, 16}, {112, 8}}));
    EXPECT_EQ(info->kernels.at(0).param_bytes, 120u);
    EXPECT_EQ(info->ptx_version, 87u);
}

TEST(PtxScan, BoundsAndSharedMemory) {
    auto info = read_ptx_info(module_of(R"(
        .shared .align 4 .b8 module_level[64];
        .entry a .maxntid 32, 4, 2 .minnctapersm 3 .maxnreg 64 { .shared .align 4 .b8 s[100]; { .shared .f64 t; } ld.shared.f32 %f, [s]; ret; }
        .entry b() .reqntid 128 .reqnctapercluster 2, 1, 1 .explicitcluster .pragma "nounroll"; { ret; }
        .visible .entry declared_only(.param .u64 x);
    )"));
    ASSERT_TRUE(info.ok()) << info.error().what;
    ASSERT_EQ(info->kernels.size(), 2u);
    const Kernel& a = info->kernels[0];
    EXPECT_EQ(a.max_threads, (std::array<uint32_t, 3>{32, 4, 2}));
    EXPECT_EQ(a.max_threads_per_block(), 256u);
    EXPECT_EQ(a.min_blocks, 3u);
    EXPECT_EQ(a.static_shared_bytes, 112u);
    const Kernel& b = info->kernels[1];
    EXPECT_EQ(b.required_threads, (std::array<uint32_t, 3>{128, 1, 1}));
    EXPECT_EQ(b.cluster, (std::array<uint32_t, 3>{2, 1, 1}));
    EXPECT_EQ(b.static_shared_bytes, 0u);
}

TEST(PtxScan, Variables) {
    auto info = read_ptx_info(module_of(R"(
        .global .align 4 .u32 one = 3;
        .visible .global .align 8 .b8 text[] = {104, 101, 0x6cU};
        .global .u64 table[2] = {generic(text), f};
        .global .f32 grid[3][5], row[7];
        .const .align 16 .v4 .f32 vectors[2];
        .global .attribute(.managed) .align 8 .f64 shared_with_host;
        .global .texref old_texture;
        .extern .global .align 4 .b8 elsewhere[40];
        .func f() { ret; }
    )"));
    ASSERT_TRUE(info.ok()) << info.error().what;
    std::map<std::string, uint64_t> sizes;
    for (const Global& global : info->globals) sizes[global.name] = global.size_bytes;
    EXPECT_EQ(sizes, (std::map<std::string, uint64_t>{{"one", 4},
                                                      {"text", 3},
                                                      {"table", 16},
                                                      {"grid", 60},
                                                      {"row", 28},
                                                      {"vectors", 32},
                                                      {"shared_with_host", 8},
                                                      {"elsewhere", 40}}));
    EXPECT_TRUE(info->find_global("shared_with_host")->managed);
    EXPECT_FALSE(info->find_global("one")->managed);
    EXPECT_EQ(info->find_global("vectors")->space, Space::constant);
    EXPECT_EQ(info->find_global("vectors")->alignment_bytes, 16u);
    EXPECT_TRUE(info->find_global("elsewhere")->external);
    EXPECT_TRUE(info->relocatable) << "something is defined elsewhere";
}

TEST(PtxScan, ExternFunctionsOfTheSystemNeedNoLinking) {
    auto system = read_ptx_info(module_of(".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"));
    ASSERT_TRUE(system.ok());
    EXPECT_TRUE(system->uses_printf);
    EXPECT_FALSE(system->relocatable);
    auto other = read_ptx_info(module_of(".extern .func other;"));
    ASSERT_TRUE(other.ok());
    EXPECT_TRUE(other->relocatable);
}

TEST(PtxScan, DebugSectionsAndStringsAreNoKernels) {
    auto info = read_ptx_info(module_of(R"(
        .file 1 "a { file ; .entry x(" , 1, 2
        .section .debug_info { .b8 1, 2, 3 .b32 .debug_abbrev }
        .entry k() { .loc 1 2 3 $L_1: bra $L_1; .pragma "}"; ret; }
    )"));
    ASSERT_TRUE(info.ok()) << info.error().what;
    ASSERT_EQ(info->kernels.size(), 1u);
    EXPECT_EQ(info->kernels[0].name, "k");
}

TEST(PtxScan, MistakesNameTheLine) {
    struct Row {
        const char* text;
        uint32_t line;
    };
    for (const Row& row : {Row{".entry k(\n.param .u64\n", 6}, Row{"\n.entry k(.param .what x) {}", 5},
                           Row{".entry k() { ret;", 4}, Row{".global .b8 x[", 4},
                           Row{".global .b8 x[99999999999999999999];", 4}, Row{".entry k(.param .align 3 .b8 x[4]) {}", 4}}) {
        auto info = read_ptx_info(module_of(row.text));
        ASSERT_FALSE(info.ok()) << row.text;
        EXPECT_EQ(info.error().code, Code::malformed);
        EXPECT_EQ(info.error().detail, row.line) << row.text;
    }
    EXPECT_FALSE(read_ptx_info("").ok());
    EXPECT_FALSE(read_ptx_info(".version 9.0\n").ok()) << "no .target";
}

TEST(PtxTokens, Numbers) {
    uint64_t number = 0;
    EXPECT_TRUE(parse_ptx_number("0x1F", number) && number == 31);
    EXPECT_TRUE(parse_ptx_number("0b101U", number) && number == 5);
    EXPECT_TRUE(parse_ptx_number("017", number) && number == 15);
    EXPECT_TRUE(parse_ptx_number("0", number) && number == 0);
    EXPECT_TRUE(parse_ptx_number("18446744073709551615", number) && number == UINT64_MAX);
    for (const char* wrong : {"", "18446744073709551616", "12x", "0x", "U", "-1"})
        EXPECT_FALSE(parse_ptx_number(wrong, number)) << wrong;
}

TEST(PtxVersion, IsReadWithoutTheRest) {
    EXPECT_EQ(ptx_version("// Generated\n.version 8.4\n.target sm_75\n rubbish {"), 84u);
    EXPECT_EQ(ptx_version(".target sm_75\n.version 8.4\n"), 0u);
    EXPECT_EQ(ptx_version(""), 0u);
    EXPECT_EQ(ptx_version(".version nine"), 0u);
}

TEST(PtxVersion, EachDriverTakesThoseUpToItsOwn) {
    EXPECT_EQ(newest_ptx_version(11080), 78u);
    EXPECT_EQ(newest_ptx_version(12020), 82u);
    EXPECT_EQ(newest_ptx_version(12060), 85u) << "12.5 and 12.6 have the same";
    EXPECT_EQ(newest_ptx_version(12080), 87u);
    EXPECT_EQ(newest_ptx_version(13000), 90u);
    EXPECT_EQ(newest_ptx_version(13050), 95u);
    EXPECT_EQ(newest_ptx_version(13060), UINT32_MAX) << "what is not known is left to the driver";
}

}  // namespace
}  // namespace warpline::cuda::image
