// Tests of parsed bodies.
#include "ptx_text.h"

namespace warpline::softgpu::test {
namespace {

using namespace ptx;

struct Parsed {
    std::unique_ptr<Module> module;
    const Function* function = nullptr;
    const Body* body = nullptr;
    const Instruction& operator[](size_t i) const { return body->instructions[i]; }
    const Operand& operand(size_t instruction, size_t i) const { return body->operands_of((*this)[instruction])[i]; }
};

Parsed entry(std::string_view body) {
    Parsed out;
    out.module = parsed(with_entry(body));
    if (out.module) out.function = out.module->function("k");
    if (out.function) out.body = out.function->body.get();
    return out;
}

TEST(PtxBody, InstructionParts) {
    Parsed p = entry("@!%p3 mad.lo.cc.u32 %r1, %r2, -5, %r4;");
    ASSERT_TRUE(p.body);
    const Instruction& i = p[0];
    EXPECT_EQ(i.opcode, Opcode::mad);
    EXPECT_TRUE(i.guard_negated);
    EXPECT_EQ(register_name(*p.function, i.guard), "%p3");
    ASSERT_EQ(i.mod_count, 3);
    EXPECT_EQ(p.body->mods_of(i)[1], Mod::cc);
    EXPECT_EQ(i.type_count, 1);
    EXPECT_EQ(i.type(), Type::u32);
    ASSERT_EQ(i.operand_count, 4);
    EXPECT_EQ(p.operand(0, 2).kind, Operand::Kind::integer);
    EXPECT_EQ(p.operand(0, 2).offset(), -5);
    EXPECT_TRUE(p.body->has(i, Mod::lo));
    EXPECT_FALSE(p.body->has(i, Mod::hi));
    EXPECT_EQ(print(*p.module, *p.function, i), "@!%p3 mad.lo.cc.u32 %r1, %r2, -5, %r4");
}

// Text of an instruction, and the same as printed, which shows every field that matters.
TEST(PtxBody, OperandForms) {
    struct {
        const char* text;
        const char* printed;
    } const cases[] = {
        {"mov.u32 %r1, %tid.x", "mov.u32 %r1, %tid.x"},
        {"mov.u32 %r1, %envreg31", "mov.u32 %r1, %envreg31"},
        {"mov.u64 %d1, %pm7_64", "mov.u64 %d1, %pm7_64"},
        {"mov.u32 %r1, %reserved_smem_offset_1", "mov.u32 %r1, %reserved_smem_offset_1"},
        {"mov.u32 %r1, WARP_SZ - 1", "mov.u32 %r1, 31"},
        {"mov.u32 %r1, (.s64)(3 << 2) | 1", "mov.u32 %r1, 13"},
        {"mov.u32 %r1, 0xFFFFFFFFU", "mov.u32 %r1, 4294967295"},
        {"mov.f32 %f1, 1.5", "mov.f32 %f1, 0d3FF8000000000000"},
        {"mov.f32 %f1, -0f3F800000", "mov.f32 %f1, 0fBF800000"},
        {"mov.f64 %e1, .25e1", "mov.f64 %e1, 0d4004000000000000"},
        {"mov.u64 %d1, gv + 4", "mov.u64 %d1, gv+4"},
        {"mov.u64 %d1, gv[3]", "mov.u64 %d1, gv+12"},
        {"ld.global.u32 %r1, gv[3]", "ld.global.u32 %r1, [gv+12]"},
        {"ld.global.u32 %r1, gv[%r2 + 1]", "ld.global.u32 %r1, gv[%r2+1]"},
        {"ld.global.u32 %r1, [%d1 + -8]", "ld.global.u32 %r1, [%d1+-8]"},
        {"ld.local.u32 %r1, [16]", "ld.local.u32 %r1, [16]"},
        {"ld.global.v2.u32 {%r1, _}, [%d1]", "ld.global.v2.u32 {%r1, _}, [%d1]"},
        {"setp.lt.and.s32 %p1|%p2, %r1, 3, !%p3", "setp.lt.and.s32 %p1|%p2, %r1, 3, !%p3"},
        {"shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1", "shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1"},
        {"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, {%f5, %f6}]",
         "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, {%f5, %f6}]"},
        {"tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d1, %d2, {%r1}]",
         "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d1, %d2, {%r1}]"},
        {"vadd.s32.u32.s32.sat %r1, %r2.b3, %r3.h1, %r4", "vadd.s32.u32.s32.sat %r1, %r2.b3, %r3.h1, %r4"},
        {"vadd4.u32.u32.u32 %r1, %r2.b7654, %r3.b3210, %r4", "vadd4.u32.u32.u32 %r1, %r2.b7654, %r3.b3210, %r4"},
        {"vmad.s32.s32.s32 %r1, %r2, -%r3, %r4", "vmad.s32.s32.s32 %r1, %r2, -%r3, %r4"},
        {"mov.b64 {%r1, _}, %d1", "mov.b64 {%r1, _}, %d1"},
        {"cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1, {%r1, %r2}], [%r3]",
         "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1, {%r1, %r2}], [%r3]"},
        {"mov.u32 %r1, %r02", "mov.u32 %r1, %r2"},
    };
    for (const auto& c : cases) {
        Parsed p = entry(std::string(c.text) + ";");
        ASSERT_TRUE(p.body) << c.text;
        EXPECT_EQ(print(*p.module, *p.function, p[0]), c.printed);
    }
}

// A 0f literal and a decimal one are different things: the bits of the first are taken as they are.
TEST(PtxBody, ExactAndDecimalFloats) {
    Parsed p = entry("add.f64 %e1, %e2, 0f3F800000; add.f64 %e1, %e2, 1.0;");
    EXPECT_EQ(p.operand(0, 2).kind, Operand::Kind::f32);
    EXPECT_EQ(p.operand(0, 2).bits, 0x3F800000u);
    EXPECT_EQ(p.operand(1, 2).kind, Operand::Kind::f64);
    EXPECT_EQ(p.operand(1, 2).bits, 0x3FF0000000000000u);
}

TEST(PtxBody, TypesComeFromDeclarationsAndNotFromNames) {
    auto module = parsed(
        with_header(".entry k() { .reg .b32 %f<3>; .reg .f64 %r; .reg .v2 .u16 v; mov.b32 %f1, %f2; mov.f64 %r, %r; ret; }"));
    const Body& body = *module->function("k")->body;
    EXPECT_EQ(body.register_count(), 5u);
    EXPECT_EQ(body.reg_types[body.operands[0].reg], Type::b32);
    EXPECT_EQ(body.reg_types[body.operands[2].reg], Type::f64);
    EXPECT_EQ(body.reg_vector[4], 2);
}

TEST(PtxBody, InnerScopesHideOuterNames) {
    Parsed p = entry(
        "{ .reg .f32 %r1; .reg .pred gv; mov.f32 %r1, 0f00000000; { .reg .b16 %r<2>; mov.b16 %r1, 5; } mov.f32 %r1, %r1; }\n"
        "mov.b32 %r1, 5; mov.u64 %d1, gv;");
    ASSERT_TRUE(p.body);
    auto type_of = [&](size_t i) { return p.body->reg_types[p.operand(i, 0).reg]; };
    EXPECT_EQ(type_of(0), Type::f32);
    EXPECT_EQ(type_of(1), Type::b16);
    EXPECT_EQ(type_of(2), Type::f32);
    EXPECT_EQ(type_of(3), Type::b32);
    EXPECT_EQ(p.operand(4, 1).symbol.kind, SymbolRef::Kind::variable);
    ASSERT_EQ(p.body->scopes.size(), 3u);
    EXPECT_EQ(p.body->scopes[2].parent, 1u);
    EXPECT_EQ(p.body->scopes[1].first_instruction, 0u);
    EXPECT_EQ(p.body->scopes[1].end_instruction, 3u);
}

TEST(PtxBody, LabelsBelongToTheirBlock) {
    Parsed p = entry("top: { top: @%p1 bra top; bra end; } { top: bra.uni top; } bra top; end:");
    ASSERT_TRUE(p.body);
    auto target = [&](size_t i) { return p.body->labels[p.operand(i, 0).symbol.index].instruction; };
    EXPECT_EQ(target(0), 0u);
    EXPECT_EQ(target(1), 4u);
    EXPECT_EQ(target(2), 2u);
    EXPECT_EQ(target(3), 0u);
}

TEST(PtxBody, BranchTables) {
    Parsed p = entry("a: brx.idx %r1, table; b: exit; table: .branchtargets a, b, a;");
    ASSERT_TRUE(p.body);
    SymbolRef table = p.operand(0, 1).symbol;
    ASSERT_EQ(table.kind, SymbolRef::Kind::targets);
    const Targets& targets = p.body->targets[table.index];
    ASSERT_EQ(targets.entries.size(), 3u);
    EXPECT_EQ(targets.entries[0], targets.entries[2]);
    EXPECT_EQ(p.body->labels[targets.entries[1].index].instruction, 1u);
}

TEST(PtxBody, Calls) {
    Parsed p = entry(
        "call.uni (p32), callee, (%r1, p64);\n"
        "call (p32), %d1, (5, p64), proto;\n"
        "proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);\n"
        "call (p32), %d1, (%r1, %d2), list;\n"
        "list: .calltargets callee;");
    ASSERT_TRUE(p.body);
    ASSERT_EQ(p.body->calls.size(), 3u);
    const Call &direct = p.body->calls[0], &indirect = p.body->calls[1];
    EXPECT_EQ(direct.ret_count, 1u);
    EXPECT_EQ(direct.arg_count, 2u);
    EXPECT_EQ(p.body->operands[direct.target].symbol, p.module->find("callee"));
    EXPECT_EQ(p.body->operands[direct.first_arg + 1].symbol.kind, SymbolRef::Kind::local);
    EXPECT_EQ(p.body->operands[indirect.target].kind, Operand::Kind::reg);
    EXPECT_EQ(indirect.via.kind, SymbolRef::Kind::prototype);
    EXPECT_EQ(p.body->calls[2].via.kind, SymbolRef::Kind::targets);
    EXPECT_EQ(p[0].call, 0u);
}

TEST(PtxBody, LinesAndLocations) {
    Parsed p =
        entry(".loc 1 46 5\nmov.u32 %r1, 0;\n  .loc 2 7 9, function_name $L__info+12, inlined_at 1 46 3\n  mov.u32 %r2, 0;");
    ASSERT_TRUE(p.body);
    EXPECT_EQ(p[1].line, p[0].line + 2);
    EXPECT_EQ(p[1].column, 3u);
    EXPECT_EQ(p.body->locs[p[0].loc].line, 46u);
    EXPECT_EQ(p.body->locs[p[1].loc].file, 2u);
    EXPECT_EQ(p.body->locs[p[1].loc].tail, ", function_name $L__info+12, inlined_at 1 46 3");
}

TEST(PtxBody, Refusals) {
    struct {
        const char* text;
        const char* message;
    } const cases[] = {
        {"mov.u32 %r1, %nothing;", "unknown symbol '%nothing'"},
        {"mov.u32 %r1, %r9;", "unknown symbol '%r9'"},
        {"frob.u32 %r1;", "not a name of any known instruction: 'frob'"},
        {"add.frob.u32 %r1, %r1, 2;", "unknown modifier '.frob'"},
        {"bra nowhere;", "unknown symbol 'nowhere'"},
        {"{ inner: } bra inner;", "unknown symbol 'inner'"},
        {"l: l:", "duplicate definition of label 'l'"},
        {"@%r1 bra l; l:", "is not a predicate"},
        {"mov.u32 %r1 5;", "wanted ';'"},
        {".reg .b32 %r1; .reg .b32 %r1;", "duplicate definition of register"},
        {".reg .b32 x<5000000>;", "too many registers"},
        {"call %d1, (%r1);", "needs a prototype"},
        {"call gv, ();", "a call needs a function"},
        {"mov.f32 %f1, 0f123;", "wanted a constant"},
        {"ld.global.u32 %r1, [%d1-8];", "wanted ']'"},
        {"ld.global.u32 %r1, [%d1;", "wanted ']'"},
        {"mov.u32 %r1, ~1.5;", "not for floating-point"},
        {"brx.idx %r1, k2;", "unknown symbol 'k2'"},
        {"k2: .branchtargets gone;", "unknown symbol 'gone'"},
        {";", "wanted a statement"},
    };
    for (const auto& c : cases) {
        std::string message = first_message(with_entry(c.text));
        EXPECT_NE(message.find(c.message), std::string::npos) << c.text << "\n  gave: " << message;
    }
}

TEST(PtxBody, OneBadBodyLeavesTheOthersUsable) {
    auto result = parse(with_header(".entry bad() { frob; }\n.entry good() { ret; }"));
    ASSERT_TRUE(result.module);
    Diagnostics diagnostics;
    EXPECT_FALSE(parse_body(*result.module, *result.module->function("bad"), diagnostics));
    EXPECT_TRUE(parse_body(*result.module, *result.module->function("good"), diagnostics));
    ASSERT_EQ(diagnostics.size(), 1u);
    EXPECT_EQ(diagnostics[0].kind, DiagnosticKind::syntax);
    EXPECT_FALSE(result.module->function("bad")->body);
    EXPECT_FALSE(parse_body(*result.module, *result.module->function("bad"), diagnostics));  // and is not tried again
    EXPECT_EQ(diagnostics.size(), 1u);
}

// Hostile nesting and sizes end in a message.
TEST(PtxBody, BoundsHold) {
    std::string deep(100000, '(');
    EXPECT_NE(first_message(with_entry("mov.u32 %r1, " + deep + "1;")).find("nested too deeply"), std::string::npos);
    std::string minus(100000, '-');
    EXPECT_NE(first_message(with_entry("mov.u32 %r1, " + minus + "1;")).find("nested too deeply"), std::string::npos);
    std::string vectors;
    for (int i = 0; i < 100000; i++) vectors += "{";
    EXPECT_FALSE(first_message(with_entry("mov.u32 %r1, " + vectors)).empty());
    std::string blocks;
    for (int i = 0; i < 300; i++) blocks += "{\n";
    for (int i = 0; i < 300; i++) blocks += "}\n";
    EXPECT_FALSE(first_message(with_entry(blocks)).empty());
    std::string many = "add.u32 %r1";
    for (int i = 0; i < 1000; i++) many += ", %r2";
    EXPECT_NE(first_message(with_entry(many + ";")).find("too many operands"), std::string::npos);
    std::string mods = "add";
    for (int i = 0; i < 1000; i++) mods += ".lo";
    EXPECT_NE(first_message(with_entry(mods + " %r1;")).find("too many modifiers"), std::string::npos);
}

}  // namespace
}  // namespace warpline::softgpu::test
