// The corpus is compiled by nvcc to PTX, parsed, checked, printed, and assembled by ptxas from both texts: the cubins must be
// the same, byte by byte. Debug builds carry the PTX text and its line numbers inside the cubin; there all other sections must
// be. Builds that leave ptxas out (WARPLINE_PTX_ASSEMBLE) parse what was printed, and print it again.
#include "ptx_text.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "common/base/bytes.h"
#include "softgpu/passes/check.h"
#include "softgpu/passes/link.h"

namespace warpline::softgpu::test {
namespace {

namespace fs = std::filesystem;
using namespace ptx;

const fs::path k_sources = WARPLINE_PTX_CORPUS;
const fs::path k_cache = WARPLINE_PTX_CACHE;

constexpr bool k_assemble = WARPLINE_PTX_ASSEMBLE;

constexpr std::string_view k_toolkit = WARPLINE_TOOLKIT;

/// Runs a shell's command. CTest puts the tools of the toolkit into its path.
int run(const std::string& command) { return std::system(("nice " + command).c_str()); }

bool have_toolkit() { return !k_toolkit.empty(); }

/// What was printed means itself: it is a module that is printed as the same text.
void expect_stable(const std::string& printed) {
    auto again = parsed(printed);
    ASSERT_TRUE(again);
    Diagnostics diagnostics;
    EXPECT_TRUE(passes::check(*again, diagnostics)) << all_text(diagnostics);
    EXPECT_EQ(print(*again), printed);
}

std::string read_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

/// The PTX of a source, compiled if the cache has none that is newer than it.
std::string compile(const std::string& source, int arch, const std::string& flags, const std::string& tag) {
    fs::create_directories(k_cache);
    fs::path from = k_sources / (source + ".cu"), to = k_cache / (source + tag + "." + std::to_string(arch) + ".ptx");
    if (!fs::exists(to) || fs::last_write_time(to) < fs::last_write_time(from)) {
        fs::path temporary = to;
        temporary += "." + std::to_string(getpid());  // another build may be at it
        int status = run("nvcc -std=c++17 -w -ptx -arch=compute_" + std::to_string(arch) + " " + flags + " -o '" +
                         temporary.string() + "' '" + from.string() + "'");
        EXPECT_EQ(status, 0) << "nvcc does not compile " << from;
        if (status != 0) return "";
        fs::rename(temporary, to);
    }
    return read_file(to);
}

/// The cubin of a text. Both texts of a pair are assembled under the same name, which ends up inside.
std::string assemble(const std::string& text, int arch, const std::string& flags, const std::string& folder) {
    fs::path place = k_cache / folder;
    fs::create_directories(place);
    std::ofstream(place / "module.ptx") << text;
    int status = run("sh -c 'cd \"" + place.string() + "\" && ptxas -w -arch=sm_" + std::to_string(arch) + " " + flags +
                     " -o module.cubin module.ptx'");
    EXPECT_EQ(status, 0) << "ptxas does not assemble " << place;
    return status == 0 ? read_file(place / "module.cubin") : "";
}

/// Sections of an ELF file but for those that hold the PTX text and where its lines are.
std::map<std::string, std::string> sections(const std::string& elf) {
    BytesView bytes = as_bytes(std::string_view(elf));
    std::map<std::string, std::string> out;
    uint64_t table = 0;
    uint16_t count = 0, names = 0;
    if (!read_at(bytes, 0x28, table) || !read_at(bytes, 0x3c, count) || !read_at(bytes, 0x3e, names)) return out;
    auto field = [&](uint64_t index, uint64_t offset) {
        uint64_t value = 0;
        read_at(bytes, table + 64 * index + offset, value);
        return value;
    };
    for (uint64_t i = 0; i < count; i++) {
        uint32_t name = 0, type = 0;
        read_at(bytes, table + 64 * i, name);
        read_at(bytes, table + 64 * i + 4, type);
        std::string key = elf.c_str() + std::min<uint64_t>(field(names, 0x18) + name, elf.size());
        if (key == ".strtab") continue;  // private variables of bodies are named after their line
        if (key.find("nv_debug_line_sass") != std::string::npos || key.find("nv_debug_ptx_txt") != std::string::npos) continue;
        constexpr uint32_t k_nobits = 8;
        std::string content =
            type == k_nobits ? "" : elf.substr(std::min<uint64_t>(field(i, 0x18), elf.size()), field(i, 0x20));
        out[key + "#" + std::to_string(out.count(key))] = content + "|" + std::to_string(field(i, 0x20));
    }
    return out;
}

struct CorpusCase {
    const char* source;
    std::vector<int> archs;
    const char* nvcc_flags = "";
    const char* ptxas_flags = "";
    const char* tag = "";
};

const std::vector<int> k_all = {75, 80, 90, 120};
const CorpusCase k_cases[] = {
    {"arithmetic", k_all},
    {"control", k_all},
    {"memory", k_all},
    {"warp", k_all},
    {"half", {80, 90, 120}},
    {"tensor", k_all},
    {"texture", k_all},
    {"libm", k_all},
    {"libm", {80, 120}, "-use_fast_math", "", "_fast"},
    {"cluster", {80, 90, 120}},
    {"cub_blocks", {75, 120}},
    {"thrust_sort", {80, 120}},
    {"relocatable", k_all, "-rdc=true", "-c", "_rdc"},
    {"control", {80, 120}, "-lineinfo", "-lineinfo", "_lineinfo"},
    {"control", {80, 120}, "-G", "-g", "_debug"},
};

class PtxCorpus : public testing::TestWithParam<CorpusCase> {};

TEST_P(PtxCorpus, PrintedTextAssemblesToTheSameCubin) {
    if (!have_toolkit()) GTEST_SKIP() << "no nvcc here";
    const CorpusCase& c = GetParam();
    for (int arch : c.archs) {
        SCOPED_TRACE(arch);
        std::string text = compile(c.source, arch, c.nvcc_flags, c.tag);
        if (text.empty()) continue;
        auto module = parsed(text);
        ASSERT_TRUE(module);
        Diagnostics diagnostics;
        EXPECT_TRUE(passes::check(*module, diagnostics)) << all_text(diagnostics);
        if (!k_assemble) {
            expect_stable(print(*module));
            continue;
        }
        std::string place = std::string("cubin_") + c.source + c.tag + std::to_string(arch);
        std::string original = assemble(text, arch, c.ptxas_flags, place + "_a");
        std::string printed = assemble(print(*module), arch, c.ptxas_flags, place + "_b");
        if (*c.ptxas_flags == '\0')
            EXPECT_TRUE(original == printed && !original.empty());
        else
            EXPECT_EQ(sections(original), sections(printed));
    }
}

INSTANTIATE_TEST_SUITE_P(All, PtxCorpus, testing::ValuesIn(k_cases), [](const testing::TestParamInfo<CorpusCase>& info) {
    return std::string(info.param.source) + info.param.tag;
});

// The hand-written seeds of the fuzzer hold what nvcc does not emit.
TEST(PtxSeeds, PrintedTextAssemblesToTheSameSections) {
    if (k_assemble && !have_toolkit()) GTEST_SKIP() << "no ptxas here";
    size_t seeds = 0;
    for (const auto& entry : fs::directory_iterator(WARPLINE_PTX_SEEDS)) {
        SCOPED_TRACE(entry.path().filename());
        std::string text = read_file(entry.path());
        auto module = parsed(text);
        ASSERT_TRUE(module);
        Diagnostics diagnostics;
        EXPECT_TRUE(passes::check(*module, diagnostics)) << all_text(diagnostics);
        seeds++;
        if (!k_assemble) {
            expect_stable(print(*module));
            continue;
        }
        int arch = static_cast<int>(module->target.sm);
        auto original = sections(assemble(text, arch, "", "seed_a")),
             printed = sections(assemble(print(*module), arch, "", "seed_b"));
        EXPECT_EQ(original, printed);
        EXPECT_GT(original.size(), 5u);
    }
    EXPECT_GE(seeds, 4u);
}

// Two relocatable modules become one that needs no linker: ptxas assembles it as a whole program.
TEST(PtxCorpusLink, RelocatableModulesBecomeAWholeProgram) {
    if (!have_toolkit()) GTEST_SKIP() << "no nvcc here";
    for (int arch : {80, 120}) {
        std::vector<std::unique_ptr<Module>> modules;
        for (const char* source : {"relocatable", "relocatable_other"}) {
            ParseResult result = parse(compile(source, arch, "-rdc=true", "_rdc"));
            ASSERT_TRUE(result.module) << all_text(result.diagnostics);
            modules.push_back(std::move(result.module));
        }
        auto result = passes::link(std::move(modules));
        ASSERT_TRUE(result.module) << all_text(result.diagnostics);
        Diagnostics diagnostics;
        ASSERT_TRUE(parse_all_bodies(*result.module, diagnostics)) << all_text(diagnostics);
        EXPECT_TRUE(passes::check(*result.module, diagnostics)) << all_text(diagnostics);
        if (k_assemble)
            EXPECT_FALSE(assemble(print(*result.module), arch, "", "linked" + std::to_string(arch)).empty());
        else
            expect_stable(print(*result.module));
    }
}

}  // namespace
}  // namespace warpline::softgpu::test
