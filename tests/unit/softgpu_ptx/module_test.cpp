// Tests of parsed modules.
#include "ptx_text.h"

#include <cstring>
#include <tuple>

namespace warpline::softgpu::test {
namespace {

using namespace ptx;

TEST(PtxModule, HeaderIsRead) {
    auto module = parsed(".version 8.5\n.target sm_86, texmode_independent, debug\n.address_size 64\n");
    EXPECT_EQ(module->version.major_number, 8);
    EXPECT_EQ(module->version.minor_number, 5);
    EXPECT_EQ(module->target.sm, 86u);
    EXPECT_TRUE(module->target.texmode_independent);
    EXPECT_TRUE(module->target.debug);
}

TEST(PtxModule, ErrorCodes) {
    struct {
        const char* text;
        int cu_result;
    } const cases[] = {
        {".version 9.0\n.target sm_121\n.address_size 64\n", 0},
        {".version 9.5\n.target sm_90\n", 0},
        {".version 9.6\n.target sm_90\n", 222},
        {".version 10.0\n.target sm_90\n", 222},
        {".version 8.0\n.target sm_130\n", 209},
        {".version 8.0\n.target sm_90b\n", 209},
        {".version 8.0\n.target sm_100af\n", 209},
        {".version 8.0\n.target compute_90\n", 209},
        {".target sm_90\n", 218},
        {".version 8.0\n", 218},
        {"", 218},
        {"not PTX at all", 218},
        {".version 8.0\n.target sm_90\n.address_size 32\n", 218},
    };
    for (const auto& c : cases) {
        ParseResult result = parse(c.text);
        EXPECT_EQ(result.cu_result, c.cu_result) << c.text;
        EXPECT_EQ(result.module != nullptr, c.cu_result == 0) << c.text;
        EXPECT_EQ(result.diagnostics.empty(), c.cu_result == 0) << c.text;
    }
}

TEST(PtxModule, ArchitectureAndFamilySpecificTargets) {
    for (const auto& [text, sm, suffix] :
         {std::tuple(".version 8.0\n.target sm_90a\n", 90u, 'a'), std::tuple(".version 9.5\n.target sm_121f\n", 121u, 'f')}) {
        ParseResult result = parse(text);
        ASSERT_TRUE(result.module) << text;
        EXPECT_EQ(result.module->target.sm, sm);
        EXPECT_EQ(result.module->target.suffix, suffix);
    }
}

TEST(PtxModule, TrailingZerosOfAnImageAreNotText) {
    std::string text = with_header("");
    text.append(3, '\0');
    EXPECT_TRUE(parse(text).module);
}

struct VariableCase {
    const char* text;
    Space space;
    Linkage linkage;
    Type type;
    uint8_t vector;
    uint32_t alignment;
    uint64_t size;
    size_t init;
};

TEST(PtxModule, Variables) {
    const VariableCase cases[] = {
        {".global .u32 v;", Space::global, Linkage::internal, Type::u32, 1, 4, 4, 0},
        {".visible .global .align 16 .b8 v[24];", Space::global, Linkage::visible, Type::b8, 1, 16, 24, 0},
        {".const .f32 v[2][3] = {{0f3F800000}, {1.5, 2.5}};", Space::constant, Linkage::internal, Type::f32, 1, 4, 24, 12},
        {".extern .shared .align 16 .b8 v[];", Space::shared, Linkage::external, Type::b8, 1, 16, 0, 0},
        {".weak .global .u64 v[] = {1, 2, 3};", Space::global, Linkage::weak, Type::u64, 1, 8, 24, 24},
        {".common .global .v4 .f32 v;", Space::global, Linkage::common, Type::f32, 4, 16, 16, 0},
        {".global .v2 .u16 v[2] = {{1, 2}, {3, 4}};", Space::global, Linkage::internal, Type::u16, 2, 4, 8, 8},
        {".global .b128 v = -1;", Space::global, Linkage::internal, Type::b128, 1, 16, 16, 16},
        {".global .texref v;", Space::global, Linkage::internal, Type::texref, 1, 8, 8, 0},
    };
    for (const VariableCase& c : cases) {
        auto module = parsed(with_header(c.text));
        ASSERT_TRUE(module) << c.text;
        const Variable* v = module->variable("v");
        ASSERT_TRUE(v) << c.text;
        EXPECT_EQ(v->space, c.space) << c.text;
        EXPECT_EQ(v->linkage, c.linkage) << c.text;
        EXPECT_EQ(v->type, c.type) << c.text;
        EXPECT_EQ(v->vector, c.vector) << c.text;
        EXPECT_EQ(v->alignment, c.alignment) << c.text;
        EXPECT_EQ(v->size_bytes, c.size) << c.text;
        EXPECT_EQ(v->init.size(), c.init) << c.text;
    }
}

template <typename T>
T at(const Variable& variable, size_t offset) {
    T value{};
    if (offset + sizeof value <= variable.init.size()) std::memcpy(&value, variable.init.data() + offset, sizeof value);
    return value;
}

TEST(PtxModule, InitialValues) {
    auto module =
        parsed(with_header(".global .f32 f[4] = {1.5, 0f40000000, 0d3FF0000000000000, -2.5e1};\n"
                           ".global .f64 d[3] = {0.1, 0f3F800000, .5};\n"
                           ".global .s16 s[3] = {-1, 0x7fff, (1 + 2) * 3 - WARP_SZ};\n"
                           ".global .b8 b[4] = {255, 010, 0b101, 1 ? 7 : 8};\n"
                           ".global .u64 u = 0xFFFFFFFFFFFFFFFFU;\n"));
    const Variable &f = *module->variable("f"), &d = *module->variable("d"), &s = *module->variable("s"),
                   &b = *module->variable("b");
    EXPECT_EQ(at<float>(f, 0), 1.5f);
    EXPECT_EQ(at<float>(f, 4), 2.0f);
    EXPECT_EQ(at<float>(f, 8), 1.0f);
    EXPECT_EQ(at<float>(f, 12), -25.0f);
    EXPECT_EQ(at<double>(d, 0), 0.1);
    EXPECT_EQ(at<uint64_t>(d, 8), 0x3F800000u);  // ptxas widens the bits of a 0f literal
    EXPECT_EQ(at<double>(d, 16), 0.5);
    EXPECT_EQ(at<int16_t>(s, 0), -1);
    EXPECT_EQ(at<int16_t>(s, 2), 0x7fff);
    EXPECT_EQ(at<int16_t>(s, 4), -23);
    EXPECT_EQ(at<uint32_t>(b, 0), 0x070508ffu);
    EXPECT_EQ(at<uint64_t>(*module->variable("u"), 0), ~uint64_t{0});
}

TEST(PtxModule, AddressesInInitialValues) {
    auto module =
        parsed(with_header(".global .u32 x[4];\n.func f() { ret; }\n"
                           ".global .u64 t[4] = {x, generic(x) + 8, f, 5};\n"
                           ".global .u8 m[3] = {0xFF(x), 0xFF00(generic(x)), 0xFF00000000000000(x + 4)};\n"));
    const Variable &t = *module->variable("t"), &m = *module->variable("m");
    ASSERT_EQ(t.init_addresses.size(), 3u);
    EXPECT_EQ(t.init_addresses[0].symbol, module->find("x"));
    EXPECT_FALSE(t.init_addresses[0].generic);
    EXPECT_TRUE(t.init_addresses[1].generic);
    EXPECT_EQ(t.init_addresses[1].addend, 8);
    EXPECT_EQ(t.init_addresses[1].offset, 8u);
    EXPECT_EQ(t.init_addresses[2].symbol.kind, SymbolRef::Kind::function);
    EXPECT_EQ(at<uint64_t>(t, 24), 5u);
    ASSERT_EQ(m.init_addresses.size(), 3u);
    EXPECT_EQ(m.init_addresses[1].shift, 8);
    EXPECT_EQ(m.init_addresses[2].shift, 56);
    EXPECT_EQ(m.init_addresses[2].size, 1);
}

TEST(PtxModule, FunctionsWithDirectives) {
    auto module =
        parsed(with_header(".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
                           ".visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 s[24])\n"
                           ".maxntid 128, 2\n.minnctapersm 4\n.maxnreg 32\n.reqnctapercluster 2, 1, "
                           "1\n.explicitcluster\n.pragma \"nounroll\";\n{ ret; }\n"
                           ".weak .func (.reg .f32 r) g(.reg .f32 a) .noreturn { mov.f32 r, a; ret; }\n"));
    const Function* k = module->function("k");
    ASSERT_TRUE(k && k->is_entry && k->has_body);
    EXPECT_EQ(k->tuning.maxntid, (std::array<uint32_t, 3>{128, 2, 1}));
    EXPECT_EQ(k->tuning.maxntid_count, 2);
    EXPECT_EQ(k->tuning.minnctapersm, 4u);
    EXPECT_EQ(k->tuning.maxnreg, 32u);
    EXPECT_EQ(k->tuning.reqnctapercluster[0], 2u);
    EXPECT_TRUE(k->tuning.explicitcluster);
    ASSERT_EQ(k->params.size(), 2u);
    EXPECT_TRUE(k->params[0].is_ptr);
    EXPECT_EQ(k->params[0].ptr_space, Space::global);
    EXPECT_EQ(k->params[0].ptr_alignment, 16u);
    EXPECT_EQ(k->params[1].size_bytes, 24u);
    const Function* g = module->function("g");
    EXPECT_TRUE(g->tuning.noreturn);
    EXPECT_EQ(g->linkage, Linkage::weak);
    EXPECT_EQ(g->body->param_regs[0], g->body->operands[1].reg);
    EXPECT_FALSE(module->function("vprintf")->has_body);
}

TEST(PtxModule, DefinitionWinsOverDeclaration) {
    auto module = parsed(
        with_header(".func f();\n.extern .global .u32 x;\n.global .u64 t = f;\n.func f() { ret; }\n.global .u32 x = 1;\n"));
    EXPECT_TRUE(module->functions[module->find("f").index].has_body);
    EXPECT_TRUE(module->functions[module->variable("t")->init_addresses[0].symbol.index].has_body);
    EXPECT_EQ(module->variables[module->find("x").index].linkage, Linkage::internal);
}

TEST(PtxModule, Refusals) {
    struct {
        const char* text;
        const char* message;
    } const cases[] = {
        {".global .u32 x; .global .u32 x;", "4:30: duplicate definition of variable 'x'"},
        {".func f() { ret; }\n.func f() { ret; }", "5:7: duplicate definition of function 'f'"},
        {".global .u32 x = 1.5;", "initial value type mismatch"},
        {".global .f32 x = 1;", "initial value type mismatch"},
        {".global .u32 x[2] = {1, 2, 3};", "greater number of elements"},
        {".global .u32 x[2][2] = {1, 2, 3, 4};", "initial value type mismatch"},
        {".global .v4 .f32 x = {1.0};", "incorrect number of elements"},
        {".global .u32 x[];", "incomplete type"},
        {".shared .u32 x = 3;", "no initial value is allowed"},
        {".extern .global .u32 x = 3;", "no initial value is allowed"},
        {".global .align 3 .u32 x;", "power of two"},
        {".global .pred x;", "must be a register"},
        {".global .bf16 x;", "wanted a type"},
        {".global .u64 x = y;", "invalid initial value symbol 'y'"},
        {".global .u32 x = 1 / 0;", "division by zero"},
        {".global .u64 x = 99999999999999999999;", "out of range"},
        {".global .b8 x[18446744073709551615][4];", "too large"},
        {".global .b8 x[4294967296];\n.global .b8 y[2] = {1, 2", "unexpected end"},
        {".entry k() { ret;", "has no end"},
        {".func f(.param .b32 a); .func f(.param .b32 a, .param .b32 b) { ret; }", "do not agree"},
        {"/* no end", "unfinished comment"},
        {".section .debug { .b8 1", "has no end"},
        {"garbage;", "wanted a directive"},
        {".visible .reg .b32 x;", "wanted a variable or a function"},
    };
    for (const auto& c : cases) {
        std::string message = first_message(with_header(c.text));
        EXPECT_NE(message.find(c.message), std::string::npos) << c.text << "\n  gave: " << message;
    }
}

TEST(PtxModule, SeveralMessagesAreCollected) {
    ParseResult result =
        parse(with_header(".global .u32 a = 1.5;\n.global .u32 b;\n.global .f32 c = 2;\n.func f( { ret; }\n.global .bad d;\n"));
    EXPECT_FALSE(result.module);
    ASSERT_GE(result.diagnostics.size(), 4u);
    EXPECT_EQ(result.diagnostics[0].at.line, 4u);
    EXPECT_EQ(result.diagnostics[1].at.line, 6u);
}

TEST(PtxModule, SectionsFilesAndPreprocessorLines) {
    auto module = parsed(
        with_header("# 1 \"a.cu\"\n.file 1 \"a.cu\", 123, 456\n.section .debug_str {\n.b8 1,2 // }\n}\n.global .u32 x;\n"));
    ASSERT_EQ(module->sections.size(), 1u);
    EXPECT_EQ(module->sections[0].name, ".debug_str");
    EXPECT_EQ(module->files.size(), 1u);
    EXPECT_TRUE(module->variable("x"));
}

}  // namespace
}  // namespace warpline::softgpu::test
