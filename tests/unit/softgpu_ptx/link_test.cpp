// Tests of linking.
#include "ptx_text.h"

#include "softgpu/passes/check.h"
#include "softgpu/passes/link.h"
#include "softgpu/passes/load.h"

namespace warpline::softgpu::test {
namespace {

using namespace ptx;

passes::LinkResult linked(std::initializer_list<const char*> texts) {
    std::vector<std::unique_ptr<Module>> modules;
    size_t number = 0;
    for (const char* text : texts) {
        std::string name = "unit" + std::to_string(number++);
        ParseOptions options;
        options.unit_name = name;
        ParseResult result = parse(with_header(text), options);
        EXPECT_TRUE(result.module) << all_text(result.diagnostics);
        modules.push_back(std::move(result.module));
    }
    passes::LinkOptions options;
    options.is_provided = [](std::string_view name) { return name == "vprintf"; };
    return passes::link(std::move(modules), options);
}

// Parses all bodies of a link's result, prints it, and checks that the text stands on its own.
std::unique_ptr<Module> again(passes::LinkResult& result) {
    EXPECT_TRUE(result.module) << all_text(result.diagnostics);
    if (!result.module) return nullptr;
    Diagnostics diagnostics;
    EXPECT_TRUE(parse_all_bodies(*result.module, diagnostics)) << all_text(diagnostics);
    EXPECT_TRUE(passes::check(*result.module, diagnostics)) << all_text(diagnostics);
    return parsed(print(*result.module));
}

TEST(PtxLink, ExternMeetsDefinition) {
    auto result =
        linked({".extern .global .u32 x;\n.extern .func (.param .b32 r) f(.param .b32 a);\n"
                ".visible .entry k() { .reg .b32 %r<3>; .param .b32 p; ld.global.u32 %r1, [x]; call (p), f, (%r1); ret; }",
                ".visible .global .u32 x = 7;\n"
                ".visible .func (.param .b32 r) f(.param .b32 a) { .reg .b32 %r<2>; ld.param.u32 %r1, [a]; st.param.b32 [r], "
                "%r1; ret; }"});
    auto module = again(result);
    ASSERT_TRUE(module);
    EXPECT_EQ(module->variable("x")->init.size(), 4u);
    EXPECT_TRUE(module->function("f")->has_body);
    // The kernel's references lead to the definitions, in the module that the engine uses.
    const Function& k = *result.module->function("k");
    EXPECT_EQ(result.module->variables[k.body->operands[1].symbol.index].linkage, Linkage::visible);
    EXPECT_TRUE(result.module->functions[k.body->operands[k.body->calls[0].target].symbol.index].has_body);
    EXPECT_EQ(result.module->variables.size(), 1u);
}

TEST(PtxLink, EachTextKeepsItsArchitecture) {
    std::vector<std::unique_ptr<Module>> modules;
    for (const char* text : {".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry older() { ret; }",
                             ".version 8.8\n.target sm_121\n.address_size 64\n.visible .entry newer() { ret; }"}) {
        modules.push_back(parsed(text));
    }
    auto result = passes::link(std::move(modules));
    ASSERT_TRUE(result.module) << all_text(result.diagnostics);
    EXPECT_EQ(result.module->target.sm, 121u);
    EXPECT_EQ(result.module->units[result.module->function("older")->unit].sm, 80u);
    EXPECT_EQ(result.module->units[result.module->function("newer")->unit].sm, 121u);
}

TEST(PtxLink, StrongBeatsWeakBeatsCommon) {
    auto result = linked({".weak .global .u32 x = 1;\n.common .global .u32 y;\n.weak .func f() { ret; }",
                          ".visible .global .u32 x = 2;\n.weak .global .u32 y = 5;\n.weak .func f() { trap; }",
                          ".weak .global .u32 x = 3;\n.common .global .u32 y;"});
    auto module = again(result);
    ASSERT_TRUE(module);
    EXPECT_EQ(module->variable("x")->init[0], std::byte{2});
    EXPECT_EQ(module->variable("y")->init[0], std::byte{5});
    EXPECT_EQ(module->function("f")->body->instructions[0].opcode, Opcode::ret);  // of equals the first
}

TEST(PtxLink, PrivateNamesAreKeptApart) {
    const char* text =
        ".global .u32 x = %d;\n.func f() { ret; }\n.global .u64 t[2] = {x, f};\n"
        ".visible .entry k%d() { .reg .b32 %%r<2>; ld.global.u32 %%r1, [x]; call f; ret; }";
    char first[400], second[400];
    std::snprintf(first, sizeof first, text, 1, 1);
    std::snprintf(second, sizeof second, text, 2, 2);
    auto result = linked({first, second});
    auto module = again(result);
    ASSERT_TRUE(module);
    EXPECT_EQ(module->variables.size(), 4u);
    for (const char* name : {"k1", "k2"}) {
        const Function& k = *module->function(name);
        const Variable& x = module->variables[k.body->operands[1].symbol.index];
        EXPECT_EQ(x.init[0], std::byte(name[1] - '0'));
    }
    // Tables of addresses follow their own text's symbols.
    const Variable &t1 = *module->variable("t"), &t2 = *module->variable("t$1");
    EXPECT_NE(t1.init_addresses[0].symbol, t2.init_addresses[0].symbol);
    EXPECT_EQ(module->variables[t2.init_addresses[0].symbol.index].init[0], std::byte{2});
}

TEST(PtxLink, Refusals) {
    struct {
        const char *first, *second, *message;
    } const cases[] = {
        {".visible .global .u32 x;", ".visible .global .u32 x;", "unit1:4:23: multiple definition of 'x'"},
        {".visible .func f() { ret; }", ".visible .func f() { ret; }", "multiple definition of 'f'"},
        {".extern .global .u32 x;", "", "unit0:4:22: unresolved extern variable 'x'"},
        {".extern .func f();", "", "unresolved extern function 'f'"},
        {".func f();\n.entry k() { call f; ret; }", ".func f() { ret; }", "unresolved extern function 'f'"},
        {".extern .global .u32 x[2];", ".visible .global .u32 x;", "do not agree"},
        {".extern .global .u32 x;", ".visible .const .u32 x;", "do not agree"},
        {".extern .func f(.param .b32 a);", ".visible .func f(.param .b64 a) { ret; }", "do not agree"},
        {".visible .func x() { ret; }", ".visible .global .u32 x;", "do not agree"},
    };
    for (const auto& c : cases) {
        auto result = linked({c.first, c.second});
        EXPECT_FALSE(result.module) << c.first;
        EXPECT_EQ(result.cu_result, 218);
        ASSERT_FALSE(result.diagnostics.empty()) << c.first;
        Module names;
        for (const char* name : {"unit0", "unit1"}) names.units.emplace_back().name = name;
        std::string text = to_string(names, result.diagnostics[0]);
        EXPECT_NE(text.find(c.message), std::string::npos) << c.first << "\n  gave: " << text;
    }
}

TEST(PtxLink, ProvidedFunctionsAndDynamicSharedMemoryNeedNoDefinition) {
    const char* text =
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n.extern .shared .align 16 .b8 pool[];\n";
    auto result = linked({text, text});
    auto module = again(result);
    ASSERT_TRUE(module);
    EXPECT_EQ(module->functions.size(), 1u);
    EXPECT_EQ(module->variables.size(), 1u);
}

TEST(PtxLink, OneModuleComesBackAsItIs) {
    auto result = linked({".file 1 \"a\"\n.global .u32 x;\n.entry k() { ret; }"});
    ASSERT_TRUE(result.module);
    EXPECT_EQ(result.module->files.size(), 1u);
    auto unresolved = linked({".extern .func f();"});
    EXPECT_FALSE(unresolved.module);
}

TEST(PtxLink, VersionsAndTargetsGrow) {
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(parse(".version 7.8\n.target sm_80\n").module);
    modules.push_back(parse(".version 8.5\n.target sm_75, debug\n").module);
    auto result = passes::link(std::move(modules));
    ASSERT_TRUE(result.module);
    EXPECT_EQ(result.module->version.major_number, 8);
    EXPECT_EQ(result.module->target.sm, 80u);
    EXPECT_TRUE(result.module->target.debug);
}

TEST(PtxLoad, SeveralTextsAndTheirMessages) {
    std::string a = with_header(".extern .func f();\n.entry k() { call f; ret; }"),
                b = with_header(".visible .func f() { frob; }");
    std::string bad = with_header("garbage"), newer = ".version 9.9\n";
    auto load = [](std::initializer_list<std::string_view> texts) {
        std::vector<std::string_view> list(texts), names = {"a.ptx", "b.ptx"};
        return passes::load(list, names, {});
    };
    auto good = load({a, b});
    ASSERT_TRUE(good.module) << good.log;
    std::string log;
    EXPECT_EQ(passes::prepare_body(*good.module, *good.module->function("k"), log), 0) << log;
    EXPECT_EQ(passes::prepare_body(*good.module, *good.module->function("f"), log), 218);
    EXPECT_EQ(log, "b.ptx:4:22: not a name of any known instruction: 'frob'\n");
    auto wrong = load({a, bad});
    EXPECT_EQ(wrong.cu_result, 218);
    EXPECT_NE(wrong.log.find("b.ptx:4:1: syntax error near 'garbage'"), std::string::npos) << wrong.log;
    EXPECT_EQ(load({newer, bad}).cu_result, 222);
    EXPECT_EQ(load({a}).log, "a.ptx:4:15: unresolved extern function 'f'\n");
}

}  // namespace
}  // namespace warpline::softgpu::test
