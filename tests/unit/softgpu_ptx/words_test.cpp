// Tests of PTX's words.
#include <gtest/gtest.h>

#include <set>

#include "softgpu/passes/conformity.h"
#include "softgpu/passes/rules.h"
#include "softgpu/ptx/types.h"

namespace warpline::softgpu {
namespace {

using namespace ptx;

TEST(PtxWords, EveryOpcodeIsFoundByItsSpelling) {
    for (size_t i = 0; i < size_t(Opcode::count); i++) EXPECT_EQ(opcode_from(to_string(Opcode(i))), Opcode(i));
    EXPECT_EQ(opcode_from("frob"), Opcode::count);
    EXPECT_EQ(opcode_from(""), Opcode::count);
}

TEST(PtxWords, EveryModifierIsFoundByItsSpellingAndNoneIsSpelledTwice) {
    std::set<std::string_view> spellings;
    for (size_t i = 0; i < size_t(Mod::count); i++) {
        EXPECT_EQ(mod_from(to_string(Mod(i))), Mod(i)) << to_string(Mod(i));
        EXPECT_TRUE(spellings.insert(to_string(Mod(i))).second) << to_string(Mod(i));
    }
    EXPECT_EQ(mod_from("nonsense"), Mod::count);
}

TEST(PtxWords, TypesAreTheFirstModifiers) {
    for (size_t i = 0; i < size_t(Type::none); i++) {
        EXPECT_TRUE(is_type(Mod(i)));
        EXPECT_EQ(to_type(to_mod(Type(i))), Type(i));
        EXPECT_EQ(to_string(Type(i)), to_string(to_mod(Type(i))));
    }
    EXPECT_FALSE(is_type(Mod::lo));
    EXPECT_EQ(to_type(Mod::lo), Type::none);
}

TEST(PtxWords, SpecialRegisters) {
    for (size_t i = 0; i < size_t(SpecialReg::count); i++) EXPECT_EQ(special_reg_from(to_string(SpecialReg(i))), SpecialReg(i));
}

TEST(PtxWords, SizesOfTypes) {
    struct {
        Type type;
        uint32_t bits;
    } const cases[] = {{Type::pred, 1},    {Type::u8, 8},   {Type::b16, 16}, {Type::f16, 16},
                       {Type::f16x2, 32},  {Type::s32, 32}, {Type::f64, 64}, {Type::b128, 128},
                       {Type::texref, 64}, {Type::e4m3, 0}, {Type::none, 0}};
    for (auto [type, bits] : cases) EXPECT_EQ(bits_of(type), bits) << to_string(type);
}

// PTX ISA, "Operand Type Checking", tables of permitted register types.
TEST(PtxTypes, ConformityOfRegisters) {
    struct {
        Type reg, wanted;
        bool may_be_wider, fits;
    } const cases[] = {
        {Type::b32, Type::f32, false, true},   {Type::f32, Type::b32, false, true},    {Type::s32, Type::u32, false, true},
        {Type::f32, Type::u32, false, false},  {Type::u32, Type::f32, false, false},   {Type::b64, Type::u32, false, false},
        {Type::b64, Type::u32, true, true},    {Type::u64, Type::u8, true, true},      {Type::f64, Type::f32, true, false},
        {Type::f32, Type::b16, true, true},    {Type::b16, Type::b32, true, false},    {Type::pred, Type::b8, true, false},
        {Type::pred, Type::pred, false, true}, {Type::b16, Type::bf16, false, true},   {Type::b32, Type::f16x2, false, true},
        {Type::f16, Type::bf16, false, false}, {Type::f32, Type::f16x2, false, false}, {Type::u32, Type::u16x2, false, true},
    };
    for (const auto& c : cases)
        EXPECT_EQ(passes::conforms(c.reg, c.wanted, c.may_be_wider), c.fits)
            << to_string(c.reg) << " as " << to_string(c.wanted);
}

// Compiles every row of the tables of forms: a word in them that does not exist ends the process.
TEST(PtxRules, TablesAreSound) {
    size_t rules = 0;
    for (size_t i = 0; i < size_t(Opcode::count); i++) rules += passes::rules_of(Opcode(i)).size();
    EXPECT_GT(rules, 200u);
    EXPECT_TRUE(passes::rules_of(Opcode::call).empty());  // checked by hand
}

}  // namespace
}  // namespace warpline::softgpu
